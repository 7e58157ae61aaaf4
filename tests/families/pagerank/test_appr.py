"""DP-APPR through its method: which rows training reads, what resumes, what a node may change."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from dpgraph.config.cell import Cell
from dpgraph.core.errors import UserError
from dpgraph.data.adjacency import transpose
from dpgraph.data.records import NO_SPLIT, TRAIN
from dpgraph.engine.models.weighted_rows import PaddedRows
from dpgraph.engine.training import closed_rows
from dpgraph.engine.training.checkpoint import Checkpoint
from dpgraph.engine.training.loop import Diverged
from dpgraph.families.jobs import make_jobs
from dpgraph.families.pagerank import train as row_training
from dpgraph.families.pagerank.prepared import clip_columns, kept_nodes, longest, with_own
from dpgraph.families.pagerank.train import Reading
from dpgraph.families.registry import method
from dpgraph.planning.resolve import calibrate, mechanism_for
from dpgraph.privacy.cache import default_cache
from tests.contract.cells import CELLS, pagerank_cell
from tests.contract.conftest import toy_graph

CPU = torch.device("cpu")
GRAPH = toy_graph()
EVERY = list(
    dict.fromkeys(
        (cell.method, cell.privacy and cell.privacy.variant, cell.pagerank.release)
        for cell in CELLS.values()
        if cell.method in ("appr", "dp-appr")
    )
)
every_cell = pytest.mark.parametrize(("name", "variant", "release"), EVERY)


def given_noise(name, variant, release, **more) -> Cell:
    """The contract's cell with the noise of its steps given, so that nothing is to be solved but the release."""
    cell = pagerank_cell(name, variant, release, **more)
    if cell.privacy is None or cell.pagerank.released:
        return cell
    privacy = cell.privacy.model_copy(update={"epsilon": None, "noise_multiplier": 3.0})
    return cell.model_copy(update={"privacy": privacy})


def unsolved(cell, graph=GRAPH, seed=0):
    """A job whose rows are known and whose steps have noise of multiplier 3."""
    mechanism = mechanism_for(cell, len(graph.train_nodes))
    if cell.privacy is not None:
        mechanism = mechanism.model_copy(update={"noise_multiplier": 3.0})
    return make_jobs(graph, cell, [seed], StubCalibration(mechanism), CPU)[0]


def rows_of(job):
    """Rows before their columns are bounded, and their roots."""
    if job.prepared is None:
        reading = Reading.of_job(job, job.cell.pagerank)
        return reading.rows, reading.roots
    return job.prepared.released, job.prepared.rows.roots


def padded(job):
    """The arrays that the engine reads."""
    found = job.prepared or Reading.of_job(job, job.cell.pagerank)
    weights = found.weights if job.prepared else found.rows
    return PaddedRows.from_weights(weights, rows_of(job)[1], found.length), found


class StubCalibration:
    """Of a mechanism that is not solved: no accountant runs."""

    def __init__(self, mechanism):
        self.mechanism, self.statement = mechanism, None


def nothing(step, logits):
    return {"step": step}


def trained(cell, seed=0, checkpoint=None, observe=nothing):
    return method(cell.method).run(replace(unsolved(cell, seed=seed), checkpoint=checkpoint), observe)


@every_cell
def test_rows_are_of_public_roots_and_kept_nodes(name, variant, release):
    """Roots and kept nodes depend on the ids of training nodes and the seed: not on edges, records and labels."""
    cell = pagerank_cell(name, variant, release)
    other = replace(GRAPH, features=-GRAPH.features, labels=(GRAPH.labels + 1) % 3, out_idx=GRAPH.out_idx[::-1].copy())
    kept = 32 if variant == "published" else 40
    named, chosen = [], []
    for seed in range(4):
        rows, roots = rows_of(unsolved(cell, seed=seed))
        _, again = rows_of(unsolved(cell, other, seed))
        assert np.array_equal(roots, again)
        assert len(set(roots)) == 20
        assert rows.shape == (20, 60)
        assert (GRAPH.split[roots] == TRAIN).all()
        assert (GRAPH.split[rows.indices] == TRAIN).all()
        entries = np.diff(rows.indptr)
        assert (entries <= (1 if release == "identity" else 4)).all()
        assert release == "exact" or len(set(entries)) == 1
        named.append(set(roots) | set(rows.indices))
        chosen.append(set(roots))
    assert all(len(one) <= kept for one in named)
    assert len({frozenset(one) for one in chosen}) == 4


def test_kept_nodes_and_the_order_of_roots_read_ids_alone():
    """Labels, features and edges of half of the training nodes become null: nobody moves."""
    rows, seen = pagerank_cell("dp-appr", "published", "gaussian", node_share=0.5).pagerank, []
    hidden = np.where(np.arange(60) % 2, -1, GRAPH.labels)
    ptr, idx = np.zeros(61, dtype=np.int64), np.zeros(0, dtype=np.int32)
    empty = {"out_ptr": ptr, "out_idx": idx, "in_ptr": ptr, "in_idx": idx}
    for graph in (GRAPH, replace(GRAPH, labels=hidden, features=np.zeros_like(GRAPH.features), **empty)):
        seen.append(kept_nodes(graph, rows, row_training.numpy_generator("kept")))
    assert all(np.array_equal(one, two) for one, two in zip(*seen, strict=True))


@pytest.mark.parametrize("release", ["random", "gaussian", "exponential"])
def test_nothing_outside_of_the_kept_nodes_is_read(release):
    """Where a training node is not kept, neither its record nor its edges matter."""
    cell = given_noise("dp-appr", "published", release, node_share=0.5)
    job = unsolved(cell)
    order = GRAPH.train_nodes[row_training.numpy_generator(*job.names("kept nodes")).permutation(40)]
    kept, left = order[:20], order[20:]
    rows, _ = rows_of(job)
    assert set(rows.indices) <= set(kept)
    owners = np.repeat(np.arange(60), np.diff(GRAPH.out_ptr))
    stay = ~np.isin(owners, left) & ~np.isin(GRAPH.out_idx, left)
    ptr = np.concatenate([[0], np.cumsum(np.bincount(owners[stay], minlength=60))])
    idx = GRAPH.out_idx[stay]
    changed, _ = rows_of(unsolved(cell, replace(GRAPH, out_ptr=ptr, out_idx=idx, in_ptr=ptr, in_idx=idx)))
    assert (rows != changed).nnz == 0


@pytest.mark.parametrize("release", ["random", "gaussian", "exponential", "exponential-values"])
@pytest.mark.parametrize("cap", [1, 2])
def test_no_column_of_what_training_reads_has_more_entries_than_the_cap(release, cap):
    """Counted in the arrays that the engine gets: at most cap roots read a node besides itself."""
    cell = pagerank_cell("dp-appr", "rigorous", release, column_cap=cap, own_weight=0.25)
    for seed in range(5):
        job = unsolved(cell, seed=seed)
        before = np.bincount(rows_of(job)[0].indices, minlength=60)
        read, _ = padded(job)
        named = read.nodes != read.roots[:, None]
        others = np.bincount(read.nodes[named], minlength=60)
        assert others.max() <= cap < before.max()
        assert job.mechanism.affected_roots == cap + 1


def test_columns_of_the_thesis_have_a_bounded_norm():
    rows = sp.csr_matrix(np.array([[0.9, -0.1, 0.0], [0.9, 0.1, 0.0], [-1.8, 0.3, 0.0]]))
    found = clip_columns(rows, 1.2).toarray()
    assert found == pytest.approx(np.array([[0.3, -0.1, 0], [0.3, 0.1, 0], [-0.6, 0.3, 0]]))
    job = unsolved(pagerank_cell("dp-appr", "published", "gaussian", column_norm=0.01))
    norms = abs(job.prepared.weights).sum(axis=0)
    assert norms.max() == pytest.approx(0.01)


@pytest.mark.parametrize("release", ["exact", "random", "gaussian", "exponential"])
def test_every_kept_node_has_a_loss_and_every_column_the_same_norm(release):
    """The authors' later code: a node without a row reads its own record, and columns grow, too."""
    job = unsolved(pagerank_cell("dp-appr", "published", release, losses="kept", node_share=0.75))
    before, found = job.prepared.released, job.prepared
    kept, rows = kept_nodes(GRAPH, job.cell.pagerank, row_training.numpy_generator(*job.names("kept nodes")))
    assert len(kept) == 30
    assert sorted(found.rows.roots) == kept.tolist()
    assert np.array_equal(found.rows.roots[:20], rows)
    own = np.zeros((10, 60))
    own[np.arange(10), found.rows.roots[20:]] = 1
    stacked = np.vstack([before.toarray(), own])
    norms = abs(stacked).sum(axis=0)
    assert found.weights.toarray() == pytest.approx(stacked / np.where(norms > 0, norms, 1))
    assert abs(found.weights).sum(axis=0).max() == pytest.approx(1)


@pytest.mark.parametrize("variant", ["rigorous", "published"])
@pytest.mark.parametrize("release", ["random", "gaussian", "identity"])
def test_a_node_is_read_by_the_rows_that_may_name_it_and_its_own(variant, release):
    """Counted over all roots in the arrays that the engine gets, of columns as full as they may be."""
    cell = pagerank_cell("dp-appr", variant, release, losses="kept", node_share=1.0, num_rows=5, top_k=39)
    job = unsolved(cell)
    read, _ = padded(job)
    named = np.zeros((len(read.roots), 60), dtype=bool)
    np.put_along_axis(named, read.nodes, True, axis=1)
    most = {"identity": 1, "random": 2, "gaussian": 2} if variant == "rigorous" else {"identity": 1}
    assert named.sum(axis=0).max() == job.mechanism.affected_roots == most.get(release, 6)
    assert job.mechanism.num_roots == len(read.roots) == 40


@pytest.mark.parametrize("release", ["exact", "gaussian"])
def test_the_scales_of_private_rows_reach_roots_without_a_row(release):
    """One list names all others. Without it the own weights of roots change that no row of theirs names."""
    cell = pagerank_cell("dp-appr", "published", release, losses="kept", node_share=1.0, num_rows=2, top_k=39)
    first = int(unsolved(cell).prepared.rows.roots[0])
    read = []
    for named in (np.setdiff1d(GRAPH.train_nodes, [first]), np.array([], dtype=np.int64)):
        out = np.where(np.arange(GRAPH.num_nodes + 1) > first, len(named), 0)
        idx = named.astype(GRAPH.out_idx.dtype)
        back = transpose(out, idx)
        job = unsolved(cell, replace(GRAPH, out_ptr=out, out_idx=idx, in_ptr=back[0], in_idx=back[1]))
        read.append(job.prepared.weights.toarray())
    changed = int((abs(read[0] - read[1]).max(axis=1) > 1e-9).sum())
    assert job.mechanism.affected_roots == (40 if release == "exact" else 3)
    if release == "exact":  # of released rows, all that follows is a function of the release
        assert changed > 3


def test_without_privacy_the_same_rows_are_read():
    plain = unsolved(pagerank_cell("appr", None, "exact", losses="kept"))
    reading = Reading.of_job(plain, plain.cell.pagerank)
    assert len(reading.roots) == 40
    norms = np.asarray(abs(reading.rows).sum(axis=0)).ravel()
    assert norms == pytest.approx(np.isin(np.arange(60), reading.rows.indices).astype(float))


def test_own_weights():
    rows = sp.csr_matrix(np.array([[0.0, 3.0, -1.0], [0.0, 0.0, 0.0], [0.5, 0.0, 0.5]]))
    roots = np.array([0, 1, 2])
    found = with_own(rows, roots, 0.2).toarray()
    assert found == pytest.approx(np.array([[0.2, 0.6, -0.2], [0, 1, 0], [0.4, 0, 0.6]]))
    assert (with_own(rows, roots, 0.0) != rows).nnz == 0


@every_cell
def test_rows_fit_their_places(name, variant, release):
    for top_k in (1, 3, 100):
        job = unsolved(pagerank_cell(name, variant, release, top_k=top_k, own_weight=0.5))
        _, found = padded(job)
        assert found.length == longest(job.cell.pagerank, 40) <= 41


@pytest.mark.parametrize("places", [4096, 0])
@every_cell
def test_an_outcome_shows_hidden_states_losses_and_steps(name, variant, release, places, monkeypatch):
    monkeypatch.setattr(closed_rows, "ALL_PLACES", places)
    one = trained(pagerank_cell(name, variant, release, {"activation": "relu" if places else "tanh"}), 3)
    assert np.array_equal(one.exposure.candidates, GRAPH.train_nodes)
    assert one.observations == [{"step": 2}, {"step": 4}, {"step": 6}]
    assert one.steps_per_second > 0


class Killed(Exception):
    pass


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
@pytest.mark.parametrize("case", [EVERY[0], ("dp-appr", "rigorous", "gaussian"), ("dp-appr", "published", "exact")])
def test_a_killed_run_goes_on_bit_by_bit(tmp_path, monkeypatch, case, optimizer):
    """Killed at its third observation; a checkpoint after each step."""
    monkeypatch.setattr(Checkpoint, "due", lambda self: True)
    training = {"steps": 19, "evaluations": 4, "optimizer": optimizer}
    cell = pagerank_cell(*case, {}, training)
    whole, seen = trained(cell), []

    def observe(step, logits):
        seen.append(step)
        if len(seen) == 3:
            raise Killed
        return {"step": step}

    path = tmp_path / "run.checkpoint"
    with pytest.raises(Killed):
        trained(cell, checkpoint=path, observe=observe)
    resumed = trained(cell, checkpoint=path)
    assert resumed.notes["resumed_at"] == 14
    assert np.array_equal(whole.logits, resumed.logits)
    assert whole.observations == resumed.observations
    assert path.exists()  # the stage removes it, once its results are written
    with pytest.raises(UserError, match="checkpoint of run"):
        trained(cell, 2, checkpoint=path)


def test_the_divisor_is_public():
    """A node that leaves the training set changes neither what sums are divided by nor the number of roots."""
    split = GRAPH.split.copy()
    split[GRAPH.train_nodes[0]] = NO_SPLIT
    for variant, expected in (("rigorous", 6.0), ("published", 8.0)):
        cell = pagerank_cell("dp-appr", variant, "random")
        mechanism = unsolved(cell).mechanism
        for graph in (GRAPH, replace(GRAPH, split=split)):
            (job,) = make_jobs(graph, cell, [0], StubCalibration(mechanism), CPU)
            found = job.prepared
            assert found.divisor == expected
            assert found.noise.std == 3.0 * found.clip_norm
            assert len(found.rows.roots) == 20
    exact = unsolved(pagerank_cell("dp-appr", "published", "exact")).prepared
    assert exact.noise.std == 3.0 * 8  # sigma B C, Eq. 5.5


def test_a_run_that_diverges_says_so():
    wild = pagerank_cell(*EVERY[0], {"activation": "relu"}, {"learning_rate": 1e38, "optimizer": "sgd"})
    with pytest.raises(Diverged):
        trained(wild)


def test_rows_of_a_solved_release_are_those_that_are_accounted_for():
    """Gaussian rows: noise of the mechanism's std on clipped rows, the K largest of them."""
    cell = pagerank_cell("dp-appr", "published", "gaussian", top_k=32)
    job = unsolved(cell)
    calibration = calibrate(cell, 40, default_cache())
    assert calibration.mechanism.release_noise == job.mechanism.release_noise
    rows, roots = rows_of(job)
    std = cell.pagerank.clip * job.mechanism.release_noise
    assert rows.shape[0] == len(roots)
    assert rows.nnz == 20 * 32
    assert rows.data.std() == pytest.approx(std, rel=0.1)
