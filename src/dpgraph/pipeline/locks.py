"""Name the owner of Snakemake's locks and remove those that a killed run left.

Snakemake's lock says which files are used, and not by whom. A run writes its owner next to its lock (`sign`), and the
next one reads it. Only an owner that has certainly ended counts as ended: a process of this boot and this container
whose number is free or has another start time, or any process of this machine before its last boot.
"""

from __future__ import annotations

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

from dpgraph.core.errors import UserError, one_line
from dpgraph.core.files import write_json

FOLDER = Path(".snakemake/locks")  # Snakemake's own: it goes with the last lock in it
SIGNED, CLAIMED = ".owner.json", ".claimed"
LOCK = re.compile(r"\d+\.(input|output)\.lock")


@dataclass(frozen=True)
class Owner:
    """A process that made locks."""

    host: str
    machine: str  # its id; empty where the system has none
    system: str  # boot and process namespace, in which process numbers count; empty where unknown
    process: int
    started: str  # in ticks since boot
    since: str
    locks: tuple[str, ...]

    def __str__(self) -> str:
        """Return it as messages call it."""
        return one_line(f"process {self.process} on {self.host}, since {self.since}")

    @property
    def nearby(self) -> bool:
        """Tell whether its process number means here what it means there."""
        return bool(self.system) and self.system == _system()

    @property
    def ended(self) -> bool:
        """Tell whether it has certainly ended."""
        if self.nearby:
            started = started_at(self.process)
            return started is None or started not in ("", self.started)
        here = (platform.node(), _machine())
        rebooted = bool(self.system) and _system() != "" and self.system.split()[0] != _system().split()[0]
        return rebooted and self.machine != "" and (self.host, self.machine) == here


def sign(locks: Iterable[str], folder: Path = FOLDER) -> None:
    """Write down this process as the owner of the locks that it has made."""
    names = tuple(Path(lock).name for lock in locks)
    process, now = os.getpid(), datetime.now().astimezone().isoformat(" ", "seconds")
    started = started_at(process) or ""
    owner = Owner(platform.node(), _machine(), _system(), process, started, now, names)
    if names and started:
        with suppress(OSError):  # a lock without an owner is kept
            write_json(folder / f"{process}@{platform.node()}{SIGNED}", asdict(owner))


def remove_ended(folder: Path = FOLDER) -> Iterator[str]:
    """Remove the locks of runs that were killed, and yield a line for each."""
    for path, owner in _signed(folder):
        if owner.ended:
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
    owners = [owner for _, owner in _signed(folder)]
    for owner in owners:
        if owner.nearby and not owner.ended:
            raise UserError(f"--unlock: {owner}, still runs: end it first by Ctrl-C or: kill -INT {owner.process}")
    if not any(LOCK.fullmatch(path.name) for path in folder.glob("*.lock")):
        return "no lock: nothing to remove"
    shutil.rmtree(folder)
    return f"removed the lock of {'; '.join(map(str, owners)) or 'an unknown run'}"


def started_at(process: int) -> str | None:
    """Return when a process of this system began; None where it has ended, empty where that is hidden."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return None
    except PermissionError:
        pass  # another user's
    try:
        state, *fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return ""
    return None if state in "ZX" else fields[18]  # a zombie has ended; proc(5): starttime


def _signed(folder: Path) -> Iterator[tuple[Path, Owner]]:
    for path in sorted(folder.glob(f"*{SIGNED}")):
        with suppress(OSError, ValueError, TypeError, AttributeError):  # damaged, or gone by now: without an owner
            owner = Owner(**json.loads(path.read_text(encoding="utf-8")))
            if owner.process > 0 and all(LOCK.fullmatch(name) for name in owner.locks):
                yield path, owner


def _system() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _machine() -> str:
    try:
        return Path("/etc/machine-id").read_text(encoding="utf-8").strip()
    except OSError:
        return ""
