"""Peers of the private step on small batches: all give our sums, and one that does not is found before it is timed."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from importlib import metadata

import pandas as pd
import pytest
import torch

from dpgraph.benchmarks import peers
from dpgraph.benchmarks.peers import ARCHITECTURES, CASES, COLUMNS, PEERS, Peer, bench, difference
from dpgraph.benchmarks.peers_problem import UNCLIPPED, Problems, padded
from dpgraph.cli import main
from dpgraph.errors import UserError
from dpgraph.loading import load
from dpgraph.reporting.peers import HEADS, table, write_peers
from dpgraph.training.clipping import clipped_gradient_sum

SMALL = replace(ARCHITECTURES[1], batch_size=12)
OURS, PLAIN = PEERS[0], PEERS[-1]


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
    step = load(peer.make)(problem)
    for _ in range(2):  # nothing is carried over from one call to the next
        assert difference(step(), expected) < 1e-9


@pytest.mark.parametrize("name", ["opacus hooks", "opacus ghost", "torch vmap", "pyg", "plain, not private"])
def test_pieces_add_up(problems, name, monkeypatch):
    from dpgraph.benchmarks import peers_pyg, peers_torch

    for module in (peers_torch, peers_pyg):
        for constant in [one for one in vars(module) if one.startswith("ROOTS")]:
            monkeypatch.setattr(module, constant, 5)
    peer = peer_named(name)
    problem = problems.problem(SMALL, torch.float64)
    expected = problem.sums(None if peer.clips else UNCLIPPED)
    assert difference(load(peer.make)(problem)(), expected) < 1e-9


def test_jax_pieces_of_unequal_numbers_add_up(problems, monkeypatch):
    """Thirteen roots in three pieces of five: two places count nothing."""
    pytest.importorskip("jax", reason="jax is not installed (extra peers)")
    from dpgraph.benchmarks import peers_jax

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


def here(name, function, package="torch"):
    return Peer(name, package, f"{__name__}:{function}")


@pytest.fixture
def loaded(monkeypatch):
    """Peers of this file, which pytest loads under a name that cannot be imported."""
    known = {f"{__name__}:{name}": globals()[name] for name in ("clips_the_mean", "off_in_large_batches", "too_large")}
    monkeypatch.setattr(peers, "load", lambda name: known.get(name) or load(name))


def bench_of(tmp_path, problems, *more, **options):
    return bench(tmp_path / "peers.csv", [SMALL], 1, peers=[OURS, *more], problems=problems, **options)


def test_a_peer_that_clips_the_mean_is_found(tmp_path, problems, loaded):
    ours, wrong = bench_of(tmp_path, problems, here("wrong", "clips_the_mean"))
    assert ours["note"] == ""
    assert float(ours["cpu_seconds"]) > 0
    assert re.match(r"wrong: sums differ from ours by \S+ in float64, more than 1e-09$", wrong["note"])
    assert wrong["cpu_seconds"] == wrong["ratio"] == ""


def test_a_peer_that_is_wrong_on_the_whole_batch_is_found(tmp_path, problems, loaded, monkeypatch):
    monkeypatch.setattr(peers, "CHECKED", 12)
    peer = here("wrong", "off_in_large_batches")
    rows = bench(tmp_path / "p.csv", [replace(SMALL, batch_size=30)], 1, peers=[OURS, peer], problems=problems)
    assert rows[1]["note"].startswith("wrong: sums differ from ours by 0.1 in float32")
    assert float(rows[1]["difference_float64"]) == 0
    assert rows[1]["cpu_seconds"] == ""


def test_what_a_peer_cannot_do_is_a_row_with_the_reason(tmp_path, problems, loaded):
    _, failed = bench_of(tmp_path, problems, here("large", "too_large"))
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
    write_peers(path)
    assert "not installed: jax" in path.with_suffix(".md").read_text()


def test_the_limit_of_time_leaves_rows_that_say_so(tmp_path, problems):
    rows = bench_of(tmp_path, problems, PLAIN, minutes=1e-9)
    assert [row["note"] for row in rows] == ["not measured: 1e-09 minutes of CPU time were over"] * 2
    files = write_peers(tmp_path / "peers.csv")  # nothing to draw is no error
    assert all(path.stat().st_size for path in files)


def test_settings_out_of_range_are_refused(tmp_path, problems, capsys):
    with pytest.raises(UserError, match="repeats=0"):
        bench(tmp_path / "p.csv", [SMALL], 0, problems=problems)
    assert main(["bench-peers", "--out", str(tmp_path / "p.csv"), "--minutes", "-1"]) == 2
    assert "--minutes=-1.0: expected a number > 0" in capsys.readouterr().err
    assert main(["bench-peers", "--out", str(tmp_path / "p.csv"), "--redraw"]) == 2
    assert "no such file" in capsys.readouterr().err


def test_threads_are_as_before(tmp_path, problems):
    before = torch.get_num_threads()
    bench_of(tmp_path, problems)
    assert torch.get_num_threads() == before


def test_all_that_the_issue_asks_for_is_a_case():
    found = {(case.architecture, case.hops, case.batch_size) for case in CASES}
    kinds = [("mlp", 0), *((kind, hops) for kind in ("gcn", "gin", "gat") for hops in (1, 2))]
    assert found == {(*kind, size) for kind in kinds for size in (100, 2_000, 10_000)}


# --- table and figure -------------------------------------------------------------------------------------------------


def written(path):
    """Made-up times of all cases; two peers, one of which fails in one case."""
    rows = []
    for case in CASES:
        for factor, peer in enumerate((OURS, PLAIN), 1):
            failed = peer is PLAIN and case == CASES[-1]
            seconds = "" if failed else factor * case.batch_size / 1e5
            rows.append(
                peers._row(case, peer)
                | {f"cpu_seconds{end}": seconds for end in ("", "_q25", "_q75")}
                | {f"ratio{end}": "" if failed else factor for end in ("", "_q25", "_q75")}
                | ({"note": "failed: no memory"} if failed else {"repeats": 5, "peak_mib": 12.3, "difference": "2e-6"})
            )
    peers._write(path, rows)
    return rows


def test_the_table_has_every_row(tmp_path):
    rows = written(tmp_path / "peers.csv")
    with (tmp_path / "peers.csv").open(newline="") as file:
        assert tuple(next(csv.reader(file))) == COLUMNS
    shown = table(pd.read_csv(tmp_path / "peers.csv"))
    assert [block.title for block in shown.blocks][:3] == ["MLP", "GCN, r = 1, K = 7", "GCN, r = 2, K = 3"]
    assert sum(len(block.rows) for block in shown.blocks) == len(rows) == 2 * len(CASES)
    assert [cell.value for cell in shown.blocks[1].rows[0]] == [
        "100", "dpgraph", "0.001 (0.001 to 0.001)", "1 (1 to 1)", "12.3", "2e-06", "5",
    ]  # fmt: skip
    last = shown.blocks[-1].rows[-1]
    assert [cell.value for cell in last[2:]] == ["–"] * 5
    assert shown.footnotes[last[2].notes[0] - 1] == "failed: no memory"
    assert all(len(row) == len(HEADS) for block in shown.blocks for row in block.rows)


def test_the_figure_has_a_panel_for_each_architecture(tmp_path):
    written(tmp_path / "peers.csv")
    assert main(["bench-peers", "--out", str(tmp_path / "peers.csv"), "--redraw"]) == 0
    for suffix in ("md", "html", "pdf", "svg", "png", "txt"):
        assert (tmp_path / f"peers.{suffix}").stat().st_size > 100
    picture = (tmp_path / "peers.svg").read_text()
    for title in ("MLP", "GCN, r = 1, K = 7", "GIN, r = 2, K = 3", "GAT, r = 2, K = 3"):
        assert f"<!-- {title} -->" in picture
    assert "1 of 42 rows of the table have no time" in (tmp_path / "peers.txt").read_text()
