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
        "a row that ends too early is filled up",
        FILES + "_lines",
        "if len(short): ...",
        "if False: ...",
        SHAPE.format("of_nodes a short row"),
    ),
    edit(
        "a row whose id begins with # is a comment",
        FILES + "_comments_and_filled",
        "~whole & (frame.iloc[:, 1:] == '').all(axis=1).to_numpy()",
        "(frame.iloc[:, 1:] == '').all(axis=1).to_numpy()",
        SHAPE.format("of_nodes no edges, hashtags and nothing else"),
    ),
    edit(
        "names that are ids are an edge",
        EDGES + "_check_first",
        "not first[0]",
        "False",
        SHAPE.format("of_edges numbers as names, with an index"),
    ),
    edit(
        "row numbers after a comment are ends",
        EDGES + "_chosen",
        "not counted",
        "True",
        SHAPE.format("of_edges a comment, numbers of edges first, no header"),
    ),
    edit(
        "masks without the word are features",
        TABLES + "_check_columns",
        "_are_truths(table.columns[name])",
        "False",
        SHAPE.format("of_nodes masks named train, val, test"),
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
        "all pairs of nodes are edges",
        EDGES + "_check_weights",
        "len(zero)",
        "False",
        LINE.format("all pairs of nodes"),
    ),
    edit(
        "an open quote takes rows in",
        FILES + "_check_quotes",
        "len(taken)",
        "False",
        LINE.format("a quote that takes rows in"),
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
        "(y < -1).any()",
        "False",
        OBJECT.format("negative y"),
    ),
    edit(
        "names of centralities are features",
        "dpgraph.own_graph.edge_features:_check",
        "COMPUTED.fullmatch(name)",
        "False",
        "tests/own_graph/test_edge_features.py::test_a_name_that_edges_were_read_for_is_refused[PageRank]",
    ),
)
