"""Plain words: README, pages and source are read by strangers, who have to guess what a private figure of speech means.

Each word below was once used in this project for something that has a plain name:

- house, room, rooms: the package layout and its packages; space in memory;
- nowhere: "cannot be found", "not at any epsilon";
- unpaid, nobody paid: "not charged to the budget";
- honest, honestly: praise of oneself, where a statement of what is proved is meant;
- whoever: "anyone who", or no subject at all where nobody is meant.

Identifiers such as `house_style` or `NOWHERE` are names, not text.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
REFUSED = re.compile(r"\b(house|rooms?|nowhere|unpaid|nobody (has )?paid|honest(ly)?|whoever)\b", re.I)
NAMES = re.compile(r"\b[A-Z][A-Z_]+\b|\w*_\w*")
TEXTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "src").rglob("*.py")),
         *sorted((ROOT / "src").rglob("*.yaml")), *sorted((ROOT / "rules").glob("*.smk")),
         *sorted((ROOT / "workflow").rglob("*.yaml")), *sorted((ROOT / "workflow").rglob("*.rst"))]  # fmt: skip


def refused(text: str) -> list[str]:
    """Lines with a refused word, numbered."""
    return [
        f"{number}: {line.strip()}"
        for number, line in enumerate(text.splitlines(), 1)
        if REFUSED.search(NAMES.sub("", line))
    ]


def test_plain_words() -> None:
    found = {str(path.relative_to(ROOT)): refused(path.read_text(encoding="utf-8")) for path in TEXTS}
    assert not {name: lines for name, lines in found.items() if lines}


def test_what_is_refused() -> None:
    assert refused("a\nthis Room, and\nnobody has paid") == ["2: this Room, and", "3: nobody has paid"]
    assert not refused("house_style = NOWHERE\nhousehold, roommate")
