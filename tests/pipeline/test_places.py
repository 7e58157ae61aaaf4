"""Places in which jobs run: GPUs and their memory, profiles, and what `dpgraph run` makes of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from dpgraph.cli.snakemake import snakemake_command
from dpgraph.config.config import Config
from dpgraph.pipeline import places
from dpgraph.planning.plan import load_plan

ROOT = Path(__file__).parents[2]


@pytest.fixture
def gpus(monkeypatch, tmp_path):
    """A function that puts a program `nvidia-smi` on the PATH, which prints the memory of GPUs."""
    monkeypatch.delenv(places.VISIBLE, raising=False)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), os.environ["PATH"]]))
    program = tmp_path / "nvidia-smi"

    def put(*mebibytes, status=0):
        program.write_text("#!/bin/sh\n" + "".join(f"echo {one}\n" for one in mebibytes) + f"exit {status}\n")
        program.chmod(0o755)

    put(status=9)
    return put


def plan_of(**config):
    return load_plan(Config(suite="demo", papers=("daigavane",), device="cuda", **config), ROOT / "workflow")


def test_as_many_jobs_share_a_gpu_as_fit(gpus):
    """Jobs of suite demo need 1.5 to 1.7 GB."""
    assert places.jobs_on_gpus(plan_of()) == places.FEW_PER_GPU  # nobody knows
    gpus(8000)
    assert places.jobs_on_gpus(plan_of()) in (4, 5)
    gpus(143_000, 1000)
    assert places.jobs_on_gpus(plan_of()) == places.MOST_PER_GPU + 1
    assert places.jobs_on_gpus(plan_of(jobs_per_gpu=3)) == 6


def test_only_gpus_that_the_process_may_use_count(gpus, monkeypatch):
    gpus(100, 200, 300)
    for visible, expected in (("1", [100]), ("0,2", [100, 200]), ("", [])):
        monkeypatch.setenv(places.VISIBLE, visible)
        assert places.gpu_memory() == expected
    gpus("no devices were found")
    assert places.gpu_memory() == []


def test_bundles_take_turns_on_several_gpus_unless_a_scheduler_chose(gpus, monkeypatch):
    gpus(100, 100)
    chosen = set()
    for number in range(20):
        monkeypatch.delenv(places.VISIBLE, raising=False)
        places.choose_gpu(f"bundle-{number}", "cuda")
        chosen.add(os.environ[places.VISIBLE])
        places.choose_gpu("another", "cuda")
        assert os.environ[places.VISIBLE] in chosen
    assert chosen == {"0", "1"}
    monkeypatch.delenv(places.VISIBLE)
    places.choose_gpu("bundle", "cpu")
    gpus(100)
    places.choose_gpu("bundle", "cuda")
    assert places.VISIBLE not in os.environ


def counted(*, expect: int | None, gpu: int | None = None, **options):
    command = snakemake_command(["tables"], suite="demo", **options)
    given = dict(item.split("=", 1) for item in command[command.index("--config") + 1 : command.index("--")])
    assert json.loads(given.get("parallel_jobs", "null")) == expect
    assert (f"gpu={gpu}" in command) == (gpu is not None)


def test_dpgraph_run_counts_cores_gpus_or_the_jobs_of_a_profile(gpus, monkeypatch):
    monkeypatch.chdir(ROOT)
    counted(expect=3, cores=3)
    counted(expect=100, profile="slurm")
    counted(expect=7, profile="slurm", further="--jobs 7")
    counted(expect=5, cores=3, changes=("parallel_jobs=5",))
    gpus(4000)
    counted(expect=2, gpu=2, cores=16, changes=("device=cuda",))
    counted(expect=1, gpu=2, cores=1, changes=("device=cuda",))
    counted(expect=100, profile="slurm", changes=("device=cuda",))
