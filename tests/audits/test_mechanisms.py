"""The audits' own parts: what each attacks is what it says, and passing is not for want of power."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from dpgraph.audits import exact, one_run
from dpgraph.audits.registry import run_audit
from dpgraph.families.subgraphs import audit as subgraphs
from tests.mutants import broken


def test_adaptive_clipping_changes_by_13_5_clip_norms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Huang et al. claim C for a node with K = 5 tuples, each with 4 negatives; static clipping changes by K C."""
    assert 5 * exact._relations() == pytest.approx(5.0)
    monkeypatch.setattr(exact, "clipped_gradient_sum", broken.adaptive_clipping(exact.clipped_gradient_sum))
    assert 5 * exact._relations() == pytest.approx(13.5)


def test_a_canary_is_one_record_with_a_direction_of_its_own() -> None:
    """Where the coin says out, the record is null; the nodes that it lists are null and nobody else's."""
    graph = one_run.canary_graph(9, 3)
    assert len(graph.train_nodes) == 9
    assert np.diff(graph.out_ptr).tolist() == [3] * 9 + [0] * 27
    assert np.bincount(graph.out_idx, minlength=36).tolist() == [0] * 9 + [1] * 27
    assert not graph.features[9:].any()
    assert len({(graph.features[node].argmax(), graph.labels[node]) for node in range(9)}) == 9


@pytest.mark.parametrize("name", one_run.RUNS)
def test_canaries_show_most_of_what_is_claimed(name: str) -> None:
    """By trials of their own .7 of 1 / noise with 5,000, in one run .55; and noise over 2 refutes the claim."""
    for run in one_run.attack(name, 5000).values():
        shown = run.shown(one_run.SHOWN)
        assert 0.55 <= shown["f-DP"] < 1
        assert shown["Steinke et al."] < shown["f-DP"]
        assert 0.7 <= shown["independent trials"] < 1
        halved = replace(run, claim=lambda share, run=run: run.claim(share / 2))
        assert halved.shown(one_run.ALARM)["independent trials"] >= 1


def test_reversed_scores_of_canaries_show_as_much() -> None:
    run = one_run.attack("dp-mlp", 1000)["dp-mlp"]
    assert replace(run, scores=-run.scores).shown(one_run.SHOWN)["f-DP"] == run.shown(one_run.SHOWN)["f-DP"]


def test_canaries_without_strength_do_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    run = one_run.attack("dp-mlp", 1000)["dp-mlp"]
    lost = replace(run, scores=np.random.default_rng(0).standard_normal(1000))
    result = one_run.judged("one-run", {"lost": lost}, 1000, one_run.least_shares(1000))
    assert not result.passed
    assert result.finding.startswith("lost: f-DP shows 0.00, expected 0.4; ")


def test_a_better_direction_costs_half_of_what_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(one_run.auditing, "one_run_refutes", lambda **known: asked.append(known["confidence"]) or False)
    one_run.attack("dp-mlp", 100)["dp-mlp"].shown(0.05)
    assert set(asked) == {0.975}


def test_a_sum_that_is_no_number_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """`max` of 0 and NaN is 0, which kept every claim."""
    read = [(np.arange(16), torch.full((9,), math.nan))]
    monkeypatch.setattr(subgraphs, "_clipped_gradients", lambda *given: read)
    assert not run_audit("subgraph-locality", 4).passed
