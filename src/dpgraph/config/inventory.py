"""Tables, figures and claims of the papers: the parts of a suite that show each, or why none does."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import Field

from dpgraph.config.claim_tests import Id
from dpgraph.config.frozen import Finite

Sentence = Annotated[str, Field(min_length=10)]
ITEM = re.compile(r"(table|fig|[A-Z])\d+(\.\d+)?")


class PaperInventory(Finite):
    """Facts that the names of a paper's artefacts and claims do not state."""

    not_shown: dict[Id, Sentence] = Field(default_factory=dict, description="Why no artefact or claim shows an item")
    ours: dict[str, Sentence] = Field(default_factory=dict)
    """Artefacts and claims that are in no paper, and what for; * matches any characters"""


class Inventory(Finite):
    """workflow/inventory.yaml.

    Artefacts and claims are named after the item that they show: `fig3a` and `fig3-degree` show `fig3`.
    """

    suite: Id = Field(description="The suite that has all of it")
    papers: dict[Id, PaperInventory]

    def rows(self, names: Mapping[str, Iterable[str]]) -> list[dict[str, Any]]:
        """Return a row for each item, given the names of a suite's artefacts and claims by paper."""
        rows = []
        for paper, shown in names.items():
            own = self.papers.get(paper, PaperInventory())
            items: dict[str, list[str]] = {}
            for name in shown:
                if not any(fnmatchcase(name, pattern) for pattern in own.ours):
                    items.setdefault(item_of(name), []).append(name)
            told = [(item, ", ".join(found), "") for item, found in items.items()]
            told += [(item, "", reason) for item, reason in own.not_shown.items()]
            rows += [dict(zip(("paper", "item", "shown_by", "reason"), (paper, *one), strict=True)) for one in told]
        return rows


def item_of(name: str) -> str:
    """Return the item that an artefact or claim shows.

    >>> item_of("fig5.1-k4-sgd1"), item_of("fig3a"), item_of("V8-lots")
    ('fig5.1', 'fig3', 'V8')
    """
    found = ITEM.match(name)
    return found[0] if found else name
