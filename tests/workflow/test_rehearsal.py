"""Downloads of shipped entries rehearsed: files in the layouts of OGB, SNAP, DGL and SVHN from a local host."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from dpgraph.data.download import CHUNK
from tests.workflow.conftest import ROOT
from tests.workflow.upstream import MADE, open_upstream, path_of

SUITE = """
name: rehearsal
title: Data sets from a local host
note: Generated files under the names that they have upstream; no number means anything.
demonstration: true
seeds: 1
tasks:
  $name: {matrix: {name: NAMES}, label: $name, task: {dataset: rehearsed-$name}}
papers:
  daigavane:
    artefacts:
      table7: [{tasks: NAMES}]
"""


@pytest.fixture
def rehearsal(workflow, tmp_path):
    """A copy of the workflow whose suite needs data sets of a local host, that host, and their entries by name."""
    upstream, entries = open_upstream(tmp_path / "upstream")
    folder = workflow.folder
    (folder / "own").mkdir()
    written = {f"rehearsed-{name}": one.model_dump(mode="json", exclude_defaults=True) for name, one in entries.items()}
    (folder / "own/datasets.yaml").write_text(yaml.safe_dump(written))
    config = folder / "config.yaml"
    config.write_text(re.sub(r"^registry: \[\]", "registry: [own]", config.read_text(), count=1, flags=re.M))
    (folder / "workflow/suites/rehearsal.yaml").write_text(SUITE.replace("NAMES", json.dumps(list(MADE))))
    yield folder, upstream, entries
    upstream.http.shutdown()
    upstream.http.server_close()


def start(folder: Path, *targets: str) -> subprocess.Popen[str]:
    """Start `dpgraph run` without a mirror in its own process group."""
    command = [sys.executable, "-m", "dpgraph", "run", *targets, "--suite", "rehearsal", "--cores", str(len(MADE))]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "DPGRAPH_MIRROR": "", "OMP_NUM_THREADS": "1"}
    options = {"cwd": folder, "env": environment | {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}}
    return subprocess.Popen(command, **options, stderr=subprocess.PIPE, text=True, start_new_session=True)


@pytest.mark.slow
def test_a_killed_run_goes_on_where_its_downloads_broke(rehearsal):
    """An archive and the second file of a pair break; the first of the pair and two data sets are whole."""
    folder, upstream, entries = rehearsal
    raw = folder / "data/raw"
    urls = {"reddit": entries["reddit"].archive.url, "pokec": entries["pokec"].files[1].sources[0].url}
    parts = {path_of(url): raw / f"rehearsed-{name}/{Path(url).name}.part" for name, url in urls.items()}
    whole = [raw / f"rehearsed-{name}/manifest.json" for name in entries.keys() - urls]

    def broken() -> bool:
        grown = all(part.is_file() and part.stat().st_size >= CHUNK for part in parts.values())
        return grown and all(path.is_file() for path in whole)

    upstream.stalls = dict.fromkeys(parts, CHUNK + CHUNK // 4)  # a part grows by whole chunks
    run = start(folder, "data", "tables")
    try:
        while not broken():  # the host sends no more: what is waited for comes and stays
            assert run.poll() is None, run.communicate()[1]
            time.sleep(0.05)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
    assert {upstream.left.get(timeout=60) for _ in parts} == set(parts)  # the jobs are dead, too
    assert sorted(upstream.requests) == sorted((path, None) for path in upstream.files)
    came = {path: part.stat().st_size for path, part in parts.items()}

    upstream.stalls, upstream.requests = {}, []
    run = start(folder, "data", "tables")
    said = run.communicate()[1]
    assert run.returncode == 0, said
    assert sorted(upstream.requests) == sorted((path, f"bytes={size}-") for path, size in came.items())
    assert not [path for path in raw.rglob("*") if path.suffix in (".part", ".version", ".zip")]
    table = (folder / "results/rehearsal/tables/daigavane/table7.md").read_text()
    for name, entry in entries.items():
        graph = json.loads((folder / f"data/graphs/rehearsed-{name}/transductive.public/graph.json").read_text())
        counts, expected = graph["statistics"], entry.expected
        assert (graph["status"], counts["nodes"], counts["features"]) == ("ok", expected.nodes, expected.features)
        assert (counts["classes"], *counts["split_sizes"].values()) == (expected.classes, *expected.split)
        assert counts.get("entries") == expected.entries
        edges = "–" if expected.entries is None else f"{expected.entries // 2:,}"
        assert f"| {name} | ours | {expected.nodes:,} | {edges} |" in table


@pytest.mark.slow
def test_a_file_with_another_hash_than_registered_is_one_line(rehearsal):
    folder, upstream, entries = rehearsal
    source = entries["svhn"].files[1].sources[0]
    body = upstream.files[path_of(source.url)]
    upstream.files[path_of(source.url)] = other = bytes([body[0] ^ 1]) + body[1:]
    run = start(folder, "data/raw/rehearsed-svhn/manifest.json")
    said = run.communicate()[1]
    assert run.returncode == 1, said
    line = (
        f"error: {source.url}: sha256={hashlib.sha256(other).hexdigest()}: expected sha256 {source.sha256} "
        "(deleted: run again; if it stays so, put the expected file into a mirror)"
    )
    assert [one for one in said.splitlines() if one.startswith("error: ")] == [line]
    assert (folder / "logs/fetch/rehearsed-svhn.log").read_text().splitlines() == [line]
    assert {path.name for path in (folder / "data/raw/rehearsed-svhn").glob("*.mat*")} == {"train_32x32.mat"}
