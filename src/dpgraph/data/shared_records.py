"""Which data sets hold records of the same people, papers or images: a choice made on one is no choice on others."""

from __future__ import annotations

from functools import cache

from dpgraph.data.registry import DatasetEntry, entry, registry

# not visible in the registry: papers of McCallum's Cora and of CiteSeer, of which it is not stated which were taken;
# the same posts
OVERLAPPING = (
    frozenset({"cora", "cora-ml", "cora-text"}),
    frozenset({"citeseer", "m10-text"}),
    frozenset({"reddit", "reddit-saint"}),
)


def same_records(one: str, other: str) -> bool:
    """Return whether two data sets may share records: variants, files in common, or a known or suspected overlap.

    One that joins others (`DatasetEntry.parts`) shares with another what its parts do; parts are not related by it.
    Raises UserError for a name that is not in the registry.
    """
    entry(other)
    return bool(_records(one) & _records(other))


@cache
def _records(name: str) -> frozenset[str]:
    """Return the data sets, none of which joins others, among whose records all of this one's are."""
    parts = entry(name).parts
    return frozenset().union(*map(_linked, parts)) if parts else _linked(name)


@cache
def _linked(name: str) -> frozenset[str]:
    """Return whether two entries are linked, directly or through others."""
    single = [one for one, known in registry().items() if not known.parts]
    found = {name}
    while more := {other for other in single if other not in found and any(_link(other, one) for one in found)}:
        found |= more
    return frozenset(found)


def _link(one: str, other: str) -> bool:
    if any({one, other} <= known for known in OVERLAPPING):
        return True
    first, second = registry()[one], registry()[other]
    return first.variant_of == other or second.variant_of == one or bool(_places(first) & _places(second))


def _places(known: DatasetEntry) -> set[str]:
    sources = [source for file in known.files for source in file.sources]
    sources += [known.archive] if known.archive is not None else []
    return {place for source in sources for place in (source.mirror, source.url) if place is not None}
