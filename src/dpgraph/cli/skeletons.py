"""Commands that write a project, a data set or a method of one's own, which runs as it is."""

import importlib.util
import keyword
import re
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Literal

from dpgraph.core.errors import UserError, invalid

HOME = Path(str(files("dpgraph")))
NODES = 200  # of the example's graph


def new_project(folder: Path, /) -> None:
    """Write a folder in which `dpgraph run` works, with a small graph and a suite.

    Example: dpgraph new-project club. Then as it says; docs/how-to/extend-from-outside.md.

    Args:
        folder: Folder, new or empty.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder}: there already: expected a folder that is new or empty")
    _write("project", folder, {})
    _write("dataset", folder / "own", {"NAME": "mine", "FOLDER": "own"})
    _example(folder / "own")
    shutil.copytree(HOME / "project/slurm", folder / "slurm")
    print(f"{folder}: made, with a made-up graph in own/: put yours there, and its sizes into own/datasets.yaml. Then:")
    print(f"  cd {folder}")
    print("  dpgraph run    # tables, figures and the first page, results/mine/index.html")


def new(what: Literal["method", "dataset"], name: str, /, *, out: Path = Path("own")) -> None:
    """Write the skeleton of a method or a data set of your own, which runs as it is.

    Example: dpgraph new method mine. Then as it says; docs/how-to/extend-from-outside.md.

    Args:
        what: What to write.
        name: Small letters and digits: mine.
        out: Folder, to be named in `registry:` of config.yaml.
    """
    (write_method if what == "method" else write_dataset)(name, out)


def write_method(name: str, out: Path) -> None:
    """Write a package of a private method that runs as it is: DP-SGD of an MLP with smoothed labels."""
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or keyword.iskeyword(name):
        raise invalid("name", name, "small letters, digits and _, a letter first, and no keyword of Python")
    folder = out / name
    if importlib.util.find_spec(name) is not None:
        raise invalid("name", name, "one that no Python package has")
    words = {"METHOD": f"dp-{name.replace('_', '-')}", "NAME": name, "CLASS": name.title().replace("_", "")}
    _write("method", folder, words)
    (folder / "__init__.py").write_text("", encoding="utf-8")
    _told(folder, out)
    print(f"  dpgraph check method {words['METHOD']}")
    if _in_project():
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
    if _in_project():
        print(f"  dpgraph run data/graphs/{name}/transductive.random-70-10-20/graph.json")
    print(f"  dpgraph fit --dataset {name} --epsilon 4 --out {name}-model")


def _write(kind: str, folder: Path, words: dict[str, str]) -> None:
    """Write the templates of one kind with `words` for their placeholders; no file is overwritten."""
    home = HOME / "templates" / kind
    made = {folder / path.relative_to(home).with_suffix(""): path for path in sorted(home.rglob("*.txt"))}
    for path in made:
        if path.exists():
            another = "another --out" if kind == "dataset" else "another name or --out"
            raise UserError(f"{path}: there already: expected {another}")
    for path, template in made.items():
        text = template.read_text(encoding="utf-8")
        for placeholder, word in words.items():
            text = re.sub(rf"(?<![A-Z]){placeholder}(?![A-Z][A-Z])", word, text)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _example(folder: Path) -> None:
    from dpgraph.core.files import write_rows
    from dpgraph.core.randomness import numpy_generator

    random = numpy_generator("dpgraph", "example of new-dataset")
    rows = random.normal(size=(NODES, 3)).round(3).tolist()
    nodes = ([f"n{n}", "ab"[n % 2], row[0] + n % 2, *row[1:]] for n, row in enumerate(rows))
    write_rows(folder / "nodes.csv", [["id", "label", "a", "b", "c"], *nodes])
    ends = random.integers(0, NODES, size=(6 * NODES, 2))
    kept = (ends[:, 0] != ends[:, 1]) & ((ends.sum(axis=1) % 2 == 0) | (random.random(len(ends)) < 0.2))
    write_rows(folder / "edges.csv", [["source", "target"], *([f"n{a}", f"n{b}"] for a, b in ends[kept].tolist())])


def _in_project() -> bool:
    """Return whether `dpgraph run` works here."""
    return Path("Snakefile").is_file()


def _told(made: Path, place: Path) -> None:
    print(f"{made}: made. Name the folder in config.yaml, `registry: [{place}]`; then:")
