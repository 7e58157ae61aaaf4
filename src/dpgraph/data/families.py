"""Which data sets hold records of the same people, papers or images: a choice made on one is no choice on others."""

from __future__ import annotations

from functools import cache

from dpgraph.data.registry import DatasetEntry, entry, registry

# not visible in the registry: papers of McCallum's Cora, of which it is not stated which were taken; the same posts
OVERLAPPING = (frozenset({"cora", "cora-ml"}), frozenset({"reddit", "reddit-saint"}))


def same_records(one: str, other: str) -> bool:
    """Whether two data sets may share records: variants, files in common, or an overlap that is known or suspected.

    Raises UserError for a name that is not in the registry.
    """
    entry(other)
    return other in family(one)


@cache
def family(name: str) -> frozenset[str]:
    """All data sets that may share records with this one, directly or through others; itself among them."""
    entry(name)
    found = {name}
    while more := {other for other in registry() if other not in found and any(_linked(other, one) for one in found)}:
        found |= more
    return frozenset(found)


def _linked(one: str, other: str) -> bool:
    if any({one, other} <= known for known in OVERLAPPING):
        return True
    first, second = registry()[one], registry()[other]
    return first.variant_of == other or second.variant_of == one or bool(_places(first) & _places(second))


def _places(known: DatasetEntry) -> set[str]:
    sources = [source for file in known.files for source in file.sources]
    sources += [known.archive] if known.archive is not None else []
    return {place for source in sources for place in (source.mirror, source.url) if place is not None}
