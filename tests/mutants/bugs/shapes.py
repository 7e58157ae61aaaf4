"""Readers of files that take one shape for another: each is noticed by the fuzz over shapes."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit

FILES, TABLES = "dpgraph.own_graph.table_files:", "dpgraph.own_graph.tables:"
EDGES = "dpgraph.own_graph.edge_tables:"
SHAPE = "tests/fuzz/test_shapes.py::test_a_shape_is_read_as_it_was_written_or_refused_in_one_line[{}]"
LINE = "tests/own_graph/test_table_files.py::test_what_is_not_sure_is_one_line_with_the_way_out[{}]"
OBJECT = "tests/own_graph/test_object_shapes.py::test_a_shape_is_refused_in_one_line[{}]"

BUGS = (
    edit(
        "every table is refused",
        FILES + "read_table",
        "not path.is_file()",
        "True",
        SHAPE.format("of_edges pandas to_csv()"),
    ),
    edit(
        "a row that ends too early is read",
        FILES + "_lines",
        "if len(wrong): ...",
        "if False: ...",
        LINE.format("a short row"),
    ),
    edit(
        "a second column of ids is a feature",
        TABLES + "_check_columns",
        "_plain(name) in ID_NAMES",
        "False",
        SHAPE.format("of_nodes two columns of ids"),
    ),
    edit(
        "truth values have other names in Parquet",
        FILES + "_parquet",
        "found.str.capitalize()",
        "found",
        SHAPE.format("of_nodes Parquet of truth values"),
    ),
    edit(
        "a number of no class is a class",
        "dpgraph.own_graph.labels:_check_classes",
        "NEGATIVE.fullmatch(text)",
        "False",
        LINE.format("labels that may be none: -999"),
    ),
    edit(
        "a column of a one-hot code is the label",
        TABLES + "_plain",
        "'[ _-](?=.)'",
        "'[ _-]'",
        LINE.format("labels as a one-hot code"),
    ),
    edit(
        "a matrix of nan has all edges",
        "dpgraph.own_graph.arrays:matrix_ends",
        "not np.isfinite(weights).all()",
        "False",
        OBJECT.format("nan for no edge"),
    ),
    edit(
        "masked cells are numbers",
        "dpgraph.own_graph.arrays:as_array",
        "np.ma.is_masked(value)",
        "False",
        OBJECT.format("masked x"),
    ),
    edit(
        "negative numbers are no labels",
        "dpgraph.own_graph.labels:label_texts",
        "(whole[missing] < -1).any()",
        "False",
        OBJECT.format("negative y"),
    ),
    edit(
        "names of centralities are features",
        "dpgraph.own_graph.edge_features:check_edge_features",
        "COMPUTED.fullmatch(name)",
        "False",
        "tests/own_graph/test_edge_features.py::test_a_name_that_edges_were_read_for_is_refused[PageRank]",
    ),
)
