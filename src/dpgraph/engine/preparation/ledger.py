"""The ledger of a run's random streams: which are open, who may know them, and how much was drawn from each.

Noise that is used twice, or that another person can compute, protects no record, and no result shows it. So every
stream of a prepared step is opened here, once, under a name with its seed. It has one reader, who reads it from its
start: streams with different names have disjoint ranges. After the run `PreparedStep.check` compares the draws with
those that the mechanism states.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dpgraph.config.streams import PAIRED
from dpgraph.core.randomness import Counter, Name
from dpgraph.privacy.procedure import NotAsAccounted, StreamUse

# streams that another one stands for on another device
PURPOSES = {"batches of the device": "batches", "negatives of the device": "negatives"}


@dataclass(frozen=True)
class OpenStream:
    """One stream. Without `counter` its length is not compared: it is keyed by the epoch or the id, or private."""

    names: tuple[Name, ...]
    secret: bool
    counter: Counter | None


@dataclass
class Ledger:
    """The streams of one run, by their roles."""

    entries: dict[str, OpenStream] = field(default_factory=dict)

    def open(self, role: str, names: tuple[Name, ...], number: int, *, secret: bool, counter: Counter | None) -> None:
        """Enter a stream, whose name holds its role and `number`: that of the seed or of its initialisation.

        Raises NotAsAccounted for a name that is open, a name without its seed, and a secret stream that other cells
        share.
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
        """Return what was drawn from each stream so far, by purpose."""
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
    """Compare the streams that a mechanism states with those that a run used.

    Public streams may be added to the stated ones.

    Args:
        stated: Draws of each stream; None for a length that is private or not counted.
        due: Gives how many numbers so many draws of a stream hold; None if that is private.
        used: Draws and numbers of this process.
        earlier: Draws of an earlier process.

    Raises:
        NotAsAccounted: A stream is missing, not stated, of another length, or draws share numbers.
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
