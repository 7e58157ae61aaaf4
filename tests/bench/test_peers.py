"""Peers of the private step on small batches: all give our sums, and one that does not is found before it is timed."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from importlib import metadata

import pytest
import torch

from bench import peers, peers_jax, peers_torch
from bench.peers import ARCHITECTURES, CASES, COLUMNS, PEERS, Peer, bench, difference, table
from bench.peers_problem import UNCLIPPED, Problems, padded
from dpgraph.engine.training.captured import program
from dpgraph.engine.training.clipping import clipped_gradient_sum
from tests.engine.training.test_captured import RECORDED

SMALL = replace(ARCHITECTURES[1], batch_size=12)
OURS, PLAIN = PEERS[0], PEERS[-1]


@pytest.fixture(autouse=True)
def _recorded(monkeypatch):
    monkeypatch.setattr(program, "compiled", RECORDED)


@pytest.fixture(scope="module")
def problems():
    return Problems(nodes=600, width=20)  # ten heads of width 2: together as wide as a state


def peer_named(name):
    return next(peer for peer in PEERS if peer.name == name)


@pytest.mark.parametrize("case", ARCHITECTURES, ids=lambda case: f"{case.architecture}-{case.hops}")
@pytest.mark.parametrize("peer", PEERS[1:], ids=lambda peer: peer.name)
def test_every_peer_gives_our_sums(problems, peer, case):
    if peer.version is None:
        pytest.skip(f"{peer.package} is not installed")
    problem = problems.problem(replace(case, batch_size=20), torch.float64)
    arguments = (problem.network, problem.trees, problem.positions, problem.features, problem.labels)
    clipped = clipped_gradient_sum(*arguments, problem.limit).norms > problem.limit
    assert 0 < clipped.sum() < 20
    expected = problem.sums(None if peer.clips else UNCLIPPED)
    step = peer.make(problem)
    for _ in range(2):  # nothing is carried over from one call to the next
        assert difference(step(), expected) < 1e-9


@pytest.mark.parametrize("name", ["opacus hooks", "opacus ghost", "torch vmap", "plain, not private"])
def test_pieces_add_up(problems, name, monkeypatch):
    for constant in [one for one in vars(peers_torch) if one.startswith("ROOTS")]:
        monkeypatch.setattr(peers_torch, constant, 5)
    peer = peer_named(name)
    problem = problems.problem(SMALL, torch.float64)
    expected = problem.sums(None if peer.clips else UNCLIPPED)
    assert difference(peer.make(problem)(), expected) < 1e-9


def test_jax_pieces_of_unequal_numbers_add_up(problems, monkeypatch):
    """Thirteen roots in three pieces of five: two places count nothing."""
    pytest.importorskip("jax", reason="jax is not installed (extra peers)")
    monkeypatch.setattr(peers_jax, "ROOTS_OF_VMAP", 5)
    monkeypatch.setattr(peers_jax, "ROOTS_OF_OURS", 5)
    problem = problems.problem(replace(SMALL, batch_size=13), torch.float64)
    for make in (peers_jax.jax_vmap, peers_jax.jax_ours):
        assert difference(make(problem)(), problem.sums()) < 1e-9


def test_padding_keeps_every_row(problems):
    problem = problems.problem(replace(ARCHITECTURES[2], batch_size=9))
    batch, trees = problem.trees.batch(problem.positions), padded(problem, problem.positions, (1, 2, 3))
    assert trees.nodes.shape[1] % 3 == 0
    assert trees.reads[1].shape[1] % 2 == 0
    for root, (above, below) in enumerate(zip(batch.sizes[1], batch.sizes[2], strict=True)):
        assert trees.reads[0][root].sum() == above  # the root reads every row of the first level once
        assert trees.reads[1][root, above:, 1:].sum() == 0  # segments that pad read row 0 only
        assert trees.reads[1][root, :, below:].sum() == 0  # rows that pad are not read
        assert trees.nodes[root, below:].eq(batch.roots[root]).all()
    for mean in trees.means():
        torch.testing.assert_close(mean.sum(2), torch.ones(mean.shape[:2]))


# --- what bench writes ------------------------------------------------------------------------------------------------


def clips_the_mean(problem):
    """The planted bug: one clipped gradient of the mean, times the roots, instead of clipped gradients of roots."""

    def sums():
        every = problem.sums(UNCLIPPED)
        norm = torch.cat([one.flatten() for one in every]).norm() / len(problem.positions)
        return [one * float(min(1, problem.limit / norm)) for one in every]

    return sums


def off_in_large_batches(problem):
    return lambda: [(1.0 if len(problem.positions) < 20 else 1.1) * one for one in problem.sums()]


def too_large(problem):
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory:\n you tried to allocate 16 TB")


def bench_of(tmp_path, problems, *more):
    return bench(tmp_path / "peers.csv", [SMALL], 1, peers=[OURS, *more], problems=problems)


def test_a_peer_that_clips_the_mean_is_found(tmp_path, problems):
    ours, wrong = bench_of(tmp_path, problems, Peer("wrong", "torch", clips_the_mean))
    assert ours["note"] == ""
    assert float(ours["seconds"]) > 0
    assert re.match(r"wrong: sums differ from ours by \S+ in float64, more than 1e-09$", wrong["note"])
    assert wrong["seconds"] == wrong["ratio"] == ""


def test_a_peer_that_is_wrong_on_the_whole_batch_is_found(tmp_path, problems, monkeypatch):
    monkeypatch.setattr(peers, "CHECKED", 12)
    peer = Peer("wrong", "torch", off_in_large_batches)
    rows = bench(tmp_path / "p.csv", [replace(SMALL, batch_size=30)], 1, peers=[OURS, peer], problems=problems)
    assert rows[1]["note"].startswith("wrong: sums differ from ours by 0.1 in float32")
    assert float(rows[1]["difference_float64"]) == 0
    assert rows[1]["seconds"] == ""


def test_what_a_peer_cannot_do_is_a_row_with_the_reason(tmp_path, problems):
    _, failed = bench_of(tmp_path, problems, Peer("large", "torch", too_large))
    assert failed["note"] == (
        "failed: RuntimeError: DefaultCPUAllocator: can't allocate memory: you tried to allocate 16 TB"
    )


def test_a_package_that_is_missing_is_one_row(tmp_path, problems, monkeypatch):
    def version(name):
        if name == "jax":
            raise metadata.PackageNotFoundError(name)
        return "1.0"

    monkeypatch.setattr(peers.metadata, "version", version)
    path = tmp_path / "peers.csv"
    cases = [SMALL, replace(SMALL, batch_size=7)]
    rows = bench(path, cases, 1, peers=[OURS, peer_named("jax vmap")], problems=problems)
    assert [row["peer"] for row in rows] == ["dpgraph", "dpgraph", "jax vmap"]
    assert rows[-1]["note"] == "not installed: jax (pip install '.[peers]')"
    assert rows[-1]["architecture"] == rows[-1]["version"] == ""


def test_threads_are_as_before(tmp_path, problems):
    before = torch.get_num_threads()
    bench_of(tmp_path, problems)
    assert torch.get_num_threads() == before


def test_the_table_has_a_row_for_each_network(tmp_path, problems):
    rows = bench_of(tmp_path, problems, PLAIN)
    with (tmp_path / "peers.csv").open(newline="") as file:
        assert tuple(next(csv.reader(file))) == COLUMNS
    lines = table(rows).splitlines()
    assert lines[:3] == ["m = 12:", "", "| network | `dpgraph`, ms | `plain, not private` |"]
    assert re.fullmatch(r"\| GCN, r = 1 \| \S+ \| \S+ \(\S+ to \S+\) \|", lines[-1])
    failed = [rows[0], rows[1] | {"ratio": "", "note": "failed: no memory"}]
    assert table(failed).endswith("| failed: no memory |\n")


def test_cases_are_all_networks_at_three_sizes():
    found = {(case.architecture, case.hops, case.batch_size) for case in CASES}
    kinds = [("mlp", 0), *((kind, hops) for kind in ("gcn", "gin", "gat") for hops in (1, 2))]
    assert found == {(*kind, size) for kind in kinds for size in (100, 2_000, 10_000)}
