"""Skeletons of a user's own data sets and methods, for `dpgraph new`."""

from __future__ import annotations

import csv
import importlib.util
import re
from importlib.resources import files
from pathlib import Path

from dpgraph.errors import UserError, invalid

NODES = 200  # of the example's graph


def write_method(name: str, out: Path) -> None:
    """Write a package of a private method that runs as it is: DP-SGD of an MLP with smoothed labels."""
    _check_name(name)
    folder = out / name
    if importlib.util.find_spec(name) is not None:
        raise invalid("name", name, "one that no Python package has")
    words = {"METHOD": f"dp-{name.replace('_', '-')}", "NAME": name, "CLASS": name.title().replace("_", "")}
    _write("method", folder, words)
    (folder / "__init__.py").write_text("", encoding="utf-8")
    _told(folder, out)
    print(f"  dpgraph check method {words['METHOD']}")
    print("  dpgraph run data/graphs/demo-sbm/transductive.public/graph.json")
    print(f"  dpgraph train --cell {folder / 'cell.json'} --out results/{name}")


def write_dataset(name: str, out: Path) -> None:
    """Write an entry, a reader and an example's files: two groups of nodes that prefer their own kind."""
    from dpgraph.data.registry import NAME, registry

    if not NAME.fullmatch(name):
        raise invalid("name", name, "small letters, digits and - between them")
    if name in registry():
        raise invalid("name", name, "one that no data set has")
    _write("dataset", out, {"NAME": name, "FOLDER": str(out)})
    _example(out)
    _told(out, out)
    print(f"  dpgraph run data/graphs/{name}/transductive.random-70-10-20/graph.json")
    print(f"  dpgraph fit --dataset {name} --epsilon 4 --out results/{name}")


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise invalid("name", name, "small letters, digits and _, a letter first")


def _write(kind: str, folder: Path, words: dict[str, str]) -> None:
    """Write the templates of one kind with `words` for their placeholders; no file is overwritten."""
    found = [one for one in files("dpgraph").joinpath("templates", kind).iterdir() if one.name.endswith(".txt")]
    for one in found:
        if (folder / one.name.removesuffix(".txt")).exists():
            raise UserError(f"{folder / one.name.removesuffix('.txt')}: there already: expected another name or --out")
    folder.mkdir(parents=True, exist_ok=True)
    for one in found:
        text = one.read_text(encoding="utf-8")
        for placeholder, word in words.items():
            text = re.sub(rf"(?<![A-Z]){placeholder}(?![A-Z][A-Z])", word, text)
        (folder / one.name.removesuffix(".txt")).write_text(text, encoding="utf-8")


def _example(folder: Path) -> None:
    from dpgraph.randomness import numpy_generator

    random = numpy_generator("dpgraph", "example of new-dataset")
    with (folder / "nodes.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label", "a", "b", "c"])
        rows = random.normal(size=(NODES, 3)).round(3).tolist()
        writer.writerows([f"n{n}", "ab"[n % 2], row[0] + n % 2, *row[1:]] for n, row in enumerate(rows))
    with (folder / "edges.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target"])
        ends = random.integers(0, NODES, size=(6 * NODES, 2))
        kept = (ends[:, 0] != ends[:, 1]) & ((ends.sum(axis=1) % 2 == 0) | (random.random(len(ends)) < 0.2))
        writer.writerows([f"n{one}", f"n{other}"] for one, other in ends[kept].tolist())


def _told(made: Path, place: Path) -> None:
    print(f"{made}: made. Name the folder in config.yaml, `registry: [{place}]`; then:")
