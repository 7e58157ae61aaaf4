"""Data sets, and what other packages read and judge of them."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit

BUGS = (
    edit(
        "a data set's entry names an unknown reader",
        "dpgraph.data.registry:_known_reader",
        "name not in READERS and not name.endswith('.py')",
        "False",
        "tests/data/test_registry.py::test_malformed_registry[reader]",
    ),
    edit(
        "importing ogb asks the network",
        "dpgraph.core.loading:ogb_module",
        "sys.modules['outdated'] = None",
        "sys.modules.pop('outdated', None)",
        "tests/data/test_against_ogb.py::test_ogb_asks_no_network",
    ),
    edit(
        "a folder of OGB lacks edges",
        "dpgraph.data.readers.ogb:_csv_graph",
        "count != expected",
        "False",
        "tests/data/test_readers.py::test_ogb_damage[fewer edges]",
    ),
    edit(
        "ogb judges none of its data sets",
        "dpgraph.problems.classification:evaluate",
        "judge is not None",
        "False",
        "tests/problems/test_evaluate.py::test_ogb_judges_its_own_data_sets_alone[ogbn-mag]",
    ),
)
