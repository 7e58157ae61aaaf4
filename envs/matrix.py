"""Installs the package with its lowest and its newest dependencies on each Python, and runs a quick selection of tests.

    python envs/matrix.py                                      # all: about an hour, up to 7 GB for each environment
    python envs/matrix.py --python python3.13 --bounds newest
    python envs/matrix.py --list                               # what would be tried here

`lowest` takes the lower bounds of pyproject.toml, on the oldest Python alone, because such old versions have no wheels
for later ones. `newest` takes what pip finds without constraints. PyTorch is the CPU build where its index answers
(envs/torch_build.py). An environment is removed once its tests have passed. The exit status is 1 if any of them fails.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
BOUNDS = ("lowest", "newest")
# each command's words, the whole of `fit`, methods by their contract, accountants, readers, one run of the workflow
TESTS = (
    "tests/test_cli.py",
    "tests/test_outside.py",
    "tests/test_tutorial.py",
    "tests/own_graph/test_fit.py",
    "tests/own_graph/test_objects.py",
    "tests/contract",
    "tests/privacy",
    "tests/workflow/test_run.py",
)


def lower_bounds(pyproject: str) -> list[str]:
    """Return `name==bound` for each dependency of the package and of its extra `dev` that has a lower bound."""
    project = tomllib.loads(pyproject)["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    return [re.sub(r"\[.*?\]", "", line).replace(">=", "==") for line in lines if ">=" in line]


def pythons() -> dict[str, str | None]:
    """Return the interpreter of each supported version, None where there is none.

    It is looked for among pyenv's, then on the PATH, where pyenv has a name for each that it may refuse to run.
    """
    found: dict[str, str | None] = {}
    for version in PYTHONS:
        own = sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python"))
        found[version] = str(own[-1]) if own else shutil.which(f"python{version}")
    return found


def combinations(bounds: tuple[str, ...], named: list[str]) -> list[tuple[str, str]]:
    """Return (interpreter, bounds) to try. An interpreter that is named is tried with all bounds that are named."""
    if named:
        return [(python, bound) for python in named for bound in bounds]
    found = pythons()
    for version, python in found.items():
        if python is None:
            print(f"Python {version}: not found", flush=True)
    return [
        (python, bound)
        for version, python in found.items()
        for bound in bounds
        if python is not None and (bound == "newest" or version == PYTHONS[0])
    ]


def attempt(python: str, bound: str, folder: Path, tests: list[str]) -> str:
    """Return in one line what came of one combination; it begins with `failed` if anything did."""
    start = time.monotonic()
    own = str(folder / "bin/python")
    constraints = folder / "lowest.txt"
    subprocess.run([python, "-m", "venv", folder], check=True)
    pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if bound == "lowest":
        constraints.write_text("\n".join(lower_bounds((ROOT / "pyproject.toml").read_text())) + "\n")
        pip += ["-c", str(constraints)]
    build = subprocess.run([own, ROOT / "envs/torch_build.py", "cpu"], check=True, stdout=subprocess.PIPE, text=True)
    for words in (build.stdout.split(), ["-e", f"{ROOT}[dev]"]):
        if subprocess.run([*pip, *words]).returncode:
            return f"failed: pip install {' '.join(words)}"
    installed = time.monotonic()
    done = subprocess.run([own, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], cwd=ROOT)
    seconds = f"installed in {installed - start:.0f} s, tests {time.monotonic() - installed:.0f} s"
    return f"failed: tests ({seconds})" if done.returncode else f"passed ({seconds})"


def main() -> int:
    """Try the combinations one by one and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--python", action="append", default=[], help="may be repeated (default: all that are found)")
    parser.add_argument("--bounds", action="append", choices=BOUNDS, help="may be repeated (default: both)")
    parser.add_argument("--list", action="store_true", help="list the combinations and the lower bounds")
    parser.add_argument("--folder", type=Path, help="for the environments, which are kept (default: a temporary one)")
    parser.add_argument("tests", nargs="*", default=list(TESTS), help="or options of pytest (default: a selection)")
    given = parser.parse_args()
    tried = combinations(tuple(given.bounds or BOUNDS), given.python)
    if given.list:
        print(*(f"{python}: {bound}" for python, bound in tried), sep="\n")
        print(*lower_bounds((ROOT / "pyproject.toml").read_text()), sep="\n")
        return 0
    lines = []
    with tempfile.TemporaryDirectory() as temporary:
        for number, (python, bound) in enumerate(tried):
            folder = (given.folder or Path(temporary)) / f"{number}-{bound}"
            lines.append(f"{python}, {bound}: {attempt(python, bound, folder, given.tests)}")
            print(lines[-1], flush=True)
            if given.folder is None:
                shutil.rmtree(folder)
    print("", *lines, sep="\n")
    return int(any(": failed" in line for line in lines))


if __name__ == "__main__":
    sys.exit(main())
