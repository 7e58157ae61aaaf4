"""Options that the commands on a user's own graph share."""

import csv
import os
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from dpgraph.cli.options import Whole, only_one
from dpgraph.core.errors import UserError, invalid


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """Options that say what the graph is: --edges with --nodes, --graph or --dataset.

    Attributes:
        edges: Table of two columns of ids, CSV or Parquet (with --nodes).
        nodes: Table with a header: an id, a label (empty: to be predicted), numbers as features.
        graph: .npz file with arrays edge_index (2, E), y, and x, split, directed; or .graphml, .graphml.gz.
        dataset: A data set of the registry: dpgraph list datasets.
        id_column: Column of --nodes (default: id, or another usual name).
        label_column: Column of --nodes (default: label).
        source: Column of --edges: the first end (default: source, or another usual name).
        target: Column of --edges: the second end.
        missing: Label that means none, besides empty, nan, NA, None, null, ?, - and -1; may be repeated.
        split_column: Column of --nodes: train, val or test (default: split, if there is one). With --relation
            node-remove: train votes, all others receive.
        ignored: Column of --nodes that is no feature; may be repeated.
        ranges: COLUMN=LOW:HIGH: public range of a column of features, which becomes -1..1; COLUMN=as-is: it has
            nearly all of the norm, and may; may be repeated.
        directed: An edge is in the list of its first end alone.
        classes: The public class list, separated by commas; one with a comma in double quotes (default: with --dataset
            the registry's; else fit chooses them by noisy counts, which a tenth of epsilon pays for, and compare reads
            them exactly).
    """

    edges: Path | None = None
    nodes: Path | None = None
    graph: Path | None = None
    dataset: str | None = None
    id_column: Annotated[str | None, Parameter(name="--id")] = None
    label_column: Annotated[str | None, Parameter(name="--label")] = None
    source: str | None = None
    target: str | None = None
    missing: tuple[str, ...] = ()
    split_column: Annotated[str | None, Parameter(name="--split")] = None
    ignored: Annotated[tuple[str, ...], Parameter(name="--ignore")] = ()
    ranges: Annotated[tuple[str, ...], Parameter(name="--range")] = ()
    directed: bool = False
    classes: str | None = None

    def read(self) -> Any:
        """Return the graph."""
        from dpgraph.own_graph.scales import ranges_of, with_ranges

        only_one({"--edges": self.edges, "--graph": self.graph, "--dataset": self.dataset})
        ranges = ranges_of(self.ranges)
        return with_ranges(self._unscaled(list(ranges)), ranges)

    def _unscaled(self, kept: list[str]) -> Any:
        """Return the graph with features as they are. `kept`: columns that are features, whatever they look like."""
        import numpy as np

        from dpgraph.data.records import SPLIT_NAMES
        from dpgraph.own_graph.arrays import from_arrays, read_npz
        from dpgraph.own_graph.graph import held_out
        from dpgraph.own_graph.networkx_graphs import GRAPHML, read_graphml
        from dpgraph.own_graph.tables import read_csv_graph

        classes = None if self.classes is None else listed(self.classes)
        if self.edges is not None:
            if self.nodes is None:
                raise UserError("--edges: expected --nodes with it: a CSV file with an id and a label for each node")
            return read_csv_graph(
                self.edges, self.nodes, id_column=self.id_column, label_column=self.label_column,
                split_column=self.split_column, source=self.source, target=self.target, ignored=self.ignored,
                kept=kept, missing=self.missing, classes=classes, directed=self.directed,
            )  # fmt: skip
        if self.graph is not None and self.graph.name.endswith(GRAPHML):
            replace(self, label_column=None, split_column=None, ignored=())._refuse_columns()
            return read_graphml(
                self.graph, label=self.label_column, split=self.split_column, ignored=self.ignored,
                classes=classes, directed=self.directed or None,
            )  # fmt: skip
        self._refuse_columns()
        if self.graph is not None:
            if self.directed:
                raise UserError(f"--directed: expected in {self.graph}, as its array directed")
            return read_npz(self.graph, classes)
        name = self.dataset or ""
        raw, known = _dataset(name)
        named = {role: name for name, role in SPLIT_NAMES.items()}
        roles = [named[one] for one in held_out(raw.num_nodes).tolist()]
        number = known.expected.classes
        given = [str(one) for one in range(number)] if classes is None and number is not None else classes
        own = from_arrays(
            np.stack([raw.source, raw.target]).astype(np.int64),
            raw.labels,
            raw.features,
            roles,
            classes=given,
            directed=self.directed,
            where=name,
        )
        return replace(own, uncovered=(*raw.data_dependent, *known.upstream))

    def _refuse_columns(self) -> None:
        """Raise UserError for an option about --nodes, which would be ignored for another source."""
        if self.nodes is not None:
            raise invalid("--nodes", self.nodes, "--edges with it")
        for name, given in (("id", self.id_column), ("label", self.label_column), ("split", self.split_column),
                            ("source", self.source), ("target", self.target), ("missing", self.missing),
                            ("ignore", self.ignored)):  # fmt: skip
            if given:
                raise UserError(f"--{name}: expected --edges and --nodes with it: it is about their columns")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class PublicOptions:
    """Public facts that the rule of settings reads, besides sizes.

    Attributes:
        mean_degree: Public mean degree, for which settings are made (default: 10, or the registry's of a data set).
        words: Features are counts, and so many of a mean record are not 0: public (default: numbers of any kind).
        signed: Features may be negative, so none is dropped for a small sum: public (default: yes, but no with
            --words).
    """

    mean_degree: float | None = None
    words: float | None = None
    signed: Annotated[bool | None, Parameter(negative="--no-signed")] = None

    def stated(self, dataset: str | None = None) -> dict[str, Any]:
        """Return the given value, or the registry's of a data set, or else the package's default."""
        from dpgraph.own_graph.budget import MEAN_DEGREE

        known: dict[str, Any] = {"mean_degree": None, "words": None, "signed": None}
        if dataset is not None:
            from dpgraph.data.registry import entry

            expected = entry(dataset).expected
            known = {name: getattr(expected, name) for name in known}
            if known["mean_degree"] is None and expected.entries is not None and expected.nodes:
                known["mean_degree"] = expected.entries / expected.nodes
        known["mean_degree"] = known["mean_degree"] or MEAN_DEGREE
        return known | {name: given for name, given in vars(self).items() if given is not None}

    def uncovered(self, dataset: str | None = None) -> tuple[str, ...]:
        """Return a line for the card on values of `stated` that the registry's authors counted on the same files."""
        if dataset is None:
            return ()
        from dpgraph.data.registry import entry

        known = entry(dataset).expected
        counted = {"mean degree": self.mean_degree is None and (known.mean_degree or known.entries),
                   "words of a record": self.words is None and known.words}  # fmt: skip
        names = " and ".join(name for name, found in counted.items() if found)
        return (f"the registry's {names}: counted on the same files",) if names else ()


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class GuaranteeOptions:
    """Options that say what epsilon protects.

    Attributes:
        epsilon: Budget; or state --advantage.
        advantage: In the place of --epsilon: the most that an attacker's true positives exceed his false positives by
            (0: guessing, 1: certain).
        delta: Default: 1 / (10 N), N nodes.
        relation: node-null (a record), node-remove (a node with all its edges) or edge.
        degree_bound: With node-remove: no node has more edges, by a public schema and not by looking.
        scope: others, or all-outputs (all predictions may be published).
    """

    epsilon: float | None = None
    advantage: float | None = None
    delta: float | None = None
    relation: str = "node-null"
    degree_bound: Whole | None = None
    scope: str = "others"

    def check(self, method: str) -> None:
        """Raise UserError, before data are read, for options without a possible promise."""
        from dpgraph.own_graph.fit import check_options

        check_options(method, self.relation, self.scope, self.epsilon, self.degree_bound, self.advantage)


METHOD = """auto, votes (the default by rule), own (own records alone) or votes-learnt (votes, whose reader is learnt
from labels: for graphs of many edges; single edges are protected less)."""
Method = Annotated[str, Parameter(help=" ".join(METHOD.split()))]
DATA, PUBLIC, GUARANTEE = GraphOptions(), PublicOptions(), GuaranteeOptions()


def listed(text: str) -> list[str]:
    """Return names separated by commas; one with a comma is in quotes, as in a CSV file."""
    return [name.strip() for row in csv.reader([text], skipinitialspace=True) for name in row or [""]]


def _dataset(name: str) -> tuple[Any, Any]:
    """Fetch a graph of the registry and return it as it was read, and the registry's entry."""
    from dpgraph.data.fetch import fetch, mirrors_from, with_home
    from dpgraph.data.raw_graph import RawGraph
    from dpgraph.data.readers import read
    from dpgraph.data.registry import registry

    known = registry()
    if name not in known:
        raise invalid("--dataset", name, f"one of {', '.join(sorted(known))}")
    with tempfile.TemporaryDirectory() as folder:
        fetch(name, Path(folder), with_home(name, mirrors_from([], os.environ)), missing="fail")
        raw = read(known[name], Path(folder))
    if not isinstance(raw, RawGraph):
        raise invalid("--dataset", name, "a graph")
    return raw, known[name]
