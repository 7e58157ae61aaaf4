"""`dpgraph.fit` and `dpgraph.compare`: errors and texts name arguments, never options of the command line."""

import inspect
from dataclasses import replace

import numpy as np
import pytest

import dpgraph
from dpgraph.core.errors import Invalid, UserError
from dpgraph.own_graph import compare, fit
from dpgraph.own_graph.arrays import from_arrays
from tests.own_graph.test_fit import small


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"epsilon": 0.0}, "epsilon=0.0: expected a number from "),
        ({"degree_bound": 0, "relation": "node-remove"}, "degree_bound=0: expected an integer in 1.."),
        ({"mean_degree": -1.0}, "mean_degree=-1.0: expected a number > 0"),
        ({"method": "vots"}, "method=vots: expected one of auto, "),
        ({"delta": 0.5}, "delta=0.5: expected a number > 0"),
        ({"labelled": 10**6}, "labelled=1000000: expected an integer in 1.."),
        ({"scope": "all-outputs", "relation": "node-remove"}, "scope all-outputs, relation node-remove: no epsilon"),
        ({"scope": "all-outputs", "method": "own"}, "scope all-outputs, method own: no epsilon"),
    ],
)
def test_errors_name_arguments(given, line):
    with pytest.raises(UserError) as raised:
        dpgraph.fit(replace(small(), split=small().roles), **{"epsilon": 4.0, **given})
    assert str(raised.value).startswith(line)
    assert "--" not in str(raised.value)
    if isinstance(raised.value, Invalid):
        assert raised.value.name == line.partition("=")[0]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"classes": "0,1"}, "classes='0,1': expected a list of texts"),
        ({"classes": {"0", "1", "2"}}, "classes={"),
        ({"classes": [None, "0"]}, "classes=[None, '0']: expected a list of texts"),
        ({"classes": 3}, "classes=3: expected a list of texts"),
        ({"public_column": "f0"}, "public_column='f0': expected a list of names"),
        ({"list_column": "f0"}, "list_column='f0': expected a list of names"),
        ({"directed": "no"}, "directed='no': expected True or False"),
        ({"epsilon": "4"}, "epsilon='4': expected a number"),
        ({"epsilon": True}, "epsilon=True: expected a number"),
        ({"words": True}, "words=True: expected a number"),
        ({"mean_degree": None}, "mean_degree=None: expected a number"),
        ({"delta": "x"}, "delta='x': expected a number"),
        ({"labelled": "9"}, "labelled='9': expected a whole number"),
        ({"labelled": 2.5}, "labelled=2.5: expected a whole number"),
        ({"seed": "a"}, "seed='a': expected a whole number"),
        ({"ranges": {"f0": 3}}, "ranges={'f0': 3}: expected a dictionary of columns"),
        ({"ranges": {"f0": ("a", 1)}}, "ranges={'f0': ('a', 1)}: expected a dictionary of columns"),
        ({"ranges": [("f0", 0, 1)]}, "ranges=[('f0', 0, 1)]: expected a dictionary of columns"),
        ({"method": None}, "method=None: expected a text"),
        ({"out": 3}, "out=3: expected a path"),
        ({"say": 5}, "say=5: expected a function of one text"),
    ],
)
def test_an_argument_of_another_type_is_refused(given, line):
    with pytest.raises(UserError) as raised:
        dpgraph.fit(np.zeros((2, 0), int), **{"epsilon": 4.0, "labels": [0, 1], **given})
    assert str(raised.value).startswith(line)


def test_a_model_is_loaded_from_a_path():
    with pytest.raises(UserError, match=r"^folder=5: expected a path$"):
        dpgraph.load(5)


@pytest.mark.parametrize("classes", [[0, 1, 2], np.arange(3), np.array(["0", "1", "2"]), ("0", "1", "2")])
def test_classes_may_be_numbers(classes):
    ends, labels = np.arange(60).reshape(2, 30), np.arange(60) % 3
    fitted = dpgraph.fit(ends, 4.0, labels=labels, features=np.eye(60, 4), classes=classes, seed=np.int64(1),
                         directed=np.bool_(False), labelled=np.int32(50))  # fmt: skip
    assert fitted.model.header.classes == ("0", "1", "2")


@pytest.mark.parametrize("kind", [np.int64, np.uint64, object])
def test_large_whole_numbers_are_classes_of_their_own(kind):
    labels = (2**53 + np.arange(60) % 3).astype(kind)
    own = from_arrays(np.zeros((2, 0), int), labels, np.eye(60, 4))
    assert own.classes == tuple(str(2**53 + place) for place in range(3))
    assert own.labels.tolist() == (np.arange(60) % 3).tolist()


@pytest.mark.parametrize(("kind", "first"), [(float, 2**53), (np.float32, 2**24)])
def test_large_labels_that_are_not_exact_are_refused(kind, first):
    with pytest.raises(UserError, match="labels so large are not exact"):
        from_arrays(np.zeros((2, 0), int), (first + np.arange(60) % 3).astype(kind), np.eye(60, 4))
    assert from_arrays(np.zeros((2, 0), int), (first - 1 - np.arange(60) % 3).astype(kind)).classes[-1] == str(
        first - 1
    )


@pytest.mark.parametrize("kind", [int, float, object])
def test_minus_one_is_no_label_unless_it_is_a_class(kind):
    edges, labels = np.zeros((2, 0), int), (np.arange(60) % 2 * 2 - 1).astype(kind)
    with pytest.raises(UserError, match="classes=1: expected at least 2: labels -1 mean none, unless --classes names"):
        from_arrays(edges, labels)
    assert from_arrays(edges, labels, classes=["-1", "1"]).labels.tolist()[:3] == [0, 1, 0]
    assert from_arrays(edges, labels, classes=["0", "1"]).labels.tolist()[:3] == [-1, 1, -1]


def test_an_entry_of_an_array_is_counted_from_0():
    labels = np.array(["a", "b"] * 30)
    with pytest.raises(UserError, match="row 0: label=a: expected one of --classes"):
        from_arrays(np.zeros((2, 0), int), labels, classes=["b", "c"])
    with pytest.raises(UserError, match="row 0: split=no"):
        from_arrays(np.zeros((2, 0), int), labels, split=["no"] * 60)


def test_compare_too():
    with pytest.raises(UserError, match=r"^seeds=0: expected an integer in 1\.\."):
        dpgraph.compare(small(), 4.0, seeds=0)
    with pytest.raises(UserError, match=r"^methods=vots: .* did you mean votes\?"):
        dpgraph.compare(small(), 4.0, methods=["vots"])


def test_what_is_assumed_names_arguments(tmp_path):
    said = []
    fitted = dpgraph.fit(replace(small(size=400), classes_given=False), 4.0, seed=0, say=said.append)
    assert np.isfinite(fitted.predictions).all()
    text = " ".join(said)
    assert "(classes states it)" in text
    assert "mean_degree" in text
    assert "--" not in text


@pytest.mark.parametrize("function", [fit.fit, compare.compare], ids=["fit", "compare"])
def test_help_has_every_argument(function):
    given = getattr(dpgraph, function.__name__)
    shown = inspect.signature(given).parameters
    assert {*shown} == ({*inspect.signature(function).parameters} | {"quiet"}) - {"command"}
    for name in shown:
        assert f"\n        {name}: " in given.__doc__, name
    for name, one in shown.items():
        if name not in ("say", "quiet"):
            assert one == inspect.signature(function).parameters[name]


def test_lines_go_to_stderr_unless_they_are_not_wanted(capsys):
    def said(**more):
        dpgraph.fit(replace(small(size=400), classes_given=False), 4.0, seed=0, **more)
        found = capsys.readouterr()
        assert found.out == ""
        return found.err

    assert "assumed: " in said()
    assert "Can this graph afford" in said()
    assert said(quiet=True) == ""
    own = []
    assert said(say=own.append) == ""
    assert own


def test_compare_speaks_too(capsys):
    options = {"seeds": 1, "methods": ["own"], "classes": ["0", "1"]}
    data = np.arange(80).reshape(2, 40) % 40
    labels, features = np.arange(40) % 2, np.eye(40, 4)
    dpgraph.compare(data, 4.0, labels=labels, features=features, **options)
    assert "split 1 of 1, own" in capsys.readouterr().err
    dpgraph.compare(data, 4.0, labels=labels, features=features, quiet=True, **options)
    assert capsys.readouterr().err == ""
    said = []
    dpgraph.compare(data, 4.0, labels=labels, features=features, say=said.append, **options)
    assert not any("protects hardly anybody" in line for line in said)
    dpgraph.compare(data, 100.0, labels=labels, features=features, say=said.append, **options)
    assert any("warning: of a Gaussian mechanism this epsilon protects hardly anybody: an" in line for line in said)


def test_a_doubtful_label_names_what_python_has(tmp_path):
    with pytest.raises(UserError) as caught:
        dpgraph.fit(np.array([[0, 1, 2, 3], [1, 2, 3, 0]]), 4.0, labels=["a", "unknown", "b", "a"])
    assert str(caught.value).endswith("Expected the classes stated (classes), or an empty cell for none")


@pytest.mark.parametrize("name", ["mine.gml", "mine.gexf"])
def test_a_graph_in_another_form_is_told_what_is_read(name, tmp_path):
    (tmp_path / name).write_text("graph [")
    with pytest.raises(UserError, match=r"or a \.graphml file .*: NetworkX reads others"):
        dpgraph.fit(tmp_path / name, 4.0)
