"""Numbers as text; text as LaTeX, Markdown and HTML; self-contained HTML pages.

Text uses Unicode (±, ∞, ε) until a writer escapes it.
"""

import math
import re
import unicodedata
from collections.abc import Iterable
from functools import cache
from html import escape
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template

from dpgraph.config.suite import Suite
from dpgraph.privacy.guarantee import at_most

DASH = "–"
SUPERSCRIPTS = "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"
DIGITS = str.maketrans(SUPERSCRIPTS, "-0123456789")
MATH = {"<": "<", ">": ">", "−": "-", "·": r"\cdot", "×": r"\times", "±": r"\pm", "≤": r"\leq", "≥": r"\geq"}
MATH |= {"∞": r"\infty", "√": r"\surd", "ε": r"\varepsilon", "δ": r"\delta", "σ": r"\sigma", "λ": r"\lambda"}
LATEX: dict[str, str | int | None] = {character: f"\\{character}" for character in "&%$#_{}"}
LATEX |= {character: f"${name}$" for character, name in MATH.items()}
LATEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "†": r"$^\dagger$"}
LATEX |= {"–": "--", "—": "---", "’": "'"}


def latex(text: str) -> str:
    r"""Return text escaped for LaTeX text mode.

    >>> latex("95 % of a_b ± ε")
    '95 \\% of a\\_b $\\pm$ $\\varepsilon$'
    """
    parts = re.split(f"([{SUPERSCRIPTS}]+)", text)
    escaped = "".join(_raised(part) if part and part[0] in SUPERSCRIPTS else _plain(part) for part in parts)
    return escaped.replace("[", "{[}")  # after a row's end it would read as an optional argument


def _raised(text: str) -> str:
    return f"$^{{{text.translate(DIGITS)}}}$"


def _plain(text: str) -> str:
    return unicodedata.normalize("NFKD", text.translate(str.maketrans(LATEX))).encode("ascii", "ignore").decode()


def markdown(text: str) -> str:
    """Return text escaped for a cell of a Markdown table."""
    for character in "\\|*_[]`":
        text = text.replace(character, f"\\{character}")
    return text.replace("<", "&lt;").replace(">", "&gt;").replace("\n", " ")  # not every renderer knows an escaped <


def epsilon(value: float | None) -> str:
    """Return three significant digits, rounded up; ∞ without privacy; none without a guarantee.

    >>> epsilon(7.98214), epsilon(11.997), epsilon(8.0), epsilon(1234.5), epsilon(math.inf), epsilon(math.nan)
    ('7.99', '12.0', '8.00', '1240', '∞', 'none')
    >>> epsilon(0.0)
    '0'
    """
    if value == 0:
        return "0"
    if value is None or math.isnan(value):
        return "none"
    if math.isinf(value):
        return "∞"
    if value > 0:
        unit = 10.0 ** (math.floor(math.log10(value)) - 2)
        value = math.ceil(value / unit - 1e-9) * unit  # a guarantee is never shown better than it is
    text = f"{value:#.3g}"
    return significant(value) if "e" in text else text.rstrip(".")


def significant(value: float, digits: int = 3) -> str:
    """Return the significant digits, without exponent between 1e-3 and 1e6.

    >>> significant(12.0), significant(0.5), significant(110.0), significant(8.3e-05)
    ('12', '0.5', '110', '8.3e-05')
    """
    text = f"{value:.{digits}g}"
    if "e" in text and 1e-3 <= abs(value) < 1e6:
        return f"{float(text):.0f}"
    return text


def power_of_ten(value: float) -> str:
    """Return a delta in two significant digits, rounded up: 8.4·10⁻⁵.

    >>> power_of_ten(8.34e-05), power_of_ten(1e-5), power_of_ten(0.0121)
    ('8.4·10⁻⁵', '10⁻⁵', '0.013')
    """
    text = at_most(value, digits=2)
    if value >= 1e-3 or value <= 0:
        return text
    mantissa, exponent = f"{float(text):.1e}".split("e")
    raised = str(int(exponent)).translate(str.maketrans("-0123456789", SUPERSCRIPTS))
    head = mantissa.rstrip("0").rstrip(".")
    return f"10{raised}" if head == "1" else f"{head}·10{raised}"


def deltas(values: Iterable[float]) -> list[str]:
    """Return the distinct deltas as texts; 0 and nan are left out.

    >>> deltas([1e-5, math.nan, 1e-5, 0.0])
    ['10⁻⁵']
    """
    return sorted({power_of_ten(value) for value in values if value > 0})


def mean_std(mean: float, std: float, decimals: int = 2) -> str:
    """
    >>> mean_std(62.345, 0.418), mean_std(62.345, math.nan)
    ('62.34 ± 0.42', '62.34')
    """
    text = f"{mean:.{decimals}f}"
    return text if math.isnan(std) else f"{text} ± {std:.{decimals}f}"


def difference(value: float, decimals: int = 2) -> str:
    """Return the value with a sign, and the same minus as the tables.

    >>> difference(1.234), difference(-0.5)
    ('+1.23', '−0.50')
    """
    return DASH if math.isnan(value) else f"{value:+.{decimals}f}".replace("-", "−")


def bracket(value: float) -> str:
    """Return a difference in brackets, behind the printed number that it is from; empty where it is not known.

    >>> bracket(1.234)
    ' (+1.23)'
    """
    return "" if math.isnan(value) else f" ({difference(value)})"


def count(value: float) -> str:
    """
    >>> count(169343)
    '169,343'
    """
    return f"{int(value):,}"


def printed_place(table: str) -> str:
    """Return the place in the paper where a number is printed.

    >>> printed_place("table3"), printed_place("fig3"), printed_place("App.E")
    ('table 3', 'figure 3', 'App. E')
    """
    text = re.sub(r"^(table|fig)(?=\d)", lambda kind: {"table": "table ", "fig": "figure "}[kind[0]], table)
    return re.sub(r"^(App|sec)\.", r"\1. ", text)


def page(suite: Suite, title: str, body: str, lead: str = "") -> str:
    """Return a self-contained HTML page, without script; a demonstration is marked as such on top.

    body: HTML; the other texts are plain.
    """
    note = suite.note.removeprefix("A demonstration. ") if suite.demonstration else ""
    return template("page.html").render(title=title, body=body, lead=lead or suite.title, note=note)


# marks of templates in LaTeX, which is full of braces
IN_LATEX: dict[str, Any] = {"block_start_string": "<%", "block_end_string": "%>", "variable_start_string": "<<",
                            "variable_end_string": ">>"}  # fmt: skip


@cache
def template(name: str, package: str = "dpgraph.reporting") -> Template:
    """Return a template of a package; its filters escape plain text. `cell`: in a table of Markdown with markup."""
    environment = Environment(
        loader=PackageLoader(package, ""), undefined=StrictUndefined, trim_blocks=True,
        keep_trailing_newline=True, **(IN_LATEX if name.endswith(".tex") else {}),
    )  # fmt: skip
    environment.filters |= {"text": escape, "markdown": markdown}
    environment.filters["cell"] = lambda text: " ".join(text.split()).replace("|", "\\|")
    return environment.get_template(f"{name}.j2")
