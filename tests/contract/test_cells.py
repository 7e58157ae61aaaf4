"""The settings of every method: read back as they were, and refused where the method would not read them."""

import json

import pytest

from dpgraph.config.cell import Cell
from dpgraph.core.errors import UserError
from dpgraph.families.registry import specs
from dpgraph.planning.resolve import resolve
from tests.contract.cells import CELLS, raw_cells

FIRST = {cell.method: name for name, cell in reversed(CELLS.items())}  # a cell of each method
SECTIONS = ("task", "model", "training", "privacy", "pagerank")


def fields_of(kind: type[Cell], section: str) -> set[str]:
    """None for a section that the method does not have."""
    part = kind.model_fields.get(section)
    return set(getattr(part.annotation, "model_fields", ())) if part is not None else set()


FOREIGN = [
    (method, section, field)
    for method, spec in specs().items()
    for section in SECTIONS
    for field in sorted(set().union(*(fields_of(one.cell, section) for one in specs().values())))
    if fields_of(spec.cell, section) and field not in fields_of(spec.cell, section)
]


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_is_read_back_as_it_was(name):
    cell = CELLS[name]
    assert type(cell) is specs()[cell.method].cell
    for value in (cell.model_dump(), json.loads(cell.model_dump_json())):
        again = resolve(value)
        assert (again, type(again), again.slug) == (cell, type(cell), cell.slug)
        assert again.calibration_key == cell.calibration_key


@pytest.mark.parametrize("method", FIRST)
def test_what_only_other_methods_read_is_refused(method):
    value, cell = raw_cells()[FIRST[method]], CELLS[FIRST[method]]
    for section, field in (place for name, *place in FOREIGN if name == method):
        with pytest.raises(UserError, match=rf"^there: {section}\.{field}=0\.125: unknown key"):
            resolve({**value, section: {**value.get(section, {}), field: 0.125}}, "there")
        assert resolve({**value, section: {**value.get(section, {}), field: None}}) == cell, (section, field)


def test_every_kind_of_setting_is_tried():
    assert {section for _, section, _ in FOREIGN} >= {"training", "privacy"}
    for one in (
        ("dp-gnn", "privacy", "neighbour_clip_ratio"),
        ("dp-lots", "privacy", "max_degree"),
        ("dp-subgraph", "training", "batch_size"),
        ("dp-gnn", "training", "weight_decay"),
        ("dp-gnn", "training", "patience"),  # reads validation labels, which nothing would account for
        ("dp-mlp", "training", "patience"),
        ("dp-residual", "training", "stop_on"),
        ("dp-gnn", "training", "max_degree"),
        ("random", "training", "train_share"),
    ):
        assert one in FOREIGN


@pytest.mark.parametrize("method", specs())
def test_a_section_is_there_exactly_where_the_method_has_it(method):
    value, spec = raw_cells()[FIRST[method]], specs()[method]
    if "pagerank" in spec.cell.model_fields:
        with pytest.raises(UserError, match=r"^cell: pagerank: missing"):
            resolve({key: part for key, part in value.items() if key != "pagerank"})
    else:
        assert resolve({**value, "pagerank": None}) == CELLS[FIRST[method]]
        with pytest.raises(UserError, match=r"^cell: pagerank={'release': 'exact'}: unknown key"):
            resolve({**value, "pagerank": {"release": "exact"}})
    if spec.private:
        with pytest.raises(UserError, match=f"^cell: privacy=null: expected a budget for the method {method}$"):
            resolve({**value, "privacy": None})
    else:
        with pytest.raises(UserError, match=f"^cell: privacy=.*: expected null for the method {method}$"):
            resolve({**value, "privacy": {"epsilon": 1.0}})


@pytest.mark.parametrize("value", [None, [], "gnn", 3])
def test_what_is_no_cell_is_one_line(value):
    with pytest.raises(UserError, match=r"^there: expected a mapping of names to values$"):
        resolve(value, "there")
    for name in (value, {}, "x" * 500):
        if name == "gnn":
            continue
        with pytest.raises(
            UserError,
            match=r"^there: method=.{0,210}: expected one of appnp, appr, .*random, .*sgc, velickovic-gat$",
        ):
            resolve({"method": name}, "there")
