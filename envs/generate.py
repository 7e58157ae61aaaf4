"""Writes the conda environments of the rules, cpu.yaml and cuda.yaml, from constraints.txt.

Run `python envs/generate.py` after each change of constraints.txt; a test fails until it is done. Python and pip come
from conda-forge, all else from PyPI in the tested versions, so that the environments are that of `make setup`.
"""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).resolve().parent
CONSTRAINTS = FOLDER.parent / "constraints.txt"
PYTHON = "3.11"
ABOUT = {
    "cpu": "without CUDA",
    "cuda": "with CUDA: torch of PyPI, which names its NVIDIA packages in exact versions",
}
OPTIONS = {"cpu": ["--extra-index-url https://download.pytorch.org/whl/cpu"], "cuda": []}


def pins(constraints: str) -> list[str]:
    """Lines `name==version` without comments, in their order."""
    lines = (line.partition("#")[0].strip() for line in constraints.splitlines())
    return [line for line in lines if line]


def environment(kind: str, constraints: str) -> str:
    head = [
        f"# Jobs of --software-deployment-method conda, {ABOUT[kind]}.",
        "# Generated from constraints.txt by: python envs/generate.py",
        "channels: [conda-forge, nodefaults]",
        "dependencies:",
        f"  - python={PYTHON}",
        "  - pip",
        "  - pip:",
    ]
    return "\n".join([*head, *(f"      - {line}" for line in [*OPTIONS[kind], *pins(constraints)])]) + "\n"


def main() -> None:
    for kind in ABOUT:
        (FOLDER / f"{kind}.yaml").write_text(
            environment(kind, CONSTRAINTS.read_text(encoding="utf-8")), encoding="utf-8"
        )


if __name__ == "__main__":
    main()
