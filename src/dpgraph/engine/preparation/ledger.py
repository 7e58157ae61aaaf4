"""The ledger of a run's random streams: which are open, who may know them, and how much was drawn of each.

Noise that is used twice, or that somebody else can compute, protects nobody, and no result looks different for it. So
every stream of a prepared step is opened here, once, under a name with its seed. It has one reader, who goes through it
from its start: where names differ, ranges are disjoint. After the run `PreparedStep.check` compares what was drawn with
what the mechanism states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dpgraph.config.streams import PAIRED
from dpgraph.core.randomness import Counter, Name
from dpgraph.privacy.procedure import NotAsAccounted, StreamUse

PURPOSES = {"batches of the device": "batches"}  # streams that another one stands for on another device


@dataclass(frozen=True)
class OpenStream:
    """One stream; `counter` None: it is keyed by the epoch or the id, and its length is not compared."""

    names: tuple[Name, ...]
    secret: bool
    counter: Counter | None


@dataclass
class Ledger:
    """The streams of one run, by their roles."""

    entries: dict[str, OpenStream] = field(default_factory=dict)

    def open(self, role: str, names: tuple[Name, ...], number: int, *, secret: bool, counter: Counter | None) -> None:
        """Enter a stream whose name has to hold its role and `number`, of the seed or of its initialisation.

        Raises NotAsAccounted for a name that is open, one without its seed, and a secret that other cells share.
        """
        if role in self.entries or any(names == entry.names for entry in self.entries.values()):
            raise NotAsAccounted(f"random stream {role}: opened twice: expected a stream of its own for every purpose")
        if names[2:4] != (role, number):
            raise NotAsAccounted(
                f"random stream {role}: named {names}: expected its role and seed {number} in its name"
            )
        if secret and role in PAIRED:
            raise NotAsAccounted(f"random stream {role}: other cells share it: expected a secret one")
        self.entries[role] = OpenStream(names, secret, counter)

    def holds_secret(self, role: str) -> bool:
        return role in self.entries and self.entries[role].secret

    def used(self) -> dict[str, StreamUse]:
        """Return what was drawn so far from each stream, by purpose."""
        found: dict[str, StreamUse] = {}
        for role, entry in self.entries.items():
            purpose, counter = PURPOSES.get(role, role), entry.counter
            if counter is None:
                found[purpose] = StreamUse(stream=purpose, secret=entry.secret)
                continue
            before = found.get(purpose)
            draws, numbers = (0, 0) if before is None else (before.draws or 0, before.numbers or 0)
            draws, numbers = draws + counter.draws, numbers + counter.numbers
            found[purpose] = StreamUse(stream=purpose, secret=entry.secret, draws=draws, numbers=numbers)
        return found


def check_streams(
    stated: Mapping[str, int | None],
    due: Callable[[str, int], int | None],
    used: Mapping[str, StreamUse],
    earlier: Mapping[str, int],
) -> None:
    """Compare streams that a mechanism states, with how many draws of each, with those that were used.

    `due`: (stream, draws) -> how many numbers so many draws hold; None: it is private. `earlier`: draws of an earlier
    process. Raises NotAsAccounted for a stream that is missing or that nobody stated, other numbers of draws, and draws
    that share numbers. Public streams beside the stated ones are allowed.
    """
    wrong = [
        f"{name}: not stated" for name, use in used.items() if use.secret and use.draws != 0 and name not in stated
    ]
    for name, draws in stated.items():
        use, left = used.get(name), None if draws is None else draws - earlier.get(name, 0)
        numbers = None if left is None else due(name, left)
        if use is None:
            wrong.append(f"{name}: it was not opened")
        elif left is not None and use.draws != left:
            wrong.append(f"{name}: {use.draws} draws, stated {left}")
        elif numbers is not None and use.numbers != numbers:
            wrong.append(f"{name}: {use.numbers} independent numbers, {numbers} are due")
    if wrong:
        raise NotAsAccounted(f"random streams are not what was accounted for, so no epsilon holds: {'; '.join(wrong)}")
