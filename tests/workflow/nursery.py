"""Start processes of `python -m dpgraph` that need not import it, and kill them where an order on stdin says so.

An order has `arguments`, the file `log` for messages, and `saves`, to be killed after so many checkpoints, or `before`,
to be killed before such a file is there; it is answered by the process id. `wait` is answered by the exit status.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from importlib import import_module
from typing import Any

from dpgraph.__main__ import interrupt
from dpgraph.cli import main
from dpgraph.engine.training.checkpoint import Checkpoint
from dpgraph.families.registry import method, specs


def start(order: dict[str, Any]) -> None:
    """Run the command in this process, which ends with it."""
    save, replace = Checkpoint.save, os.replace

    def killing_save(*arguments: Any) -> None:
        save(*arguments)
        order["saves"] -= 1
        if not order["saves"]:
            os.kill(os.getpid(), signal.SIGKILL)

    def killing_replace(source: Any, target: Any) -> None:
        if str(target).endswith(order["before"]):
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)

    sys.stdout = sys.stderr = open(order["log"], "w", buffering=1)  # noqa: SIM115
    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if "saves" in order:
        Checkpoint.save = killing_save  # type: ignore[method-assign, assignment]
    if "before" in order:
        os.replace = killing_replace  # type: ignore[assignment]
    os._exit(main(order["arguments"]))


if __name__ == "__main__":
    # the first optimiser of a process imports torch._dynamo
    for name in ("torch._dynamo", "dpgraph.pipeline.execute", "dpgraph.pipeline.stages"):
        import_module(name)
    for name in specs():
        method(name)
    for line in sys.stdin:
        given = json.loads(line)
        if "wait" in given:
            print(os.waitstatus_to_exitcode(os.waitpid(given["wait"], 0)[1]), flush=True)
        elif pid := os.fork():
            print(pid, flush=True)
        else:
            start(given)
