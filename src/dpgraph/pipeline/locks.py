"""Name the owner of Snakemake's locks and remove those that a killed run left.

Snakemake's lock says which files are used, and not by whom. A run writes its owner next to its lock (`sign`) and holds
a lock of the operating system (flock) on that file, which ends with the run, however that ends. The next run on the
same machine that finds the file without it removes Snakemake's locks.
"""

import fcntl
import json
import os
import platform
import re
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

from dpgraph.core.errors import UserError, one_line
from dpgraph.core.files import atomic_path

FOLDER = Path(".snakemake/locks")  # Snakemake's own: it goes with the last lock in it
SIGNED, CLAIMED = ".owner.json", ".claimed"
LOCK = re.compile(r"\d+\.(input|output)\.lock")
HELD: list[IO[str]] = []  # files that this process has locked until its end


@dataclass(frozen=True)
class Owner:
    """A process that made locks."""

    host: str
    machine: str  # empty where unknown
    process: int
    since: str
    locks: tuple[str, ...]

    def __str__(self) -> str:
        """Return it as messages call it."""
        return one_line(f"process {self.process} on {self.host}, since {self.since}")

    @property
    def nearby(self) -> bool:
        """Tell whether it ran on this machine."""
        return self.machine != "" and (self.host, self.machine) == (platform.node(), _machine())


def sign(locks: Iterable[str], folder: Path = FOLDER) -> None:
    """Write down this process as the owner of the locks that it has made."""
    now = datetime.now().astimezone().isoformat(" ", "seconds")
    owner = Owner(platform.node(), _machine(), os.getpid(), now, tuple(Path(lock).name for lock in locks))
    if owner.locks:
        # a lock without an owner is kept, as where the file system has no locks
        with suppress(OSError), atomic_path(folder / f"{owner.process}@{owner.host}{SIGNED}") as temporary:
            file = temporary.open("w", encoding="utf-8")
            HELD.append(file)
            fcntl.flock(file, fcntl.LOCK_EX)
            json.dump(asdict(owner), file)
            file.flush()


def has_ended(path: Path, owner: Owner) -> bool:
    """Tell whether the owner that the file names has certainly ended."""
    try:
        with path.open(encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return owner.nearby
    except OSError:
        return False


def remove_ended(folder: Path = FOLDER) -> Iterator[str]:
    """Remove the locks of runs that were killed, and yield a line for each."""
    for path, owner in _signed(folder):
        if has_ended(path, owner):
            claimed = path.with_name(path.name + CLAIMED)
            with suppress(OSError):  # of two runs that find it, one alone can rename it
                path.rename(claimed)
                for name in owner.locks:
                    (folder / name).unlink(missing_ok=True)
                claimed.unlink()
                yield f"removed the lock of {owner}: it was killed; finished work is kept"


def refusal(folder: Path = FOLDER) -> str:
    """Return one line for a run whose files are locked: who holds the locks, and what to do."""
    owners = [owner for _, owner in _signed(folder)]
    if not owners:
        return (
            f"another run uses these files, or was killed ({folder} has a lock without an owner): "
            "if none runs in this folder, on any host: dpgraph run --unlock"
        )
    held = f"another run uses these files: {'; '.join(map(str, owners))}: "
    if near := next((owner for owner in owners if owner.nearby), None):
        return f"{held}wait for its end, or end it by Ctrl-C or: kill -INT {near.process}"
    return f"{held}wait for its end; if it was killed there: dpgraph run --unlock"


def unlock(folder: Path = FOLDER) -> str:
    """Remove every lock of the folder and return a line. Raises UserError for a run that goes on."""
    signed = list(_signed(folder))
    for path, owner in signed:
        if owner.nearby and not has_ended(path, owner):
            raise UserError(f"--unlock: {owner}, still runs: end it first by Ctrl-C or: kill -INT {owner.process}")
    if not any(LOCK.fullmatch(path.name) for path in folder.glob("*.lock")):
        return "no lock: nothing to remove"
    shutil.rmtree(folder)
    return f"removed the lock of {'; '.join(str(owner) for _, owner in signed) or 'an unknown run'}"


def _signed(folder: Path) -> Iterator[tuple[Path, Owner]]:
    for path in sorted(folder.glob(f"*{SIGNED}")):
        with suppress(OSError, ValueError, TypeError, AttributeError):  # damaged, or gone by now: without an owner
            owner = Owner(**json.loads(path.read_text(encoding="utf-8")))
            if owner.process > 0 and all(LOCK.fullmatch(name) for name in owner.locks):
                yield path, owner


def _machine() -> str:
    """Return the machine's id, or that of its boot; an empty text where the system has neither."""
    for path in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"):
        with suppress(OSError):
            if found := Path(path).read_text(encoding="utf-8").strip():
                return found
    return ""
