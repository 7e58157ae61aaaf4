"""Training on tuples: learns where there is something to learn, and resumes bit by bit."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dpgraph.families.jobs import make_jobs
from dpgraph.families.registry import method, specs
from dpgraph.families.tuples.steps import PlainRelationStep, RelationStep
from dpgraph.planning.resolve import calibrate, resolve
from dpgraph.privacy.cache import default_cache
from dpgraph.privacy.relation import PredictionInput
from dpgraph.problems.registry import problem_of
from dpgraph.problems.relations.evaluate import full_ranks
from dpgraph.problems.relations.value import Relations
from tests.contract.values import prepared
from tests.engine.models.tiny_texts import install

CPU = torch.device("cpu")
TASK = {"dataset": "demo-relations", "split": "random-60-15-25"}


def with_texts(value):
    """Each entity says in words where the features around it are largest."""
    around = np.array(value.features, dtype=np.float64)
    for one, other in (value.tuples.T, value.tuples.T[::-1]):
        np.add.at(around, one, np.asarray(value.features)[other])
    texts = [" ".join(f"w{place}" for place in np.argsort(-row)[:3]).encode() for row in around]
    ends = np.cumsum([len(text) for text in texts])
    return replace(value, letters=np.frombuffer(b"".join(texts), dtype=np.uint8), text_ends=ends)


def job_of(name, model, steps, checkpoint=None, **others):
    training = {
        "learning_rate": 0.01,
        "steps": steps,
        "sampling_rate": 0.02,
        "negatives": 4,
        **others.pop("training", {}),
    }
    training = {key: setting for key, setting in training.items() if setting is not None}
    privacy = {"privacy": others["privacy"]} if others.get("privacy") else {}
    cell = resolve({"task": TASK, "method": name, "model": model, "training": training, "seeds": [0], **privacy})
    value, working = prepared(cell.task), problem_of(cell.task).working()
    value = with_texts(value) if others.get("texts") else value
    counts = working.counts(value)
    calibration = calibrate(cell, counts.num_train, default_cache(), num_protected=counts.num_protected)
    (job,) = make_jobs(value, cell, [0], calibration, CPU, checkpoint)
    return job, value, working


def run(job):
    return method(job.cell.method).run(job, lambda step, states: {"step": step})


def mrr(job, value, working):
    metrics = working.evaluate(value, run(job).logits, 1, final=True)
    return {one.metric: one.value for one in metrics}["mrr/test"]


def test_training_beats_what_it_starts_from():
    """Without privacy, and at an epsilon at which noise is small."""
    start = mrr(*job_of("relation-head", {"head": "symmetric"}, 1))
    head = mrr(*job_of("relation-head", {"head": "symmetric"}, 150))
    tower = mrr(*job_of("relation-encoder", {"encoder": "mlp", "width": 16}, 150))
    assert head > start + 0.01
    assert tower > start + 0.01


def test_fine_tuning_on_texts_beats_what_it_starts_from(monkeypatch, tmp_path):
    """Texts to tokens to clipped steps, without the optional packages; at an epsilon at which noise is small."""
    monkeypatch.chdir(tmp_path)
    Path("checkpoint").mkdir()  # the name of a folder is part of the streams' names: always the same one
    model = {"encoder": str(install(monkeypatch, Path("checkpoint"))), "rank": 8, "max_tokens": 8}
    start, plain = (mrr(*job_of("relation-encoder", model, steps, texts=True)) for steps in (1, 60))
    privacy = {"noise_multiplier": 0.01, "clip_norm": 5.0}
    private = mrr(*job_of("dp-relation-encoder", model, 60, texts=True, privacy=privacy))
    assert plain > start + 0.002  # the encoder sees 32 words in 8 numbers
    assert private > start + 0.002


def test_the_base_encoder_is_where_fine_tuning_starts(monkeypatch):
    """Its states are those of the tower before a step, whatever the training settings."""
    model = {"encoder": "mlp", "width": 4}
    monkeypatch.setattr(PlainRelationStep, "__call__", lambda self: 1)
    start = run(job_of("relation-encoder", model, 1)[0]).logits
    cell = {"task": TASK, "method": "base-encoder", "model": model, "seeds": [0]}
    cell = resolve(cell | {"training": {"learning_rate": 0.5, "steps": 7, "sampling_rate": 0.3}})
    value, counts = prepared(cell.task), problem_of(cell.task).working().counts(prepared(cell.task))
    calibration = calibrate(cell, counts.num_train, default_cache(), num_protected=counts.num_protected)
    (job,) = make_jobs(value, cell, [0], calibration, CPU, None)
    assert np.array_equal(run(job).logits, start)


@pytest.mark.parametrize(("steps", "share", "rates"), [
    (8, 0.25, [0, 1 / 2, 1, 5 / 6, 4 / 6, 3 / 6, 2 / 6, 1 / 6]),
    (4, 0.0, [1, 3 / 4, 2 / 4, 1 / 4]),
    (3, 0.5, [0, 1 / 2, 1]),  # two steps of it: a part of a step counts as a whole one
])  # fmt: skip
def test_the_learning_rate_rises_and_falls_linearly(monkeypatch, steps, share, rates):
    """As transformers 4.57 computes it by get_linear_schedule_with_warmup."""
    seen, original = [], PlainRelationStep.__call__

    def noted(self):
        seen.append(self.optimizer.param_groups[0]["lr"])
        return original(self)

    monkeypatch.setattr(PlainRelationStep, "__call__", noted)
    run(job_of("relation-head", {}, steps, training={"warm_up": share})[0])
    assert seen == pytest.approx([0.01 * rate for rate in rates])


@pytest.mark.parametrize(
    ("name", "model", "kind", "privacy"),
    [
        ("dp-relation-encoder", {"encoder": "mlp", "width": 4}, RelationStep, {"noise_multiplier": 2.0}),
        ("dp-relation-head", {}, RelationStep, {"noise_multiplier": 2.0, "variant": "published"}),
        ("relation-encoder", {"encoder": "mlp", "width": 4}, PlainRelationStep, None),
        ("dp-relation-encoder", {"encoder": "texts"}, RelationStep, {"noise_multiplier": 2.0, "variant": "standard"}),
        ("relation-encoder", {"encoder": "texts"}, PlainRelationStep, None),
    ],
)
def test_a_killed_run_goes_on_bit_by_bit(tmp_path, monkeypatch, name, model, kind, privacy):
    """Same batches, negatives and noise after the checkpoint, and what ran is what was accounted for."""
    others = {"privacy": privacy, "texts": model.get("encoder") == "texts"}
    warm_up = None if kind is PlainRelationStep and not others["texts"] else 0.4  # the rate's schedule goes on, too
    others["training"] = {"warm_up": warm_up}
    if others["texts"]:
        model = {"encoder": str(install(monkeypatch, tmp_path)), "rank": 2, "max_tokens": 8}
    unbroken = run(job_of(name, model, 6, **copy.deepcopy(others))[0]).logits
    monkeypatch.setenv("DPGRAPH_CHECKPOINT_SECONDS", "0")
    original, calls = kind.__call__, []

    def killed(self):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return original(self)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "__call__", killed)
        with pytest.raises(KeyboardInterrupt):
            run(job_of(name, model, 6, tmp_path / "state", **copy.deepcopy(others))[0])
    job, _, _ = job_of(name, model, 6, tmp_path / "state", **others)
    outcome = run(job)
    assert outcome.resumed_at == 4
    assert np.array_equal(outcome.logits, unbroken)
    if job.prepared is not None:
        assert job.prepared.check(outcome.resumed_at).steps == 6


def llama_folder(folder):
    """A random Llama with two blocks and its tokenizer, which has no token for padding, as a checkpoint."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("peft")
    from tokenizers import Tokenizer, models, pre_tokenizers

    known = {f"w{number}": number for number in range(32)} | {"<unk>": 32}
    words = Tokenizer(models.WordLevel(known, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>").save_pretrained(folder)
    config = transformers.LlamaConfig(
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, intermediate_size=24,
        vocab_size=33, max_position_embeddings=16,
    )  # fmt: skip
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        transformers.LlamaModel(config).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("variant", ["rigorous", "published"])
def test_a_llama_is_fine_tuned_from_its_folder(tmp_path, variant):
    """Texts to states of the last token, with privacy, offline; what was read is in the notes."""
    model = {"encoder": str(llama_folder(tmp_path)), "pooling": "last", "rank": 2, "max_tokens": 2}
    privacy = {"noise_multiplier": 2.0, "variant": variant}
    job, value, _ = job_of("dp-relation-encoder", model, 3, texts=True, privacy=privacy)
    outcome = run(job)
    assert outcome.logits.shape == (value.num_entities, 16)
    assert np.isfinite(outcome.logits).all()
    assert outcome.notes["texts"] == outcome.notes["cut_texts"] == value.num_entities  # each has three words
    assert outcome.notes["empty_texts"] == 0
    assert job.prepared.check(0).steps == 3
    start = run(job_of("base-encoder", model, 1, texts=True, training={"negatives": None})[0]).logits
    assert not np.allclose(start, outcome.logits)


def test_capped_tuples_without_privacy_are_fewer(monkeypatch):
    seen = []
    original = PlainRelationStep.__call__
    monkeypatch.setattr(
        PlainRelationStep, "__call__", lambda self: (seen.append(len(self.batches.tuples)), original(self))[1]
    )
    for cap in (None, 2):
        run(job_of("relation-head", {}, 1, training={"max_degree": cap})[0])
    assert seen[1] < seen[0] / 2


def test_predictions_read_the_records_of_other_entities_so_that_no_epsilon_covers_them():
    """An entity in no tuple is a candidate tail of every head."""
    generator = np.random.default_rng(0)
    features, number = generator.standard_normal((40, 6)).astype(np.float32), 40
    pairs = np.array([[head, head + 1] for head in range(1, number - 1, 2)], dtype=np.int32)
    value = Relations(
        name="pairs",
        features=features,
        tuples=pairs,
        split=np.full(len(pairs), 2, np.uint8),
        domain=np.zeros(number, np.uint8),
        letters=np.zeros(0, np.uint8),
        text_ends=np.zeros(number, np.int64),
    )
    null = features.copy()
    null[0] = 0
    assert (full_ranks(value, features, "test") != full_ranks(value, null, "test")).any()
    names = {one.name for one in specs().values() if "relations" in one.problems and one.private}
    assert names == {"dp-relation-head", "dp-relation-encoder"}
    assert {specs()[name].inference(None) for name in names} == {PredictionInput.RAW_GRAPH}
