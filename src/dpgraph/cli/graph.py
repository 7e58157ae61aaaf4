"""Commands on a user's own graph."""

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from dpgraph.cli.graph_options import DATA, GUARANTEE, PUBLIC, GraphOptions, GuaranteeOptions, Method, PublicOptions
from dpgraph.cli.options import Whole
from dpgraph.core.errors import Invalid, UserError, invalid

SEED_KNOWN = "anyone who has the seed can take the noise off; not to be published"
PublicColumns = Annotated[tuple[str, ...], Parameter(name="--public-column")]


def fit(
    *,
    data: GraphOptions = DATA,
    labelled: Whole | None = None,
    method: Method = "auto",
    guarantee: GuaranteeOptions = GUARANTEE,
    public: PublicOptions = PUBLIC,
    public_column: PublicColumns = (),
    list_column: Annotated[tuple[str, ...], Parameter(name="--list-column")] = (),
    seed: Whole | None = None,
    no_audit: bool = False,
    out: Path,
    releases: Path | None = None,
) -> None:
    """Train a private model on your own graph, with a privacy card.

    Formats: docs/reference/own-graph.md.

    Example: dpgraph fit --edges edges.csv --nodes nodes.csv --classes chess,hiking,music --epsilon 4 --out mine

    Args:
        labelled: Public number of labels to train on (default: noisy counts of the classes that are chosen; with
            --classes all nodes that train).
        public_column: Column that tells a node's number of edges and is public, the same whichever edges or records
            are missing; may be repeated. Else it is refused.
        list_column: Column that is made from the node's own list, such as its length; may be repeated. With node-null
            alone: then no epsilon of an edge is stated.
        seed: Reproducible, for research: no release is written.
        no_audit: Do not run audits of the mechanism (seconds) for the card.
        out: Folder to make.
        releases: File that lists the releases of these data (default: one next to each input file, or next to --out).
    """
    from dpgraph.core.files import check_out
    from dpgraph.own_graph.fit import fit as fit_graph

    guarantee.check(method)
    check_out(out)
    own = data.read()
    own = replace(own, uncovered=(*own.uncovered, *public.uncovered(data.dataset)))
    published = _published(method, guarantee, public, labelled, seed, directed=data.directed, no_audit=no_audit)
    fitted = fit_graph(
        own, method=method, labelled=labelled, public_column=public_column, list_column=list_column, seed=seed,
        audit=not no_audit, out=out, releases=releases, command=published, say=print, **vars(guarantee),
        **public.stated(data.dataset),
    )  # fmt: skip
    print(f"{fitted.card['status']}: {out}")
    if seed is None:
        print(f"may be published: {out / 'release'} (card.md says what is protected)")
    if (out / "owners").is_dir():
        print(f"each row for its own node alone: {out / 'owners'}")
    checks = out / "curator" / "checks.json"
    print(f"for you alone, not private: {checks} ({_in_words(json.loads(checks.read_text(encoding='utf-8')))})")


def _published(
    method: str, guarantee: GuaranteeOptions, public: PublicOptions, labelled: int | None, seed: int | None,
    **flags: bool,
) -> str:  # fmt: skip
    """Return the command for the card, without names of files and columns: those are the user's own."""
    given = []
    for name, text in (("method", method), ("relation", guarantee.relation), ("scope", guarantee.scope)):
        given.append(f"--{name} {shlex.quote(text)}")
    if public.signed is not None:
        given.append("--signed" if public.signed else "--no-signed")
    numbers = {"epsilon": guarantee.epsilon, "advantage": guarantee.advantage, "delta": guarantee.delta,
               "labelled": labelled, "mean-degree": public.mean_degree, "words": public.words,
               "degree-bound": guarantee.degree_bound, "seed": seed}  # fmt: skip
    for name, value in numbers.items():
        given += [] if value is None else [f"--{name} {value:g}" if isinstance(value, float) else f"--{name} {value}"]
    given += [f"--{name.replace('_', '-')}" for name, there in flags.items() if there]
    return f"dpgraph fit ... {' '.join(given)}"


def _in_words(checks: dict[str, Any]) -> str:
    accuracy, most = checks["accuracy_on_held_out"], checks["share_of_largest_class"]
    if accuracy is None:
        return "no label was held out, so accuracy is not known"
    right = f"{100 * accuracy:.1f} % right on {checks['held_out_labels']} held-out labels"
    return f"{right}; the largest class: {100 * most:.1f} %"


def predict(
    model: Path,
    /,
    *,
    nodes: Path | None = None,
    edges: Path | None = None,
    id_column: Annotated[str | None, Parameter(name="--id")] = None,
    source: str | None = None,
    target: str | None = None,
    graph: Path | None = None,
    out: Path,
) -> None:
    """Predict new nodes with a model that fit made.

    Example: dpgraph predict mine --nodes new.csv --edges new-edges.csv --out new-predictions.csv

    Args:
        model: Folder that fit made, or its release/.
        nodes: CSV file of new nodes: id and the model's features.
        edges: CSV file: a new node and an old one (directed: in that order).
        id_column: Column of --nodes (default: id, or another usual name).
        source: Column of --edges: the first end (default: source, or another usual name).
        target: Column of --edges: the second end.
        graph: In place of --nodes and --edges, for a model of --graph or --dataset: .npz file with x of the new nodes
            and edge_index, in which they follow the old ones.
        out: CSV file to make.
    """
    import csv

    from dpgraph.core.files import check_out, private_file
    from dpgraph.own_graph.card import predictions
    from dpgraph.own_graph.model import load
    from dpgraph.own_graph.new_nodes import read_new_nodes, read_new_npz

    check_out(out, folder=False)
    loaded = load(model)
    header = loaded.header
    if graph is not None:
        for name, there in (("--nodes", nodes), ("--edges", edges), ("--id", id_column), ("--source", source),
                            ("--target", target)):  # fmt: skip
            if there is not None:
                raise UserError(f"--graph, {name}: expected one of them: a .npz file holds its own nodes and edges")
        new = read_new_npz(header, graph)
    elif nodes is not None:
        new = read_new_nodes(header, nodes, edges, id_column, source, target)
    else:
        raise UserError("predict: expected new nodes: --nodes (CSV) or --graph (.npz)")
    rows = loaded.predict(new.features, new.lists)
    out.parent.mkdir(parents=True, exist_ok=True)
    with private_file(out) as file:
        csv.writer(file).writerows(predictions(new.ids, header.classes, rows))
    print(f"{out}: {len(rows)} rows, each for its own node", file=sys.stderr)
    if new.lists is not None and header.kind == "own":
        print("the lists of new nodes are not read: the model is of own records alone", file=sys.stderr)
    if not header.secret:
        print(f"{loaded.status}: {SEED_KNOWN}", file=sys.stderr)


def compare(
    *,
    data: GraphOptions = DATA,
    guarantee: GuaranteeOptions = GUARANTEE,
    public: PublicOptions = PUBLIC,
    public_column: PublicColumns = (),
    methods: str | None = None,
    seeds: Whole = 5,
    out: Path | None = None,
) -> None:
    """Compare methods on your own graph at one epsilon; for the curator alone.

    Example: dpgraph compare --edges edges.csv --nodes nodes.csv --epsilon 4

    Args:
        public_column: Column that tells a node's number of edges and is public, the same whichever edges or records
            are missing; may be repeated. Else it is refused.
        methods: Separated by commas (default: all that state settings for own graphs but votes-learnt).
        seeds: Random splits.
        out: Folder to make.
    """
    from dpgraph.core.files import check_out
    from dpgraph.own_graph.compare import compare as compare_methods
    from dpgraph.own_graph.compare import table, write

    guarantee.check("auto")
    if out is not None:
        check_out(out)
    names = None if methods is None else [name.strip() for name in methods.split(",")]
    own = data.read()
    found = compare_methods(
        own, seeds=seeds, methods=names, public_column=public_column, say=lambda line: print(line, file=sys.stderr),
        **vars(guarantee), **public.stated(data.dataset),
    )  # fmt: skip
    print(table(found))
    print("not private, not to be released: what reads held-out labels, and what is chosen by it, has no epsilon")
    if out is not None:
        write(found, out)


def afford(
    *,
    nodes: Whole,
    classes: Whole,
    labelled: Whole,
    features: Whole | None = None,
    method: Method = "auto",
    guarantee: GuaranteeOptions = GUARANTEE,
    public: PublicOptions = PUBLIC,
) -> None:
    """Say in words whether a graph affords an epsilon; no data are read.

    Example: dpgraph afford --nodes 20000 --classes 10 --labelled 4000 --epsilon 1

    Args:
        nodes: Number of nodes, N: public.
        classes: Number of classes: public.
        labelled: Number of labels to train on: public.
        features: Number of columns of features, 0 for none (default: the worst case of all numbers).
    """
    from dpgraph.config.cell import LARGE
    from dpgraph.own_graph.budget import feature_cases, planned
    from dpgraph.own_graph.fit import afford as in_words
    from dpgraph.own_graph.risk import in_words as risk
    from dpgraph.own_graph.training import check_exact
    from dpgraph.privacy.relation import Relation

    for name, value, least in (("--nodes", nodes, 2), ("--classes", classes, 2), ("--labelled", labelled, 1),
                               ("--features", features or 0, 0)):  # fmt: skip
        if not least <= value <= LARGE:
            raise invalid(name, value, f"an integer in {least}..{LARGE:g}")
    if labelled > nodes:
        raise invalid("--labelled", labelled, f"at most --nodes {nodes}")
    guarantee.check(method)
    relation = Relation(guarantee.relation)
    cases = feature_cases(
        features, nodes=nodes, labelled=labelled, classes=classes,
        voters=labelled if relation is Relation.NODE_REMOVE else None,
        degree_bound=guarantee.degree_bound, **public.stated(),
    )  # fmt: skip
    every = guarantee.scope == "all-outputs"
    runs = [
        planned(
            method, numbers, epsilon=guarantee.epsilon, advantage=guarantee.advantage, delta=guarantee.delta,
            relation=relation, all_outputs=every,
        )
        for numbers in cases
    ]  # fmt: skip
    try:
        for run in runs:
            check_exact(run.mechanism, nodes=nodes, classes=classes, features=features or 0)
    except Invalid as error:
        raise error.called(f"--{error.name}") from None
    print(in_words(*runs, labelled=labelled, classes=classes, all_outputs=every))
    if features is None:
        print("This is the worst case over the number of features: --features states yours.")
    print(f"Risk: {risk(max((one.trade_off for one in runs), key=lambda one: one.advantage), relation)}.")


def export(model: Path, /, *, to: Literal["csv", "pyg"] = "csv", out: Path) -> None:
    """Write a release as CSV files.

    In Python: dpgraph.load('mine').to_pyg().

    Example: dpgraph export mine --out tables

    Args:
        model: Folder that fit made, or its release/.
        to: csv, or pyg: release.pt, for Data.from_dict(torch.load('release.pt')) of PyTorch Geometric.
        out: Folder to make.
    """
    from dpgraph.core.files import check_out
    from dpgraph.own_graph.model import load

    check_out(out)
    loaded = load(model)
    for path in loaded.write_pyg(out) if to == "pyg" else loaded.write_csv(out):
        print(path)
    if not loaded.header.secret:
        print(f"{loaded.status}: {SEED_KNOWN}")
