"""`dpgraph.fit` and `dpgraph.compare`: what the command line calls, with errors that name arguments, not options."""

from __future__ import annotations

import inspect
import logging
import re
import sys
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, TypeVar, cast

from dpgraph.core.errors import Invalid, UserError
from dpgraph.own_graph import compare as comparing
from dpgraph.own_graph import fit as fitting

log = logging.getLogger("dpgraph")
F = TypeVar("F", bound=Callable[..., Any])
RANGE = re.compile(r"--range '?([^=']+)'?=(LOW:HIGH|as-is)")
IGNORE = re.compile(r"--ignore\b( '[^']*'| COLUMN)?")
MISSING = re.compile(r" \(--missing=[^)]*\)")
OPTION = re.compile(r"(?<![\w-])--(no-)?([a-z][a-z-]*)")
ARGUMENTS = {"label": "labels", "range": "ranges"}  # that are not called as the option

DATA = """data: The graph, as one of these. What was read, and what was left, is said before anything is trained.
            A `Data` of PyTorch Geometric, or a data set of one graph: `edge_index` or `adj_t`, `y`, `x`, masks.
            A NetworkX graph: attributes of nodes that are numbers are features; `label`, `split` and masks.
            A SciPy matrix, a tensor or an array (N, N), or an array of edges (2, E) or (E, 2): with `labels`.
            OGB's pair (graph, labels), or its data set, with the split that it has.
            A dictionary of arrays, or the path of a .npz file, with names such as edge_index, x, y and train_mask.
            The path of a .graphml or .graphml.gz file, read as a NetworkX graph.
            A pair of paths of CSV files, (edges, nodes).
        epsilon: Budget, a number > 0.
        advantage: In the place of epsilon: what an attacker's true positives may exceed false positives by.
        labels: One for each node of a matrix or an edge array: texts, or whole numbers; -1, NaN, None or "": none. For
            NetworkX, GraphML and CSV: the name of the attribute or column (default: label).
        features: (N, F) numbers beside a matrix or an edge array, dense or sparse. For NetworkX and GraphML: names of
            the attributes to read (default: all that are numbers).
        classes: The public class list, as texts; labels that are numbers are "0", "1" and so on."""
PROMISE = """directed: Whether an edge is in the list of its first end alone (default: no, but as a NetworkX graph or a
            .npz file says)."""
PUBLIC = """relation: What epsilon protects: node-null (a record), node-remove (a node with all its edges) or edge.
        scope: others (everyone but the node itself), or all-outputs (all predictions may be published).
        delta: Below 1 / N (default: 1 / (10 N))."""
RULE = """mean_degree: Public mean degree, for which settings are made.
        words: Features are counts, and so many of a mean record are not 0: public (default: numbers of any kind).
        signed: Whether features may be negative: public (default: yes, but no with `words`).
        degree_bound: With node-remove: no node has more edges, by a public schema and not by looking.
        ranges: Public (low, high) of columns of features, by name, which become -1..1; None: a column stays as it
            is, and may have nearly all of the norm."""
SAYING = """say: Called with each line that is said (default: they go to stderr).
        quiet: Whether lines go to the logger `dpgraph` alone, and not to stderr."""
RAISES = """Raises:
        dpgraph.core.errors.UserError: In one line, for data, budgets and scopes that nothing can be promised for."""

FIT = f"""Train a private model of `data`, and return it with its privacy card and its predictions.

    Args:
        {DATA} Default: chosen by noisy
            counts, which a tenth of epsilon pays for.
        split: train, val or test for each node, in the order of the data; or a dictionary of masks or indices, such as
            OGB's; or the name of an attribute or column (default: split or masks of the data; else a tenth is held
            out).
        {PROMISE}
        method: auto, votes (the default by rule), own (own records alone) or votes-learnt.
        {PUBLIC}
        labelled: Public number of labels to train on (default: noisy counts of the classes that are chosen; with
            `classes` all nodes that train).
        {RULE}
        public_column: Names of columns that tell a node's number of edges and are public. Else they are refused.
        seed: Makes the run reproducible, for research: no release is written. Without it the noise is the operating
            system's.
        audit: Whether audits of the mechanism are run for the card of a release that is written.
        out: Folder to make, with release/, owners/ and curator/ (default: nothing is written).
        releases: File that lists the releases of these data (default: a file beside each input file, or beside `out`).
        {SAYING}

    Returns:
        `model` (with `save` and `predict`), `card`, `predictions` (N, C), `plan`, `folder` and `buckets`. Row i of
        predictions is for node `model.header.ids[i]` alone, unless the scope is all-outputs.

    {RAISES}
    """
COMPARE = f"""Compare methods on `data` at one epsilon; for the curator alone, since accuracies are private.

    Args:
        {DATA}
        {PROMISE}
        seeds: Number of random splits.
        methods: Names (default: all that state settings for own graphs but votes-learnt).
        {PUBLIC}
        {RULE}
        {SAYING}

    Returns:
        A row for each method that promises epsilon, and the reasons for which others are left out.

    {RAISES}
    """


def as_arguments(text: str) -> str:
    """`text` with the names that Python knows options by.

    >>> as_arguments("--degree-bound=0: expected an integer in 1..100 (or --no-signed)")
    'degree_bound=0: expected an integer in 1..100 (or signed=False)'
    >>> as_arguments("column age: give the public range (--range age=LOW:HIGH) or leave it out (--ignore)")
    "column age: give the public range (ranges={'age': (LOW, HIGH)}) or leave it out (features without it)"
    """
    text = RANGE.sub(lambda found: f"ranges={{{found[1]!r}: {'None' if found[2] == 'as-is' else '(LOW, HIGH)'}}}", text)
    text = MISSING.sub("", text)
    text = IGNORE.sub(lambda found: f"features without{found[1] or ' it'}", text)
    return OPTION.sub(lambda found: _argument(found[2]) + ("=False" if found[1] else ""), text)


def _argument(option: str) -> str:
    return ARGUMENTS.get(option, option.replace("-", "_"))


def _listener(quiet: bool) -> Callable[[str], None]:
    """Return what takes the lines that are said: stderr, or the logger alone."""
    return log.info if quiet else partial(print, file=sys.stderr)


def _for_python(function: F, text: str) -> F:
    """Return `function` with errors that name arguments, and lines on stderr unless it is called with `quiet`."""

    @wraps(function)
    def called(*arguments: Any, quiet: bool = False, say: Callable[[str], None] | None = None, **named: Any) -> Any:
        told = _listener(quiet) if say is None else say
        try:
            return function(*arguments, say=lambda line: told(as_arguments(line)), **named)
        except Invalid as error:
            raise error.called(as_arguments(error.name)) from None
        except UserError as error:
            raise type(error)(as_arguments(str(error))) from None

    known = inspect.signature(function)
    parameters = {name: one for name, one in known.parameters.items() if name != "command"}
    parameters["say"] = parameters["say"].replace(default=None, annotation="Callable[[str], None] | None")
    parameters["quiet"] = inspect.Parameter("quiet", inspect.Parameter.KEYWORD_ONLY, default=False, annotation="bool")
    called.__doc__ = text
    called.__signature__ = known.replace(parameters=[*parameters.values()])  # type: ignore[attr-defined]
    return cast(F, called)


fit = _for_python(fitting.fit, FIT)
compare = _for_python(comparing.compare, COMPARE)
