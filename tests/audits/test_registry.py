"""Every audit passes on the project's code and fails on each planted bug; so does the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import get_args

import pandas as pd
import pytest

from dpgraph.audits import exact, noise
from dpgraph.audits.cases import ALL_KINDS, KINDS
from dpgraph.audits.registry import AUDITS, names_of, run_audit
from dpgraph.audits.result import AuditResult
from dpgraph.audits.worst_case import worst_case
from dpgraph.cli import main
from dpgraph.errors import UserError
from dpgraph.methods.registry import specs
from dpgraph.privacy.mechanisms.pagerank import ReleaseKind
from dpgraph.privacy.mechanisms.trees import PoissonTrees

PLANTED = [(name, bug) for name, audit in AUDITS.items() for bug in audit.bugs]
# fewer than an audit's own, enough to catch each bug; what has to pass needs no power here
ROUGH = ("fixed parts for fresh samples", "no clipping", "sensitivity C for 2C")
FEWER = {
    ("canary", None): 20, ("canary", "noise left out"): 40, ("canary", "noise over 10"): 100,
    ("canary-residual", None): 20, ("canary-residual", "noise left out"): 60, ("canary-residual", "noise over 10"): 90,
    ("prepared", None): 1000,
    **{("subgraph-steps", bug): 1000 for bug in ROUGH},
    **{("votes", bug): 500 for bug in (None, *AUDITS["votes"].bugs)}, ("votes", "null votes"): 2000,
    ("votes-membership", None): 1000,
}  # fmt: skip


def long(name: str) -> tuple[pytest.MarkDecorator, ...]:
    """Nightly audits are of whole training runs, or compose many steps."""
    return (pytest.mark.slow,) if AUDITS[name].nightly else ()


@pytest.mark.parametrize("name", [pytest.param(name, marks=long(name)) for name in AUDITS])
def test_the_code_keeps_its_claims(name: str) -> None:
    result = run_audit(name, FEWER.get((name, None)))
    assert result.passed, result.finding
    assert result.planted is None


@pytest.mark.parametrize(("name", "bug"), [pytest.param(name, bug, marks=long(name)) for name, bug in PLANTED])
def test_a_planted_bug_is_caught(name: str, bug: str) -> None:
    result = run_audit(name, FEWER.get((name, bug)), bug)
    assert not result.passed, result.finding
    assert result.planted == bug


def test_the_promised_bugs_are_planted() -> None:
    bugs = {bug for _, bug in PLANTED}
    assert {
        "noise halved", "sqrt L forgotten", "sensitivity C for 2C", "Algorithm 1", "no-op clip",
        "masked loss, uncut edges", "one batch for both terms", "full batch for rate q", "cyclic partition",
        "adaptive clipping", "sensitivity C1 for sqrt 2 C1", "column norm capped, not its support",
        "sensitivity 1 for sqrt 2", "missing cap", "neighbour clip norm doubled", "self terms read their neighbours",
        "noise left out", "noise over 10", "cells share their noise", "whole lists", "columns not capped",
        "mechanism and step with noise over 1.3", "one affected root fewer", "dominating pair at half the rate",
        "features standardised over all nodes", "divided by the batch's own size", "features divided by degrees",
    } <= bugs  # fmt: skip


def test_all_leaves_the_nightly_ones_out() -> None:
    assert set(names_of("all", nightly=True)) == set(AUDITS)
    assert set(AUDITS) - set(names_of("all")) == {"prepared", "canary", "canary-residual", "one-run"}
    assert names_of("canary") == ["canary"]


def test_all_with_all_bugs_runs_each_audit_as_it_is_and_with_each_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command of the workflow; the audits themselves are run above."""
    asked = []

    def note(name: str, trials: int | None, bug: str | None) -> AuditResult:
        asked.append((name, trials, bug))
        shared = {
            "audit": name,
            "title": name,
            "planted": bug,
            "claim": "none",
            "trials": 4,
            "seconds": 0.0,
            "finding": "none",
        }
        return AuditResult(**shared, passed=bug is None)

    monkeypatch.setattr("dpgraph.audits.registry.run_audit", note)
    assert main(["audit", "all", "--planted", "all"]) == 0
    assert asked == [(name, None, bug) for name in names_of("all") for bug in (None, *AUDITS[name].bugs)]
    asked.clear()
    assert main(["audit", "all", "--planted", "one"]) == 0
    assert asked == [(name, None, bug) for name in names_of("all") for bug in (None, *list(AUDITS[name].bugs)[:1])]
    asked.clear()
    assert main(["audit", "all", "--nightly", "--planted", "all"]) == 0
    assert {(name, bug) for name, _, bug in asked if bug is not None} == set(PLANTED)
    assert {name for name, _, bug in asked if bug is None} == set(AUDITS)


def test_audits_of_all_methods_attack_every_private_method_and_variant() -> None:
    attacked = {(kind.method, kind.variant) for kind in ALL_KINDS.values()}
    assert attacked == {(name, variant) for name, one in specs().items() for variant in one.variants}
    assert {name for name, one in specs().items() if one.private} == {name for name, _ in attacked}
    assert {kind.release for kind in KINDS.values() if kind.method == "dp-appr"} == set(get_args(ReleaseKind))


def test_the_audits_have_power() -> None:
    """A1 measures most of the true mu = .938, A4 and A5 reach their bounds: passing is not for want of strength."""
    assert float(run_audit("update").finding.split("mu_lb ")[1].split(";")[0]) > 0.85
    assert "at most 3 of at most 3" in run_audit("lists").finding
    assert run_audit("sensitivity").finding.startswith("at most 1 ")
    assert run_audit("clipping").finding.startswith("at most 1 ")


@pytest.mark.parametrize(("degree", "cap"), [(3, 4), (1, 2), (7, 7)])
def test_the_worst_case_is_the_theorems_pair(degree: int, cap: int) -> None:
    """R affected roots with +C e each, R - 1 without the record, each -C e; R is what the mechanism states."""
    case = worst_case(degree, cap)
    mechanism = PoissonTrees(
        num_roots=1000, steps=1, delta=1e-4, noise_multiplier=1.0, sampling_rate=0.5, hops=1, max_degree=degree,
        list_cap=cap,
    )  # fmt: skip
    assert case.affected_roots == mechanism.affected_roots
    with_record, without = (case.gradients(side, 0.5) for side in (case.with_record, case.without_record))
    direction = with_record[0] / 0.5
    assert with_record @ direction == pytest.approx([0.5] * mechanism.affected_roots)
    assert without @ direction == pytest.approx([-0.5] * (mechanism.affected_roots - 1))


def test_a_step_that_is_not_clipped_sum_plus_noise_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_is_private_step", lambda *arguments: False)
    assert not run_audit("update", 100).passed
    monkeypatch.undo()
    case = worst_case()
    total = noise._full_sums(case, case.with_record, 0.5)
    assert noise._is_private_step(case, case.with_record, 0.5, 2.0, total)
    assert not noise._is_private_step(case, case.with_record, 0.5, 2.0, [part + 1e-3 for part in total])


def test_changed_roots_by_hand() -> None:
    """Lists 1 -> 0, 2 -> 1, 3 -> {}: nulling 0 reaches 0 and 1 within one hop, 2 within two."""
    graph = exact.graph_of([exact.np.array(x, dtype=int) for x in ([3], [0], [1], [])])
    before, after = (exact.full_edge_lists(one, one.train_nodes) for one in (graph, exact.without_list(graph, 0)))
    assert [exact.changed_roots(before, after, 0, hops) for hops in (1, 2)] == [2, 3]


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "audits.parquet"
    figure = ["--figure", str(tmp_path / "curves")]
    assert main(["audit", "update", "--trials", "20000", "--planted", "all", "--out", str(out), *figure, "--json"]) == 0
    assert {path.name for path in tmp_path.glob("curves.*")} == {
        f"curves.{suffix}" for suffix in ("pdf", "svg", "png", "txt")
    }
    printed = json.loads(capsys.readouterr().out)
    assert [one["planted"] for one in printed] == [None, *AUDITS["update"].bugs]
    table = pd.read_parquet(out)
    assert set(table.planted.dropna()) == set(AUDITS["update"].bugs)
    assert (table[table.planted.isna()].measured <= table[table.planted.isna()].claimed).all()
    assert main(["audit", "clipping", "--trials", "5"]) == 0
    assert "clipping: passed" in capsys.readouterr().out
    assert main(["audit", "clipping", "--trials", "5", "--planted", "no-op clip"]) == 1
    assert "clipping with no-op clip: FAILED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nothing"], "error: audit=nothing: expected one of facts, "),
        (["update", "--planted", "gremlins"], "error: planted=gremlins: expected one of noise over sqrt 2, "),
        (["update", "--trials", "3"], "error: trials=3: expected an integer >= 4"),
        (["clipping", "--figure", "x"], "error: --figure=x: expected --out, too"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *arguments]) == 2
    assert capsys.readouterr().err.startswith(line)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UserError, match=r"^audit=x"):
        run_audit("x")
