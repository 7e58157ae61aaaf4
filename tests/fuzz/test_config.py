"""config.yaml, and YAML and JSON as such."""

from __future__ import annotations

import json
from random import Random

import pytest
import yaml
from hypothesis import strategies as st

from dpgraph.cli.options import read_cell
from dpgraph.errors import UserError, one_line, shown
from dpgraph.experiments.config import Config, load, parse
from dpgraph.experiments.documents import DEEPEST, json_value, read_yaml, yaml_value
from tests.fuzz.harness import SEEDS, fuzzed, told
from tests.fuzz.strategies import NASTY, SHARED, damaged, mangled

CONFIG = {
    "suite": "paper",
    "papers": ["daigavane", "igamberdiev"],
    "artefacts": ["daigavane/table1"],
    "seeds": 3,
    "device": "cpu",
    "mirrors": ["mirror", "/data"],
    "data": "data",
    "results": "results",
    "when_data_is_missing": "record",
}
PIECES = (
    *("a: ", "- ", "? ", ": ", "[", "]", "{", "}", ", ", "\n", "\n  ", "  ", "# ", "'", '"', "|\n ", ">-\n "),
    *("&a ", "*a", "&b ", "*b", "<<: ", "<<: *a", "!!int ", "!!float ", "!!map ", "!!set ", "!!omap ", "!!pairs "),
    *("!!binary ", "!!timestamp ", "!!bool ", "!!null ", "!!python/object/apply:os.system ", "!x ", "---\n", "...\n"),
    *("2024-13-45", "2024-02-30", "1:60:99", "0x", "0b2", ".inf", ".nan", "~", "1e999", "9" * 5000, "null", "yes"),
    *("suite: demo", "seeds: 1", "\t", "%YAML 9.9\n", "\x00", "\x85", "\ufeff", "\U0010ffff", "x" * 2000, "@", "`"),
)
yaml_texts = st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=40).map("".join)
json_pieces = (
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    '"a"',
    '"a":',
    "1",
    "-",
    "NaN",
    "1e999",
    "9" * 5000,
    "\\ud800",
    "true",
    " ",
)
json_texts = st.lists(st.sampled_from(json_pieces) | st.text(max_size=5), max_size=30).map("".join)


@fuzzed(900, seed=SEEDS)
def test_config_trees(seed):
    tree = mangled(CONFIG, Random(seed))
    if told(lambda: parse(Config, tree, "config.yaml")) is None:
        assert Config.model_validate(tree).arguments()


@fuzzed(500, seed=SEEDS)
def test_config_files(tmp_path_factory, seed):
    path = tmp_path_factory.getbasetemp() / "config.yaml"
    path.write_bytes(damaged(yaml.safe_dump(CONFIG).encode(), Random(seed)))
    told(lambda: load(Config, path))


@fuzzed(900, text=yaml_texts)
def test_yaml_texts(text):
    told(lambda: yaml_value(text, "config.yaml"))


@fuzzed(500, text=json_texts)
def test_json_texts(text):
    told(lambda: json_value(text, "cell.json"))
    told(lambda: read_cell("{" + text))


@fuzzed(300, content=st.binary(max_size=200))
def test_bytes(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "bytes.yaml"
    path.write_bytes(content)
    told(lambda: read_yaml(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- " * 300_000, f"nested more than {DEEPEST} deep"),  # a parser in C would overflow its stack
        ("[" * 300_000, f"nested more than {DEEPEST} deep"),
        ("a0: &a0 x\n" + "".join(f"a{i + 1}: &a{i + 1} [{f'*a{i}, ' * 9}]\n" for i in range(30)), "aliases followed"),
        ("a0: &a0 [x]\n" + "".join(f"a{i + 1}: &a{i + 1} [*a{i}]\n" for i in range(90)), "nested more than"),
        (
            "a0: &a0 {k: 1}\n" + "".join(f"a{i + 1}: &a{i + 1} {{<<: [{f'*a{i}, ' * 9}]}}\n" for i in range(30)),
            "aliases",
        ),
        ("a: &a [*a]", "an alias within what it names"),
        ("a: 1\n? [b]\n: 2", "a key that is a list or a mapping"),
        ("a: 2024-13-45", "a value that is none of its type: month must be in 1..12"),
        ("a: " + "9" * 5000, "Exceeds the limit"),
        ("a: !!int ''", "a value that is none of its type"),
        ("a: !!python/object/apply:os.system [true]", "could not determine a constructor"),
        ("x" * 2_000_000, "2000000 characters: expected at most 1048576"),
    ],
    ids=range(12),
)
def test_yaml_that_would_crash_or_never_end(text, message):
    line = told(lambda: yaml_value(text, "config.yaml"))
    assert line is not None
    assert message in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a": 1, "a": 2}', "key a occurs twice"),
        ('{"a": ' + "9" * 5000 + "}", "Exceeds the limit"),
    ],
    ids=range(3),
)
def test_json_that_would_crash_or_hide_a_value(text, message):
    assert message in str(told(lambda: json_value(text, "cell.json")))


def test_any_value_is_shown_in_one_short_line():
    for value in (*NASTY, SHARED):
        lines: list[str] = []
        assert told(lambda value=value, lines=lines: lines.append(shown(value))) is None
        assert lines[0].isprintable()
        assert len(lines[0]) <= 200


def test_messages_are_one_line():
    assert str(UserError("a\n b\x1b[2J\ud800")) == "a b\\x1b[2J\\ud800"
    assert one_line("plain  text") == "plain  text"


def test_an_empty_config_is_the_default_and_another_scalar_is_none(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("")
    assert load(Config, path) == Config()
    for text in ("0", "false", "[]", "''"):
        path.write_text(text)
        with pytest.raises(UserError, match="expected a mapping of names to values"):
            load(Config, path)


def test_options_of_a_config_survive_the_shell():
    assert json.loads(
        Config(data="a b'c").arguments().split("data=")[1].split(" --set")[0].replace("'\"'\"'", "'")[:-1]
    )
