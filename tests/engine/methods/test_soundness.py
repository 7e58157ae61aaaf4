"""An epsilon is written only for what was accounted for: unknown methods, planted differences, edited files, noise."""

import json
import sys
from dataclasses import replace
from functools import cache
from types import NoneType
from typing import get_args

import numpy as np
import pytest
import torch
from pydantic_core import PydanticUndefined

import dpgraph.families
from dpgraph.config.cell import Cell
from dpgraph.config.sources import job_digest
from dpgraph.config.streams import PAIRED, stream
from dpgraph.core.errors import UserError
from dpgraph.core.loading import load
from dpgraph.data.store import save_graph
from dpgraph.engine.methods.base import Outcome
from dpgraph.engine.preparation.base import PreparedStep
from dpgraph.engine.sampling.batches import Draws, PoissonSampler
from dpgraph.families import registry
from dpgraph.families.jobs import make_jobs
from dpgraph.families.trees.prepared import PreparedTrees
from dpgraph.pipeline.stages import calibrate_cell, train_cell
from dpgraph.planning.resolve import calibrate, mechanism_for, resolve
from dpgraph.privacy.cache import default_cache
from dpgraph.privacy.mechanisms.base import NoisySteps
from dpgraph.privacy.procedure import NotAsAccounted
from tests.contract.cells import CELLS, PRIVATE
from tests.contract.conftest import toy_graph

CPU = torch.device("cpu")
GRAPH = toy_graph()


def cell_of(method="dp-gnn", learning_rate=0.05, steps=6, optimizer="sgd", **privacy) -> Cell:
    hops = 0 if method == "dp-mlp" else 1
    return resolve(
        {
            "task": {"dataset": "toy"},
            "method": method,
            "model": {"architecture": "gcn" if hops else "mlp", "hops": hops, "width": 8},
            "training": {
                "learning_rate": learning_rate, "sampling_rate": 0.3, "steps": steps, "optimizer": optimizer,
            },
            "privacy": {"noise_multiplier": 5.0, "max_degree": 3, "delta": 1e-3, **privacy},
            "seeds": [0],
        },
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    save_graph(GRAPH, tmp_path / "graph")
    return tmp_path / "graph"


def nothing(step, logits):
    return {"step": step}


# 1. accounting fails closed


class Copies:
    """Copies training labels into its predictions."""

    def run(self, job, observe):
        logits = np.eye(job.graph.num_classes, dtype=np.float32)[np.maximum(job.graph.labels, 0)]
        return Outcome(logits, [observe(6, logits)], 0.0, 0.0, 0)


FAMILY = """
from dataclasses import replace

from dpgraph.families.trees.spec import SPECS as KNOWN
from dpgraph.families.registry import MethodSpec

(dp_gnn,) = (one for one in KNOWN if one.name == "dp-gnn")
SPECS = (replace(dp_gnn, name="dp-copy", train="tests.engine.methods.test_soundness:Copies"{change}),)
"""


@pytest.fixture
def with_copies(tmp_path, monkeypatch):
    """A family of methods next to the others, with a change of its specification."""

    def add(change=""):
        family = tmp_path / "more/copies"
        family.mkdir(parents=True)
        (family / "__init__.py").write_text("")
        (family / "spec.py").write_text(FAMILY.format(change=change))
        monkeypatch.setattr(dpgraph.families, "__path__", [*dpgraph.families.__path__, str(tmp_path / "more")])
        # what is not in the package has no fingerprint, see below
        monkeypatch.setattr("dpgraph.pipeline.stages.training_digest", lambda cell: "copies")
        registry._specs.cache_clear()

    yield add
    monkeypatch.undo()
    registry._specs.cache_clear()
    for name in [name for name in sys.modules if name.startswith("dpgraph.families.copies")]:
        del sys.modules[name]


def test_a_private_method_without_a_mechanism_is_refused_before_anything(with_copies, folder, tmp_path):
    """It named no mechanism, fell through to PoissonTrees, and got status ok and a proved epsilon of 8."""
    copies = {**cell_of().model_dump(), "method": "dp-copy"}
    with pytest.raises(UserError, match=r"method=dp-copy'?: expected one of .*dp-gnn"):
        resolve(copies)
    with_copies(", variants={}")
    with pytest.raises(
        UserError, match=r"^method=dp-copy: expected dp-... for a method with a mechanism for each variant"
    ):
        resolve(copies)


def test_a_variant_without_a_mechanism_is_refused(with_copies):
    with_copies(", variants={'published': dp_gnn.variants['published']}")
    copies = resolve({**cell_of().model_dump(), "method": "dp-copy"})
    with pytest.raises(UserError, match=r"^variant=rigorous: expected published for dp-copy$"):
        calibrate(copies, 40)


def test_a_method_that_does_not_run_its_prepared_step_gets_no_epsilon(with_copies, folder, tmp_path, monkeypatch):
    """It names a mechanism, still sees no label, and what it did not run is not accounted for."""
    seen = []
    run = Copies.run
    monkeypatch.setattr(
        Copies, "run", lambda self, job, observe: seen.append(job.graph.labels) or run(self, job, observe)
    )
    with_copies()
    load.cache_clear()
    copies = resolve({**cell_of().model_dump(), "method": "dp-copy"})
    with pytest.raises(NotAsAccounted, match="noise_draws: ran 0, accounted 6"):
        train_cell(copies, tmp_path / "out", folder, device="cpu")
    assert (seen[0] == -1).all()
    record = json.loads((tmp_path / "out/result.json").read_text())
    assert record["status"] == "failed"
    assert record["statement"] is None
    assert not record["seeds"]


def test_a_method_runs_the_mechanisms_that_it_names_only():
    mechanism = calibrate(cell_of(), 40).mechanism
    registry.spec("dp-gnn").check_runs(mechanism)
    with pytest.raises(
        UserError, match=r"^mechanism=poisson-trees: expected residual-trees for the method dp-residual$"
    ):
        registry.spec("dp-residual").check_runs(mechanism)
    with pytest.raises(UserError, match=r"^mechanism=poisson-trees: expected non-private for the method gnn$"):
        registry.spec("gnn").check_runs(mechanism)


def test_a_variant_builds_the_mechanism_that_it_names(monkeypatch):
    known = registry.spec("dp-gnn")
    wrong = {"rigorous": replace(known.variants["rigorous"], mechanism=known.variants["published"].mechanism)}
    monkeypatch.setattr("dpgraph.planning.resolve.spec", lambda name: replace(known, variants=wrong))
    with pytest.raises(TypeError, match="dp-gnn, rigorous: built PoissonTrees: expected FixedBatchTrees"):
        calibrate(cell_of(), 40)


@pytest.mark.parametrize("name", PRIVATE)
def test_a_variant_gets_its_own_mechanism(name):
    cell = CELLS[name]
    variants = registry.spec(cell.method).variants
    assert type(mechanism_for(cell, 40)) is variants[cell.privacy.variant].mechanism


def every_kind(kind=NoisySteps):
    for one in kind.__subclasses__():
        yield from every_kind(one)
        own = "kind" in vars(one).get("__annotations__", {})  # what several kinds share has no name of its own
        if own and one.model_fields["kind"].default is not PydanticUndefined:
            yield one


def test_every_mechanism_is_prepared_and_named():
    private = [one for one in registry.specs().values() if one.private]
    named = {variant.mechanism for one in private for variant in one.variants.values()}
    assert named == {kind for kind in every_kind() if kind.__module__.startswith("dpgraph.")}
    assert all(issubclass(load(kind.prepared), PreparedStep) for kind in named)


@pytest.mark.parametrize("name", registry.specs())
def test_a_specification_is_whole(name):
    """The variants that a cell may request are those with a mechanism; what it runs is there; it has cells to test."""
    one = registry.spec(name)
    field = one.cell.model_fields["privacy"].annotation
    asked = get_args(field.model_fields["variant"].annotation) if field is not NoneType else ()
    assert set(asked) == set(one.variants)
    assert hasattr(registry.method(name), "run")
    assert one.contract
    assert {cell.privacy.variant for cell in CELLS.values() if cell.method == name and cell.privacy} == set(asked)
    assert one.summary.endswith(".")


def test_code_outside_of_the_package_has_no_fingerprint():
    """A result that does not depend on the code that made it would never be made again."""
    with pytest.raises(ImportError, match=r"^dpgraph\.families\.elsewhere: no such module in the package"):
        job_digest(("families.elsewhere",))


# 2. what ran is compared with what was accounted for

NUMBERS = {
    "noise std / 1.3": (lambda p: setattr(p.noise, "std", p.noise.std / 1.3), r"noise_std\[0\]: ran .*, accounted "),
    "rate 2q": (
        lambda p: setattr(p.terms[0].draws, "sampler", PoissonSampler(40, 0.6)),
        r"terms\[0\]\.rate: ran 0\.6, accounted 0\.3",
    ),
    "clip at 2C": (
        lambda p: p.terms.__setitem__(0, replace(p.terms[0], clip_norm=2 * p.terms[0].clip_norm)),
        r"terms\[0\]\.clip_norms\[0\]: ran 2, accounted 1",
    ),
    "divisor of the batch": (lambda p: setattr(p, "divisor", 11.0), r"divisor: ran 11, accounted 12"),
    "fewer roots": (
        lambda p: setattr(p.terms[0].draws, "sampler", PoissonSampler(39, 0.3)),
        r"terms\[0\]\.num_roots: ran 39, accounted 40",
    ),
}


@pytest.mark.parametrize("planted", NUMBERS)
@pytest.mark.parametrize("method", ["dp-gnn", "dp-mlp", "dp-residual"])
def test_a_planted_difference_is_an_error(planted, method, folder, tmp_path, monkeypatch):
    change, text = NUMBERS[planted]
    original = PreparedTrees.__init__

    def changed(self, order):
        original(self, order)
        change(self)

    monkeypatch.setattr(PreparedTrees, "__init__", changed)
    with pytest.raises(NotAsAccounted, match=text):
        train_cell(cell_of(method), tmp_path / "out", folder, device="cpu")
    assert json.loads((tmp_path / "out/result.json").read_text())["statement"] is None


def test_a_replayed_batch_is_noticed():
    """The residual's second term reads the batch of the first."""
    cell = cell_of("dp-residual")
    (job,) = make_jobs(GRAPH, cell, [0], calibrate(cell, 40, default_cache()), CPU)
    first, second = job.prepared.terms
    job.prepared.terms[1] = replace(second, draws=first.draws)
    registry.method("dp-residual").run(job, nothing)
    with pytest.raises(NotAsAccounted, match=r"terms\[0\]\.draws: ran 12, accounted 6; terms\[1\]\.draws: ran 12"):
        job.prepared.check()


def test_one_step_more_is_noticed(monkeypatch):
    from dpgraph.engine.methods import assembly

    original = assembly.train
    monkeypatch.setattr(assembly, "train", lambda *a, **k: original(*a[:4], a[4] + 1, *a[5:], **k))
    cell = cell_of()
    (job,) = make_jobs(GRAPH, cell, [0], calibrate(cell, 40, default_cache()), CPU)
    registry.method("dp-gnn").run(job, nothing)
    with pytest.raises(NotAsAccounted, match="steps: ran 7, accounted 6"):
        job.prepared.check()


def test_the_record_says_what_ran_and_what_published_presumes(folder, tmp_path):
    record = train_cell(cell_of(), tmp_path / "out", folder, device="cpu")
    ran = record.statement["procedure"]
    assert ran == record.seeds[0].procedure
    assert ran["terms"][0]["rate"] == 0.3
    assert ran["terms"][0]["lists"] == "stable"
    assert ran["noise_std"] == [5.0]
    assert ran["divisor"] == 12.0
    assert record.statement["published"]["unmet"] == [
        "lists: ran stable, presumed algorithm-1",
        "batches: ran poisson, presumed fixed-size without replacement",
        "clipped: ran each root's gradient, presumed each root's gradient, group by group",
    ]
    assert record.statement["rigorous"]["relation"] == "node-null"
    assert record.statement["rigorous"]["scope"] == "parameters"


# 7. runs of two cells do not share their noise


def released(cell, steps=1) -> np.ndarray:
    """Parameters after the run, minus the initial ones."""
    (job,) = make_jobs(GRAPH, cell, [0], calibrate(cell, 40, default_cache()), CPU)
    bench = __import__("dpgraph.engine.methods.assembly", fromlist=["set_up"]).set_up(job)
    before = torch.cat([p.detach().flatten() for p in bench.network.parameters()])
    step = job.prepared.step(bench.network, bench.optimizer)
    for _ in range(steps):
        step()
    after = torch.cat([p.detach().flatten() for p in bench.network.parameters()])
    return (after - before).double().numpy() / -cell.training.learning_rate


@pytest.mark.parametrize("other", [{"learning_rate": 0.1}, {"noise_multiplier": 10.0}])
def test_the_private_gradient_cannot_be_solved_from_two_cells(other):
    """With shared noise z: g + a z and g + b z give g; they differ by noise of their own, so nothing cancels."""
    one, two = cell_of(steps=1), cell_of(steps=1, **other)
    first, second = released(one), released(two)
    a, b = one.privacy.noise_multiplier / 12, two.privacy.noise_multiplier / 12
    solved = first - second if a == b else (b * first - a * second) / (b - a)
    clean = np.linalg.norm(solved)  # the sum of clipped gradients is at most 40 / 12 long; noise is far longer
    assert clean > 0.5 * a * np.sqrt(len(first))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.3


def test_what_is_private_belongs_to_one_cell_and_the_rest_is_paired():
    one, two = cell_of(), cell_of(learning_rate=0.1)
    for role in ("noise", "batches", "lots", "release", "choice of the reader", "anything new"):
        assert stream(one, role, 0) != stream(two, role, 0)
    for role in PAIRED:
        assert stream(one, role, 0) == stream(two, role, 0)
    (first,), (second,) = (
        make_jobs(GRAPH, cell, [0], calibrate(cell, 40, default_cache()), CPU) for cell in (one, two)
    )
    assert np.array_equal(first.prepared.terms[0].trees.lists.idx, second.prepared.terms[0].trees.lists.idx)
    drawn = [job.prepared.terms[0].draws.next().tolist() for job in (first, second)]
    assert drawn[0] != drawn[1]


def test_runs_of_one_initialisation_have_noise_and_batches_of_their_own():
    """Of a crossed design: on two splits, seeds 0 and 2 share initial parameters and nothing private."""
    plain = cell_of()
    task = plain.task.model_copy(update={"split": "random-60-20-20"})
    cell = plain.model_copy(update={"task": task, "seeds_per_split": 2})
    for role in ("noise", "batches", "lots", "release", "choice of the reader", "anything new"):
        assert len({stream(cell, role, seed) for seed in range(4)}) == 4
    for role in PAIRED:
        assert stream(cell, role, 0) == stream(cell, role, 2) != stream(cell, role, 1)


# 7. a calibration file is only believed if it states what solving it again gives


@cache
def solved_text() -> str:
    return calibrate(asked(), 40, num_protected=60).model_dump_json()


def asked() -> Cell:
    return resolve(
        {**CELLS["dp-gnn-1-rigorous"].model_dump(), "seeds": (0,)},
        "cell",
    )


EDITS = {
    "noise": (lambda v: v["mechanism"].update(noise_multiplier=1.0), "noise_multiplier=1.0: the cell requests"),
    "more noise": (lambda v: v["mechanism"].update(noise_multiplier=900.0), "noise_multiplier=900.0"),
    "epsilon": (lambda v: v["statement"]["rigorous"].update(epsilon=0.1), "proved epsilon=0.1: the cell requests"),
    "published": (lambda v: v["statement"]["published"].update(epsilon=0.1), "claimed epsilon=0.1"),
    "target": (lambda v: v.update(target_epsilon=60.0), "target_epsilon=60.0: the cell requests 6.0"),
    "mode": (lambda v: v.update(mode="published"), "mode=published: the cell requests rigorous"),
    "relation": (lambda v: v["statement"]["rigorous"].update(relation="graph"), "its statement is not that of its"),
    "protected": (lambda v: v["mechanism"].update(num_protected=41), "num_protected=41: the cell requests 60"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_calibration_is_refused(edit, folder, tmp_path):
    change, text = EDITS[edit]
    value = json.loads(solved_text())
    change(value)
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(value))
    with pytest.raises(UserError, match=text):
        train_cell(asked(), tmp_path / "out", folder, path, device="cpu")
    assert not (tmp_path / "out/result.json").exists()


def test_a_calibration_of_another_target_is_refused(folder, tmp_path):
    other = asked().model_copy(update={"privacy": asked().privacy.model_copy(update={"epsilon": 60.0})})
    calibrate_cell(other, folder, tmp_path / "calibration.json")
    with pytest.raises(UserError, match=r"target_epsilon=60\.0: the cell requests 6\.0; calibrate it again"):
        train_cell(asked(), tmp_path / "out", folder, tmp_path / "calibration.json", device="cpu")
    calibrate_cell(asked(), folder, tmp_path / "calibration.json")
    assert train_cell(asked(), tmp_path / "out", folder, tmp_path / "calibration.json", device="cpu").status == "ok"


# 7. delta


@pytest.mark.parametrize(
    "name", [name for name, cell in CELLS.items() if cell.privacy is not None and "pure-noise" not in name]
)
def test_a_delta_of_one_in_everybody_gives_no_epsilon(name):
    """N counts everybody in the graph: delta = .5 gave a proved epsilon of 0 for some mechanisms."""
    cell = CELLS[name]
    mild = cell.model_copy(update={"privacy": cell.privacy.model_copy(update={"delta": 1 / 60})})
    if registry.spec(cell.method).variant(cell).mechanism.refuses_delta:
        with pytest.raises(UserError, match=r"^delta=0\.0166.*: expected a number < 1 / num_protected = 0\.0167$"):
            calibrate(mild, 40, num_protected=60)
        return
    # no noise reaches a rigorous target that nothing can state; of relations the search takes seconds
    if cell.method == "dp-units" or cell.method.startswith("dp-relation-"):
        fixed = mild.privacy.model_copy(update={"epsilon": None, "noise_multiplier": 5.0})
        mild = mild.model_copy(update={"privacy": fixed})
    rigorous = calibrate(mild, 40, num_protected=60).statement.rigorous
    assert rigorous.epsilon is None
    assert rigorous.relation == "none"


def test_the_default_delta_means_something_for_everybody():
    statement = calibrate(CELLS["dp-mlp-0-rigorous"], 40, num_protected=60).statement
    assert statement.rigorous.delta == 1 / 400
    few = calibrate(CELLS["dp-mlp-0-rigorous"], 40, num_protected=5000).statement
    assert few.rigorous.delta == 1 / 50_000


def test_draws_count():
    draws = Draws(PoissonSampler(5, 0.5), np.random.default_rng(0))
    assert draws.count == 0
    draws.next()
    assert draws.count == 1
