"""What is written once for many entries: define, matrix, $name and sections, written out."""

import re
import textwrap
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpgraph.config.config import load, parse
from dpgraph.config.documents import yaml_value
from dpgraph.config.expansion import ExpandedModel, expanded
from dpgraph.config.experiment import (
    Artefact,
    Difference,
    Experiment,
    MethodRow,
    RelationalSettings,
    ReleaseAxis,
    Search,
    Sweep,
    View,
)
from dpgraph.config.layout import Layout
from dpgraph.config.suite import Grid, Headline, Rule, Suite, SuitePaper, SuiteTask
from dpgraph.core.errors import UserError

WORKFLOW = Path(__file__).resolve().parents[2] / "workflow"
SECTIONS = {"published_as": "published"}


def of(text):
    return expanded(yaml_value(text, "text"), SECTIONS)[0]


def refused(text, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        of(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_a_file_without_the_three_words_is_left_as_it_is():
    document = {"title": "costs $5, ${x} and $$", "methods": {"$a": {"with": 1}}}
    assert expanded(document) == (document, {})


AXES = st.dictionaries(
    st.sampled_from("abc"), st.lists(st.integers(0, 99), min_size=1, max_size=4, unique=True), min_size=1
)


@settings(max_examples=60, deadline=None)
@given(AXES)
def test_a_matrix_makes_the_whole_product_in_order(axes):
    """The last axis changes fastest, as in nested loops; values keep their types, keys are texts."""
    key = "-".join(f"${name}" for name in axes)
    body = {"matrix": axes, **{name: f"${name}" for name in axes}}
    made = expanded({"entries": {"first": 1, key: body, "last": 2}, "items": [{"x": 0}, body]})[0]
    wanted = [{}]
    for name, values in axes.items():
        wanted = [{**one, name: value} for one in wanted for value in values]
    names = ["-".join(str(value) for value in one.values()) for one in wanted]
    assert list(made["entries"]) == ["first", *names, "last"]
    assert [made["entries"][name] for name in names] == wanted
    assert made["items"] == [{"x": 0}, *wanted]


@settings(max_examples=60, deadline=None)
@given(AXES, st.data())
def test_what_is_excluded_is_missing_and_nothing_else(axes, data):
    full = expanded({"items": [{"matrix": axes, **{name: f"${name}" for name in axes}}]})[0]["items"]
    one = data.draw(st.sampled_from(full))
    kept = [other for other in full if other != one]
    if kept:
        matrix = {**axes, "exclude": [one]}
        assert expanded({"items": [{"matrix": matrix, **{name: f"${name}" for name in axes}}]})[0]["items"] == kept


PLAIN = st.recursive(
    st.one_of(
        *(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False)),
        st.text(st.characters(exclude_characters="$")),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=10,
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(PLAIN)
def test_a_name_alone_stands_for_its_value_whatever_it_is(value):
    result = expanded({"define": {"it": value}, "one": "$it", "two": ["${it}"]})[0]
    assert result["one"] == value
    assert result["two"] == (value if isinstance(value, list) else [value])


def test_texts_numbers_and_literal_signs():
    result = of("""
define: {x: 1.0, y: 0.25, big: 20000, name: Cora}
values: {"$x, $y": 1, a: "${name}-$big", b: $$x, c: "100 $ or $5", d: $x}
""")
    assert result["values"] == {"1, 0.25": 1, "a": "Cora-20000", "b": "$x", "c": "100 $ or $5", "d": 1.0}


def test_several_names_change_together_and_values_have_parts():
    result = of("""
define:
  bare: {id: "", with: {method: gnn}}
  noisy: {id: dp-, with: {method: dp-gnn, set: {privacy: {variant: rigorous}}}}
methods:
  ${by.id}gcn-$hops:
    matrix: {"hops, word": [[2, two], [1, one]], by: [$bare, $noisy]}
    label: $word
    set: {model: {hops: $hops}}
""")
    assert list(result["methods"]) == ["gcn-2", "dp-gcn-2", "gcn-1", "dp-gcn-1"]
    assert result["methods"]["gcn-1"] == {"label": "one", "set": {"model": {"hops": 1}}, "method": "gnn"}
    assert result["methods"]["dp-gcn-2"] == {
        "label": "two", "method": "dp-gnn", "set": {"model": {"hops": 2}, "privacy": {"variant": "rigorous"}},
    }  # fmt: skip


def test_sections_are_referred_to_and_own_keys_win():
    result = of("""
published_as:
  mlp: {"table1, table3": {model: "${dp}MLP"}, table9: {model: M}}
methods:
  $id:
    matrix: {"id, dp": [[mlp, ""], [dp-mlp, DP-]]}
    published_as: mlp
    published: {table9: {optimizer: Adam}, fig1: {model: M}}
""")
    assert result["methods"]["dp-mlp"]["published"] == {
        "table1": {"model": "DP-MLP"}, "table3": {"model": "DP-MLP"}, "table9": {"model": "M", "optimizer": "Adam"},
        "fig1": {"model": "M"},
    }  # fmt: skip
    assert "published_as" not in result["methods"]["mlp"]


def test_a_matrix_within_a_matrix_and_lists_that_are_added():
    result = of("""
define: {rules: [{a: 1}, $more], more: [{a: 2}]}
rules: [{a: 0}, $rules, {a: 3}]
grids:
  - matrix: {"task, sizes": [[x, [[1, 10], [2, 20]]], [y, [[3, 30]]]]}
    task: $task
    values: {$B: {matrix: {"B, steps": $sizes}, steps: $steps}}
""")
    assert result["rules"] == [{"a": number} for number in range(4)]
    assert result["grids"] == [
        {"task": "x", "values": {"1": {"steps": 10}, "2": {"steps": 20}}},
        {"task": "y", "values": {"3": {"steps": 30}}},
    ]


def test_places_name_the_matrix_and_the_index_in_the_file():
    _, places = expanded(
        yaml_value(
            "define: {s: [{a: 1}, {a: 2}]}\nrules: [{matrix: {k: [1, 2]}, k: $k}, $s, {z: 1}]\nm: {g: {}}", "text"
        ),
        {},
    )
    assert places == {
        "rules[0]": "rules[0], matrix", "rules[1]": "rules[0], matrix", "rules[2]": "rules[1], $s[0]",
        "rules[3]": "rules[1], $s[1]", "rules[4]": "rules[2]",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m: {x: {matrix: {}}}", "m.x.matrix={}: expected names, each with a list of values"),
        ("m: {x: {matrix: [1]}}", "m.x.matrix=[1]: expected names"),
        ("m: {x: {matrix: {a: []}}}", "m.x.matrix.a=[]: expected a list of values"),
        ("m: {x$a: {matrix: {a: 3}}}", "m.x$a.matrix.a=3: expected a list of values"),
        ("m: {x: {matrix: {a b: [1]}}}", "m.x.matrix.a b: expected a name of letters"),
        ("m: {x: {matrix: {1: [1]}}}", "m.x.matrix.1: expected a name of letters"),
        ("m: {x: {matrix: {'a, b': [[1]]}}}", "m.x.matrix.a, b: [1]: expected a list of 2 values"),
        ("m: {x: {matrix: {a: [1], 'a, b': [[1, 2]]}}}", "m.x.matrix: a, a, b: expected each name once"),
        ("m: {x: {matrix: {a: [1, 2]}}}", "m.x: made by m.x and m.x: expected by one"),
        ("m: {x-1: {y: 1}, x-$a: {matrix: {a: [1, 2]}}}", "m.x-1: made by m.x-1 and m.x-$a: expected by one"),
        ("m: {x-$a: {matrix: {a: [1, 2]}}, x-1: {y: 1}}", "m.x-1: made by m.x-$a and m.x-1: expected by one"),
        ("m: {$a: {matrix: {a: [1]}, y: $b}}", "m.$a.y: $b: unknown name: expected one of a"),
        ("m: {$a: {matrix: {a: [1]}, y: '${a.z}'}}", "${a.z}: no part z: expected one of none, it is 1"),
        ("m: {$a: {matrix: {a: [[1]]}}}", "m.$a: $a=[1]: expected a text or a number within a text"),
        ("m: {x$a: {matrix: {a: [true]}}}", "$a=True: expected a text or a number within a text"),
        ("m: {x: {matrix: {a: [{with: 3}]}}}", "m.x.matrix.a.with=3: expected a mapping"),
        ("m: {$a: {matrix: {a: [1], exclude: [{a: 2}]}}}", "matrix.exclude[0]={'a': 2}: excludes none: expected some"),
        ("m: {$a: {matrix: {a: [1], exclude: [{a: 1}]}}}", "excludes all that are left: expected some"),
        ("m: {$a: {matrix: {a: [1], exclude: [{b: 1}]}}}", "[0]={'b': 1}: expected a mapping with some of a"),
        ("m: {$a: {matrix: {a: [1], exclude: 1}}}", "matrix.exclude=1: expected a list"),
        ("define: [1]", "define=[1]: expected a mapping of names to values"),
        ("define: {a-b: 1}", "define.a-b: expected a name of letters"),
        ("define: {a: $a}\nx: $a", "x: $a: a name that stands for itself"),
        ("define: {a: x$a}\nx: $a", "a name that stands for itself"),
        ("define: {a: $b, b: $a}\nx: [$a]", "a name that stands for itself"),
        ("define: {a: [$a]}\nx: [$a]", "a name that stands for itself"),
        ("published_as: {x: {t: {}}}\nm: {r: {published_as: z}}", "m.r.published_as=z: expected one of x"),
        ("published_as: {x: {t: {}}}\nm: {r: {published_as: x, published: 1}}", "m.r.published=1: expected a mapping"),
        ("published_as: {x: {'t, t': {}}}", "published_as.x: t occurs twice"),
        ("published_as: {x: 1}", "published_as.x=1: expected a mapping"),
        ("matrix: {a: [1]}", "matrix: expected in an entry"),
        ("x: [[1], {matrix: {a: [1]}, b: {c: [{matrix: 1}]}}]", "x[1].b.c[0].matrix=1: expected names"),
    ],
)  # fmt: skip
def test_mistakes_name_the_users_own_key(text, message):
    refused(text, message)


def test_an_error_of_a_file_is_one_line(tmp_path):
    path = tmp_path / "suite.yaml"
    path.write_text("define: {a: [1]}\nname: $x\n")
    with pytest.raises(UserError, match=r"suite.yaml: name: \$x: unknown name: expected one of a") as caught:
        load(Suite, path)
    assert "\n" not in str(caught.value)
    rest = {"paper": "p", "title": "t", "citation": "c", "published": "p", "artefacts": {}}
    with pytest.raises(UserError, match="here: methods=3: expected a valid dictionary"):
        parse(Experiment, {**rest, "methods": 3}, "here")
    with pytest.raises(UserError, match=r"here: methods\.a\.published_as=x: unknown key"):
        parse(Experiment, {**rest, "methods": {"a": {"label": "l", "method": "gnn", "published_as": "x"}}}, "here")


PAGE = WORKFLOW.parent / "docs/reference/workflow-files.md"


def test_the_examples_of_the_page():
    blocks = [textwrap.dedent(text) for text in re.findall(r"^ *```yaml\n(.*?)^ *```$", PAGE.read_text(), re.S | re.M)]
    _, rows, values, parts, _, varies, wide, published, *_ = (of(text) for text in blocks)
    assert set(varies["varies"]) == {"epochs", "training.learning_rate", "privacy.list_cap"}
    assert list(rows["methods"]) == ["dp-gcn-2", "dp-gcn-1"]
    assert list(values["values"]) == ["3", "5", "7", "none"]
    assert parts["dp-gcn"] == {
        "label": "DP-GCN",
        "method": "dp-gnn",
        "set": {"privacy": {"variant": "rigorous"}},
    }
    columns = len(wide["layout"]["columns"])
    assert all(len(cells) == columns for block in wide["layout"]["rows"].values() for cells in block.values())
    assert published["methods"]["dp-mlp"]["published"]["table9"] == {"model": "DP-MLP (Adam)"}


def _keys(model):
    more = {"define", *model.SECTIONS} if issubclass(model, ExpandedModel) else set()
    return {*model.model_fields, *more}


@pytest.mark.parametrize(
    "model",
    [Experiment, MethodRow, Artefact, Sweep, Search, ReleaseAxis, RelationalSettings, Difference, Layout,
     Suite, SuiteTask, SuitePaper, Headline, Rule, Grid],
    ids=lambda model: model.__name__,
)  # fmt: skip
def test_the_page_explains_every_key(model):
    assert _keys(model) - set(re.findall(r"`([a-z_]+)`", PAGE.read_text())) == set()


def test_the_page_explains_every_view():
    assert set(get_args(View)) - set(re.findall(r"`([a-z-]+)`", PAGE.read_text())) == set()
