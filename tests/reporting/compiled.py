"""Compiles tables with the LaTeX of the machine, where there is one."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from dpgraph.reporting.latex import PREAMBLE

LAYOUTS = {
    "one column": (r"\documentclass[10pt]{article}", r"\usepackage[letterpaper,margin=1in]{geometry}"),
    "two columns": (r"\documentclass[10pt,twocolumn]{article}", r"\usepackage[letterpaper,margin=0.75in]{geometry}"),
}
NEEDED = ("siunitx.sty", "adjustbox.sty", "booktabs.sty", "geometry.sty")


def is_there() -> bool:
    """Whether pdflatex and the packages that tables need are installed."""
    if shutil.which("pdflatex") is None or shutil.which("kpsewhich") is None:
        return False
    found = subprocess.run(["kpsewhich", *NEEDED], capture_output=True, text=True, check=False)
    return len(found.stdout.split()) == len(NEEDED)


@dataclass(frozen=True)
class Compiled:
    """What one document says of its tables."""

    overfull: list[str]
    scales: dict[str, float]  # by table: width of the page over the natural width of its widest float, 1 where it fits
    too_high: list[str]
    pdf: Path


def compile_tables(tables: Mapping[str, str], layout: str, folder: Path) -> Compiled:
    """One document of all the tables, each on pages of its own. Raises RuntimeError with LaTeX's first error."""
    head = [*LAYOUTS[layout], *PREAMBLE, r"\begin{document}"]
    body = []
    for name, text in tables.items():
        body += [_measured(name, text), text, r"\clearpage"]
    (folder / "all.tex").write_text("\n".join([*head, *body, r"\end{document}", ""]), encoding="ascii")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "all.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, errors="replace")
    if done.returncode:
        raise RuntimeError("\n".join(re.findall(r"^!.*(?:\n.*){0,4}", done.stdout, re.M)[:1]) or done.stdout[-500:])
    log = (folder / "all.log").read_text(encoding="latin-1")
    scales: dict[str, float] = {}
    for name, width, page in re.findall(r"^NATURAL ([^ ]+) ([\d.]+)pt ([\d.]+)pt$", log, re.M):
        scales[name] = min(scales.get(name, 1.0), float(page) / float(width))
    high = re.findall(r"Float too large[^\n]*", log)
    return Compiled(re.findall(r"Overfull \\hbox[^\n]*", log), scales, high, folder / "all.pdf")


def _measured(name: str, text: str) -> str:
    r"""Writes the natural width of each tabular to the log, next to \textwidth."""
    tabulars = re.findall(r"\\begin\{tabular\}.*?\\end\{tabular\}", text, re.S)
    return "\n".join(
        f"{{\\footnotesize\\setlength{{\\tabcolsep}}{{3pt}}\\sbox0{{{tabular}}}"
        f"\\typeout{{NATURAL {name} \\the\\wd0 \\space\\the\\textwidth}}}}"
        for tabular in tabulars
    )
