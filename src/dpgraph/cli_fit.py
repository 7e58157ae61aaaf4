"""What `fit` and `predict` do: each reads its options and calls the package."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dpgraph.errors import Invalid, UserError, invalid

OPTIONS = {"degree_bound": "--degree-bound"}  # by names of settings


def add_fit(added: argparse.ArgumentParser) -> None:
    added.epilog = (
        "Example: dpgraph fit --edges edges.csv --nodes nodes.csv --epsilon 4 --out mine. Formats: docs/own-graph.md"
    )
    _data(added)
    added.add_argument("--labelled", type=int, help="public number of labels to train on (default: counted)")
    _method(added)
    _relation(added)
    _settings(added)
    _scope(added)
    added.add_argument("--seed", type=int, help="reproducible, for research: no release is written")
    text = "do not run audits of the mechanism (seconds) for the card"
    added.add_argument("--no-audit", action="store_true", help=text)
    added.add_argument("--out", type=Path, required=True, help="folder to make")


def _method(added: argparse.ArgumentParser) -> None:
    text = "auto, votes (the default by rule), own (own records alone) or votes-learnt (votes, whose reader is learnt "
    text += "from labels: for graphs of many edges; single edges are protected less)"
    added.add_argument("--method", default="auto", help=text)


def _scope(added: argparse.ArgumentParser) -> None:
    added.add_argument("--scope", default="others", help="others, or all-outputs (all predictions may be published)")


def _relation(added: argparse.ArgumentParser) -> None:
    added.add_argument(
        "--relation", default="node-null", help="what epsilon protects: node-null (a record; the default), node-remove "
        "(a node with all its edges), edge"
    )  # fmt: skip
    text = "node-remove: no node has more edges, by a public schema and not by looking"
    added.add_argument("--degree-bound", type=int, metavar="NUMBER", help=text)


def _settings(added: argparse.ArgumentParser) -> None:
    """What the public rule of settings reads besides sizes."""
    text = "public mean degree, for which settings are made (10; with --dataset: as the registry declares)"
    added.add_argument("--mean-degree", type=float, metavar="NUMBER", help=text)
    text = "features are counts, and so many of a mean record are not 0: public (default: numbers of any kind)"
    added.add_argument("--words", type=float, metavar="NUMBER", help=text)
    text = "features may be negative, so none is dropped for a small sum: public (default: yes, but no with --words)"
    added.add_argument("--signed", action=argparse.BooleanOptionalAction, help=text)


def _stated(options: argparse.Namespace) -> dict[str, Any]:
    """Mean degree, words and signs as given, or as the registry declares them of a data set; else the package's own."""
    from dpgraph.fitting.budget import MEAN_DEGREE

    declared: float | None = None
    words: float | None = None
    signed: bool | None = None
    if getattr(options, "dataset", None) is not None:
        from dpgraph.data.registry import entry

        expected = entry(options.dataset).expected
        words, signed, declared = expected.words, expected.signed, expected.mean_degree
        if declared is None and expected.entries is not None and expected.nodes:
            declared = expected.entries / expected.nodes
    degree = (declared or MEAN_DEGREE) if options.mean_degree is None else options.mean_degree
    return {
        "mean_degree": degree,
        "words": words if options.words is None else options.words,
        "signed": signed if options.signed is None else options.signed,
    }


def add_compare(added: argparse.ArgumentParser) -> None:
    added.epilog = "Example: dpgraph compare --edges edges.csv --nodes nodes.csv --epsilon 4. For the curator alone."
    _data(added)
    _relation(added)
    _settings(added)
    _scope(added)
    text = "separated by commas (default: all that state settings for own graphs but votes-learnt)"
    added.add_argument("--methods", help=text)
    added.add_argument("--seeds", type=int, default=5, help="random splits (5)")
    added.add_argument("--out", type=Path, help="folder to make")


def add_afford(added: argparse.ArgumentParser) -> None:
    added.epilog = "Example: dpgraph afford --nodes 20000 --classes 10 --labelled 4000 --epsilon 1. No data are read."
    added.add_argument("--nodes", type=int, required=True, help="N, public")
    added.add_argument("--classes", type=int, required=True, help="number of classes, public")
    added.add_argument("--labelled", type=int, required=True, help="labels to train on, a public number")
    added.add_argument("--epsilon", type=float, required=True)
    added.add_argument("--delta", type=float, help="default: 1 / (10 N)")
    _method(added)
    _relation(added)
    _scope(added)
    _settings(added)


def add_export(added: argparse.ArgumentParser) -> None:
    added.epilog = "Example: dpgraph export mine --out tables. In Python: dpgraph.load('mine').to_pyg()."
    text = "csv, or pyg: release.pt, for Data.from_dict(torch.load('release.pt')) of PyTorch Geometric (csv)"
    added.add_argument("--to", choices=["csv", "pyg"], default="csv", help=text)
    added.add_argument("model", type=Path, help="folder that fit made, or its release/")
    added.add_argument("--out", type=Path, required=True, help="folder to make")


def _data(added: argparse.ArgumentParser) -> None:
    """Options that say what the graph is, and the budget."""
    data = added.add_mutually_exclusive_group(required=True)
    data.add_argument("--edges", type=Path, help="CSV file with a header; the first two columns are ids (with --nodes)")
    data.add_argument("--graph", type=Path, help=".npz file with arrays edge_index (2, E), y, and x, split, directed")
    data.add_argument("--dataset", help="a data set of the registry: dpgraph list datasets")
    added.add_argument(
        "--nodes", type=Path, help="CSV file: an id, a label (empty: to be predicted), numbers as features"
    )
    added.add_argument("--id", default="id", metavar="COLUMN", help="of --nodes (id)")
    added.add_argument("--label", default="label", metavar="COLUMN", help="of --nodes (label)")
    added.add_argument("--split", metavar="COLUMN", help="of --nodes: train, val or test (split, if there is one)")
    added.add_argument("--ignore", action="append", default=[], metavar="COLUMN", help="of --nodes: no feature")
    text = "of --nodes: public range, which becomes -1..1"
    added.add_argument("--range", action="append", default=[], metavar="COLUMN=LOW:HIGH", help=text)
    added.add_argument("--directed", action="store_true", help="an edge is in the list of its first end alone")
    added.add_argument("--classes", help="the public class list, separated by commas (default: read from the data)")
    added.add_argument("--epsilon", type=float, required=True)
    added.add_argument("--delta", type=float, help="default: 1 / (10 N), N nodes")


def add_predict(added: argparse.ArgumentParser) -> None:
    added.epilog = "Example: dpgraph predict mine --nodes new.csv --edges new-edges.csv --out new-predictions.csv"
    added.add_argument("model", type=Path, help="folder that fit made, or its release/")
    added.add_argument("--nodes", type=Path, help="CSV file of new nodes: id and the model's features")
    added.add_argument("--edges", type=Path, help="CSV file: a new node and an old one (directed: in that order)")
    added.add_argument("--id", default="id", metavar="COLUMN", help="of --nodes (id)")
    text = (
        "in the place of --nodes and --edges, for a model of --graph or --dataset: .npz file with x of the new nodes "
    )
    text += "and edge_index, in which they follow the old ones"
    added.add_argument("--graph", type=Path, help=text)
    added.add_argument("--out", type=Path, required=True, help="CSV file")


def fit(options: argparse.Namespace) -> None:
    from dpgraph.fitting.fit import fit as fit_graph

    own = _own_graph(options)
    with _named_as_options():
        fitted = fit_graph(
            own,
            options.epsilon,
            method=options.method,
            relation=options.relation,
            scope=options.scope,
            delta=options.delta,
            labelled=options.labelled,
            degree_bound=options.degree_bound,
            seed=options.seed,
            audit=not options.no_audit,
            out=options.out,
            command=_published(options),
            say=print,
            **_stated(options),
        )
    print(f"{fitted.card['status']}: {options.out}")
    if options.seed is None:
        print(f"may be published: {options.out / 'release'} (card.md says what is protected)")
    if (options.out / "owners").is_dir():
        print(f"each row for its own node alone: {options.out / 'owners'}")
    checks = options.out / "curator" / "checks.json"
    print(f"for you alone, not private: {checks} ({_in_words(json.loads(checks.read_text(encoding='utf-8')))})")


@contextmanager
def _named_as_options() -> Iterator[None]:
    """What the package knows by the name of a setting is an option here."""
    try:
        yield
    except Invalid as error:
        option = OPTIONS.get(error.name)
        if option is None:
            raise
        raise error.called(option) from None


def _published(options: argparse.Namespace) -> str:
    """The command for the card: names of files and columns are the user's own and stay out of what is published."""
    said = [f"--epsilon {options.epsilon:g}"]
    for name in ("method", "relation", "scope"):
        said.append(f"--{name} {shlex.quote(getattr(options, name))}")
    if options.signed is not None:
        said.append("--signed" if options.signed else "--no-signed")
    for name in ("delta", "labelled", "mean-degree", "words", "degree-bound", "seed"):
        value = getattr(options, name.replace("-", "_"))
        said += [] if value is None else [f"--{name} {value:g}" if isinstance(value, float) else f"--{name} {value}"]
    said += [f"--{name}" for name in ("directed", "no-audit") if getattr(options, name.replace("-", "_"))]
    return f"dpgraph fit ... {' '.join(said)}"


def _in_words(checks: dict[str, Any]) -> str:
    accuracy, most = checks["accuracy_on_held_out"], checks["share_of_largest_class"]
    if accuracy is None:
        return "no label was held out, so accuracy is not known"
    right = f"{100 * accuracy:.1f} % right on {checks['held_out_labels']} held-out labels"
    return f"{right}; the largest class: {100 * most:.1f} %"


def _own_graph(options: argparse.Namespace) -> Any:
    from dpgraph.fitting.tables import from_arrays, read_csv_graph, read_npz

    classes = None if options.classes is None else [name.strip() for name in options.classes.split(",")]
    if options.nodes is not None and options.edges is None:
        raise invalid("--nodes", options.nodes, "--edges with it")
    if options.edges is not None:
        if options.nodes is None:
            raise UserError("--edges: expected --nodes with it: a CSV file with an id and a label for each node")
        return read_csv_graph(
            options.edges, options.nodes, id_column=options.id, label_column=options.label,
            split_column=options.split, ignored=options.ignore,
            ranges=options.range, classes=classes, directed=options.directed,
        )  # fmt: skip
    _check_of_nodes(options)
    if options.graph is not None:
        if options.directed:
            raise UserError(f"--directed: expected in {options.graph}, as its array directed")
        return read_npz(options.graph, classes)
    from dpgraph.data.fetch import fetch, mirrors_from
    from dpgraph.data.outside import with_home
    from dpgraph.data.raw_graph import RawGraph
    from dpgraph.data.readers import read
    from dpgraph.data.registry import registry

    known = registry()
    if options.dataset not in known:
        raise invalid("--dataset", options.dataset, f"one of {', '.join(sorted(known))}")
    with tempfile.TemporaryDirectory() as folder:
        fetch(options.dataset, Path(folder), with_home(options.dataset, mirrors_from([], os.environ)), missing="fail")
        raw = read(known[options.dataset], Path(folder))
    if not isinstance(raw, RawGraph):
        raise invalid("--dataset", options.dataset, "a graph")
    import numpy as np

    ends = np.stack([raw.source, raw.target]).astype(np.int64)
    return from_arrays(
        ends, raw.labels, raw.features, classes=classes, directed=options.directed, where=options.dataset
    )


def _check_of_nodes(options: argparse.Namespace) -> None:
    """Options that say how to read --nodes would silently say nothing of another source."""
    asked = {"--id": options.id != "id", "--label": options.label != "label", "--split": options.split is not None,
             "--ignore": bool(options.ignore), "--range": bool(options.range)}  # fmt: skip
    for name, given in asked.items():
        if given:
            raise UserError(f"{name}: expected --edges and --nodes with it: it is about a column of --nodes")


def predict(options: argparse.Namespace) -> None:
    import csv

    from dpgraph.fitting.model import load
    from dpgraph.fitting.new_nodes import read_new_nodes, read_new_npz

    _check_of_new_nodes(options)
    model = load(options.model)
    header = model.header
    if options.graph is not None:
        new = read_new_npz(header, options.graph)
    else:
        new = read_new_nodes(header, options.nodes, options.edges, options.id)
    ids, rows = new.ids, model.predict(new.features, new.lists)
    with options.out.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "prediction", *(f"probability of {name}" for name in header.classes)])
        writer.writerows(
            [name, header.classes[int(row.argmax())], *row.round(6).tolist()] for name, row in zip(ids, rows)
        )
    print(f"{options.out}: {len(rows)} rows, each for its own node", file=sys.stderr)


def _check_of_new_nodes(options: argparse.Namespace) -> None:
    """One source, and no option that would silently say nothing of it."""
    if options.graph is None:
        if options.nodes is None:
            raise UserError("predict: expected new nodes: --nodes (CSV) or --graph (.npz)")
        return
    given = {"--nodes": options.nodes is not None, "--edges": options.edges is not None, "--id": options.id != "id"}
    for name, there in given.items():
        if there:
            raise UserError(f"--graph, {name}: expected one of them: a .npz file holds its own nodes and edges")


def compare(options: argparse.Namespace) -> None:
    from dpgraph.fitting.compare import compare as compare_methods
    from dpgraph.fitting.compare import table, write

    if options.out is not None and options.out.exists():
        raise invalid("--out", options.out, "a folder that does not exist yet")
    names = None if options.methods is None else [name.strip() for name in options.methods.split(",")]
    own = _own_graph(options)
    with _named_as_options():
        found = compare_methods(
            own, options.epsilon, seeds=options.seeds, methods=names, relation=options.relation, scope=options.scope,
            delta=options.delta, degree_bound=options.degree_bound,
            say=lambda line: print(line, file=sys.stderr), **_stated(options),
        )  # fmt: skip
    print(table(found))
    print("not private, not to be released: what reads held-out labels, and what is chosen by it, has no epsilon")
    if options.out is not None:
        write(found, options.out)


def afford(options: argparse.Namespace) -> None:
    from dpgraph.fitting.budget import PublicNumbers, budgeted
    from dpgraph.fitting.fit import afford as in_words
    from dpgraph.fitting.fit import check_asked
    from dpgraph.privacy.relation import Relation

    for name, least in (("nodes", 2), ("classes", 2), ("labelled", 1)):
        if not least <= getattr(options, name) <= 10**9:
            raise invalid(f"--{name}", getattr(options, name), f"an integer in {least}..10^9")
    if options.labelled > options.nodes:
        raise invalid("--labelled", options.labelled, f"at most --nodes {options.nodes}")
    check_asked(options.method, options.relation, options.scope, options.epsilon, options.degree_bound)
    relation = Relation(options.relation)
    numbers = PublicNumbers(
        options.nodes, options.labelled, options.classes,
        voters=options.labelled if relation is Relation.NODE_REMOVE else None,
        degree_bound=options.degree_bound, **_stated(options),
    )  # fmt: skip
    every = options.scope == "all-outputs"
    asked = {"epsilon": options.epsilon, "delta": options.delta}
    what = budgeted(options.method, numbers, **asked, relation=relation, all_outputs=every)
    print(in_words(what, labelled=options.labelled, classes=options.classes, all_outputs=every))


def export(options: argparse.Namespace) -> None:
    from dpgraph.fitting.model import load

    if options.out.exists():
        raise invalid("--out", options.out, "a folder that does not exist yet")
    model = load(options.model)
    for path in model.write_pyg(options.out) if options.to == "pyg" else model.write_csv(options.out):
        print(path)
