"""A `python` that need not import what takes seconds: `python -m MODULE` is forked from a process that has imported it.

Two processes answer: one has imported the package of this checkout, too, and the other has not. That one is asked where
a job has a dpgraph of its own, first on its path. Whatever is not `-m` is left to the interpreter itself.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import dpgraph

SERVER = """
import atexit, gc, importlib, json, os, pkgutil, runpy, select, signal, socket, sys

status = 1


@atexit.register
def end():  # as the last of all that is to be done: what was imported need not be taken apart
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


folder, python, package = sys.argv[1:]
listeners = {name: socket.socket(socket.AF_UNIX) for name in ("known", "other")}
for name, listener in listeners.items():
    listener.bind(f"{folder}/{name}")
    listener.listen(64)
print("listens", flush=True)
for name in ("snakemake.cli", "numpy", "pandas", "pyarrow.parquet", "pydantic", "yaml", "jinja2", "cyclopts",
             "scipy.sparse", "scipy.special", "scipy.stats", "scipy.optimize", "dp_accounting.pld",
             "matplotlib.figure", "matplotlib.backends.backend_agg", "torch", "torch._dynamo"):
    importlib.import_module(name)
sys.modules["snakemake.cli"].get_argument_parser()  # loads the plugins
folders, listener = sys.path[1:], listeners["other"]
known = os.fork()
if not known:
    listener = listeners["known"]
    for _, name, _ in pkgutil.walk_packages([package], "dpgraph."):
        if name.split(".")[1] in ("cli", "pipeline", "planning", "reporting") or name.endswith((".spec", ".train")):
            importlib.import_module(name)
gc.freeze()
while sys.stdin not in select.select([listener, sys.stdin], [], [])[0]:  # it is closed when nobody asks any more
    connection, _ = listener.accept()
    if os.fork():
        connection.close()
        while os.waitpid(-1, os.WNOHANG)[0]:  # of earlier jobs; one is there
            pass
        continue
    opened = socket.recv_fds(connection, 1, 3)[1]
    folder, environment, (_, name, *arguments) = json.load(connection.makefile())
    job = os.fork()
    if job:
        connection.send(str(os.waitstatus_to_exitcode(os.waitpid(job, 0)[1])).encode())
        os._exit(0)
    for one in (connection, *listeners.values()):
        one.close()
    signal.alarm(1800)
    for target, one in enumerate(opened):
        os.dup2(one, target)
        os.close(one)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    named = [one for one in environment.get("PYTHONPATH", "").split(os.pathsep) if one]
    sys.path, sys.executable, sys.argv = [folder, *named, *folders], python, ["", *arguments]
    if not hasattr(sys.modules.get(name), "__path__"):
        sys.modules.pop(name, None)  # it is run, not imported
    try:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
        status = 0
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        raise
    sys.exit()
if known:
    os.waitpid(known, 0)
"""
PYTHON = """#!{python} -IS
import json, os, socket, sys
if sys.argv[1:2] != ["-m"]:
    os.execv("{python}", ["{python}", *sys.argv[1:]])
folders = ["src"] * (sys.argv[2] == "snakemake") + os.environ.get("PYTHONPATH", "").split(os.pathsep)
own = [one for one in (os.path.realpath(f"{{one}}/dpgraph") for one in folders) if os.path.isdir(one)]
server = socket.socket(socket.AF_UNIX)
server.connect("{folder}/" + ("other" if own and own[0] != "{package}" else "known"))
socket.send_fds(server, [b" "], [0, 1, 2])
server.sendall(json.dumps([os.getcwd(), dict(os.environ), sys.argv[1:]]).encode())
server.shutdown(socket.SHUT_WR)
status = int(server.recv(64) or 1)
os._exit(status if status >= 0 else 128 - status)
"""


@cache
def python() -> str:
    """Return the path of that `python`, which is there until this process ends."""
    folder = TemporaryDirectory(prefix="dpgraph-python-")
    path, package = Path(folder.name, "python"), Path(dpgraph.__file__).resolve().parent
    path.write_text(PYTHON.format(python=sys.executable, folder=folder.name, package=package))
    path.chmod(0o755)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SERVER, folder.name, str(path), str(package)]
    server = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    stdin = server.stdin

    def end() -> None:
        stdin.close()
        server.wait(60)
        folder.cleanup()

    atexit.register(end)
    assert server.stdout.readline() == b"listens\n"
    return str(path)
