"""Runs `python -m dpgraph` in processes that need not import what is heavy: they are forked from one that has.

A run of Snakemake by the tests starts some twenty jobs, which would import PyTorch or pandas for seconds each. The
server has imported nothing of dpgraph, which a job takes from its own folder.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

HEAVY = ("numpy", "pandas", "pyarrow.parquet", "pydantic", "yaml", "scipy.sparse", "scipy.stats", "torch",
         "torch._dynamo", "matplotlib.figure", "matplotlib.backends.backend_pdf",
         "dp_accounting.pld.privacy_loss_distribution", "dp_accounting.rdp")  # fmt: skip
# what stands for `python` on the PATH of jobs
CLIENT = """#!{python} -IS
import os, sys
if sys.argv[1:3] != ["-m", "dpgraph"]:
    os.execv({python!r}, [{python!r}, *sys.argv[1:]])
import json, socket
server = socket.socket(socket.AF_UNIX)
server.connect({place!r})
socket.send_fds(server, [b" "], [0, 1, 2])
job = dict(folder=os.getcwd(), environment=dict(os.environ), arguments=sys.argv[3:])
server.sendall(json.dumps(job).encode())
server.shutdown(socket.SHUT_WR)
sys.exit(int(server.recv(16) or 1))
"""


class JobServer:
    """The process that forks, and `python`, a program that has it run `python -m dpgraph`."""

    def __init__(self) -> None:
        self.folder = TemporaryDirectory(prefix="dpgraph-jobs-")
        place, self.python = Path(self.folder.name, "socket"), Path(self.folder.name, "python")
        self.python.write_text(CLIENT.format(python=sys.executable, place=str(place)))
        self.python.chmod(0o755)
        self.process = subprocess.Popen(
            [sys.executable, __file__, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"}, cwd=self.folder.name,
        )  # fmt: skip
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"

    def end(self) -> None:
        self.process.kill()
        self.process.wait(60)
        self.folder.cleanup()


def serve(place: str) -> None:
    for name in HEAVY:
        importlib.import_module(name)
    assert not [name for name in sys.modules if name.split(".")[0] == "dpgraph"]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # who waits for a job is a process of its own, which nobody awaits
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            client, _ = listener.accept()
            if os.fork():
                client.close()
                continue
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            break
    _, files, *_ = socket.recv_fds(client, 1, 3)
    with client.makefile() as asked:
        job = json.loads(asked.read())
    if pid := os.fork():
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        client.sendall(str(status if status >= 0 else 128 - status).encode())
        os._exit(0)
    client.close()
    for target, opened in enumerate(files):
        os.dup2(opened, target)
        os.close(opened)
    os.chdir(job["folder"])
    os.environ.clear()
    os.environ.update(job["environment"])
    sys.path[:1] = [job["folder"], *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    sys.argv = ["dpgraph", *job["arguments"]]
    runpy.run_module("dpgraph", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    serve(sys.argv[1])
