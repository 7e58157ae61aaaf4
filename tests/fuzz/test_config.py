"""config.yaml, and YAML and JSON as such."""

from __future__ import annotations

import json
from random import Random

import pytest
import yaml
from hypothesis import strategies as st

from dpgraph.cli.options import read_cell
from dpgraph.config.config import Config, load, parse
from dpgraph.config.documents import json_value, yaml_value
from dpgraph.core.errors import UserError, one_line, shown
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
json_pieces = (*"{}[],:-1 ", '"a"', '"a":', "NaN", "1e999", "9" * 5000, "\\ud800", "true")
json_texts = st.lists(st.sampled_from(json_pieces) | st.text(max_size=5), max_size=30).map("".join)


@fuzzed(400, seed=SEEDS)
def test_config_trees(seed):
    tree = mangled(CONFIG, Random(seed))
    if told(lambda: parse(Config, tree, "config.yaml")) is None:
        assert Config.model_validate(tree).arguments()


@fuzzed(200, seed=SEEDS)
def test_config_files(tmp_path_factory, seed):
    path = tmp_path_factory.getbasetemp() / "config.yaml"
    path.write_bytes(damaged(yaml.safe_dump(CONFIG).encode(), Random(seed)))
    told(lambda: load(Config, path))


@fuzzed(200, text=json_texts)
def test_json_texts(text):
    told(lambda: json_value(text, "cell.json"))
    told(lambda: read_cell("{" + text))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 2024-13-45", "a value that is none of its type: month must be in 1..12"),
        ("a: " + "9" * 5000, "Exceeds the limit"),
        ("a: !!int ''", "a value that is none of its type"),
        ("a: !!python/object/apply:os.system [true]", "could not determine a constructor"),
        ("a: 1\na: 2", "key a occurs twice"),
        ("a: [", "did not find expected node content"),
    ],
    ids=range(6),
)
def test_yaml_errors_are_one_line(text, message):
    line = told(lambda: yaml_value(text, "config.yaml"))
    assert line is not None
    assert message in line


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"a": ' + "9" * 5000 + "}", "Exceeds the limit"),
    ],
    ids=range(2),
)
def test_json_that_would_crash(text, message):
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
