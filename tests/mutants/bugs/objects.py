"""Graphs in memory: masks, orientations, sizes, and what is said of them."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit

ARRAYS, OBJECTS = "dpgraph.own_graph.arrays:", "dpgraph.own_graph.objects:"
NETWORKX, PYTHON = "dpgraph.own_graph.networkx_graphs:", "dpgraph.own_graph.python:"
OF_SHAPES, OF_PYTHON = "tests/own_graph/test_object_shapes.py::", "tests/own_graph/test_python.py::"
SAME = OF_SHAPES + "test_a_shape_is_read_as_the_reference_graph[{}]"
REFUSED = OF_SHAPES + "test_a_shape_is_refused_in_one_line[{}]"
SPLIT = OF_SHAPES + "test_what_is_outside_of_the_training_mask_is_held_out[{}]"
UNREAD = OF_SHAPES + "test_what_is_not_read_is_named[{}]"

BUGS = (
    edit(
        "a node outside of the training mask trains",
        ARRAYS + "mask_roles",
        "'test' if 'train' in masks else 'train'",
        "'train'",
        SPLIT.format("train alone"),
    ),
    edit(
        "masks count only where all three are there",
        ARRAYS + "mask_roles",
        "not masks",
        "len(masks) < 3",
        SPLIT.format("train and test"),
    ),
    edit(
        "a node of two masks trains",
        ARRAYS + "mask_roles",
        "len(twice)",
        "False",
        REFUSED.format("overlap"),
    ),
    edit(
        "a second mask of a role replaces the first",
        ARRAYS + "mask_roles",
        "role in masks",
        "False",
        REFUSED.format("two of a role"),
    ),
    edit(
        "the first of several splits is taken",
        ARRAYS + "_mask",
        "if array.ndim == 2: ...",
        "if array.ndim == 2: array = array[:, 0]",
        REFUSED.format("two splits"),
    ),
    edit(
        "indices are a mask",
        ARRAYS + "_mask",
        "np.isin(array, (0, 1)).all()",
        "True",
        REFUSED.format("indices as a mask"),
    ),
    edit(
        "negative indices are nodes from the end",
        ARRAYS + "_mask",
        "0 <= array.min() <= array.max() < size",
        "array.max() < size",
        REFUSED.format("negative indices"),
    ),
    edit(
        "numbers of nodes are indices of a part",
        ARRAYS + "_mask",
        "len(np.unique(array)) < len(array)",
        "False",
        REFUSED.format("an index again"),
    ),
    edit(
        "masks beside a split are not seen",
        ARRAYS + "from_named",
        "split is None and 'split' in found and masks",
        "False",
        REFUSED.format("split and masks"),
    ),
    edit(
        "masks beside a split of NetworkX are not seen",
        NETWORKX + "from_networkx",
        "split is None and 'split' in of and masks",
        "False",
        REFUSED.format("both in NetworkX"),
    ),
    edit(
        "a data set's own split is not read",
        OBJECTS + "_geometric",
        "options['split'] is None and hasattr(data, 'get_idx_split')",
        "False",
        OF_SHAPES + "test_a_split_is_a_dictionary_too_and_that_of_the_data_set",
    ),
    edit(
        "adj_t is read as it is",
        ARRAYS + "from_named",
        "edges[::-1] if by == 'adj_t' else edges",
        "edges",
        SAME.format("adj_t-True"),
    ),
    edit(
        "an edge in each row is read as all first ends",
        ARRAYS + "pairs",
        "edges if edges.shape[0] == 2 else edges.T",
        "edges.reshape(2, -1)",
        SAME.format("(E, 2)-False"),
    ),
    edit(
        "two edges are read either way",
        ARRAYS + "pairs",
        "edges.shape == (2, 2)",
        "False",
        REFUSED.format("(2, 2)"),
    ),
    edit(
        "a stored zero is an edge",
        ARRAYS + "matrix_ends",
        "ends[:, weights != 0]",
        "ends",
        SAME.format("stored zero-False"),
    ),
    edit(
        "a matrix may have other nodes than labels",
        ARRAYS + "matrix_ends",
        "shape != (size, size)",
        "False",
        REFUSED.format("SciPy of another size"),
    ),
    edit(
        "indices beyond a sparse matrix are read",
        ARRAYS + "_joined_parts",
        "matrix.check_format(full_check=True)",
        "None",
        REFUSED.format("indices beyond it"),
    ),
    edit(
        "the stated number of nodes is not read",
        ARRAYS + "from_named",
        "int(values['num_nodes']) != len(y)",
        "False",
        REFUSED.format("num_nodes"),
    ),
    edit(
        "an unknown array is left",
        ARRAYS + "from_named",
        "strict and (not NOT_READ.fullmatch(name))",
        "False",
        REFUSED.format("unknown name"),
    ),
    edit(
        "one of two kinds of labels is taken",
        ARRAYS + "_found",
        "len(there) > 1",
        "False",
        REFUSED.format("two kinds of labels"),
    ),
    edit(
        "a matrix is made dense before its size is known",
        ARRAYS + "dense_rows",
        "math.prod(shape) > MOST_NUMBERS",
        "False",
        OF_SHAPES + "test_a_matrix_is_refused_before_it_is_made_dense",
    ),
    edit(
        "weights are left without a word",
        ARRAYS + "matrix_ends",
        "bool(((weights != 0) & (weights != 1)).any())",
        "False",
        UNREAD.format("SciPy"),
    ),
    edit(
        "what is left is not named",
        ARRAYS + "in_words",
        "not_read[:NAMED]",
        "not_read[:0]",
        UNREAD.format("edge_weight"),
    ),
    edit(
        "a collated data set is one graph",
        OBJECTS + "_geometric",
        "hasattr(data, '__getitem__') and hasattr(data, '__len__') and (not hasattr(data, 'stores'))",
        "False",
        OF_SHAPES + "test_a_data_set_of_several_graphs_is_refused",
    ),
    edit(
        "a batch of several graphs is one",
        OBJECTS + "_geometric",
        "several != 1",
        "False",
        REFUSED.format("Batch"),
    ),
    edit(
        "a number that a node lacks is none",
        NETWORKX + "_numbers",
        "if place is not None: ...",
        "if place is not None: return None",
        REFUSED.format("number that a node lacks"),
    ),
    edit(
        "an id of NetworkX is a feature",
        NETWORKX + "_columns",
        "ID_LIKE.fullmatch(str(name))",
        "False",
        OF_SHAPES + "test_numbers_of_nodes_are_no_feature",
    ),
    edit(
        "the number of a node is a feature",
        NETWORKX + "_columns",
        "(np.diff(row) == 1).all()",
        "False",
        OF_SHAPES + "test_numbers_of_nodes_are_no_feature",
    ),
    edit(
        "the first of several graphs in a file is taken",
        NETWORKX + "read_graphml",
        "len(graphs) != 1",
        "len(graphs) < 1",
        OF_SHAPES + "test_a_file_of_two_graphs_is_refused",
    ),
    edit(
        "a notebook is told nothing",
        PYTHON + "_listener",
        "log.info if quiet else partial(print, file=sys.stderr)",
        "log.info",
        OF_PYTHON + "test_lines_go_to_stderr_unless_they_are_not_wanted",
    ),
    edit(
        "quiet is not heard",
        PYTHON + "_listener",
        "log.info if quiet else partial(print, file=sys.stderr)",
        "partial(print, file=sys.stderr)",
        OF_PYTHON + "test_lines_go_to_stderr_unless_they_are_not_wanted",
    ),
)
