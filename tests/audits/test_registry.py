"""Every audit passes on the project's code; bugs that each must find are in tests/mutants."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pandas as pd
import pytest

from dpgraph.audits import exact
from dpgraph.audits.cases import ALL_KINDS, KINDS
from dpgraph.audits.registry import AUDITS, names_of, run_audit
from dpgraph.audits.result import AuditResult
from dpgraph.cli import main
from dpgraph.core.errors import UserError
from dpgraph.families.pagerank.mechanism import ReleaseKind
from dpgraph.families.registry import specs

# fewer than an audit's own: what has to pass needs little power here, and tests/mutants shows what each finds
FEWER = {
    "facts": 200, "votes": 500, "votes-membership": 2400,
    "subgraph-steps": 500, "tuple-facts": 50, "one-run": 400,
    "scale": 800,
}  # fmt: skip


@pytest.mark.parametrize("name", AUDITS)
def test_the_code_keeps_its_claims(name: str) -> None:
    result = run_audit(name, FEWER.get(name))
    assert result.passed, result.finding


def test_all_names_every_audit() -> None:
    assert names_of("all") == list(AUDITS)
    assert names_of("one-run") == ["one-run"]


def test_the_command_runs_each_audit_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands of the workflow; the audits themselves are run above."""
    asked: list[tuple[str, int | None]] = []

    def note(name: str, trials: int | None) -> AuditResult:
        asked.append((name, trials))
        return AuditResult(audit=name, title=name, passed=True, claim="none", trials=4, finding="none")

    monkeypatch.setattr("dpgraph.audits.registry.run_audit", note)
    assert main(["audit", "all"]) == 0
    assert asked == [(name, None) for name in names_of("all")]
    asked.clear()
    assert main(["audit", "all", "--quick"]) == 0
    assert asked == [(name, AUDITS[name].quick) for name in names_of("all")]


def test_audits_of_all_methods_attack_every_private_method_and_variant() -> None:
    attacked = {(kind.method, kind.variant) for kind in ALL_KINDS.values()}
    assert attacked == {(name, variant) for name, one in specs().items() for variant in one.variants}
    assert {name for name, one in specs().items() if one.private} == {name for name, _ in attacked}
    assert {kind.release for kind in KINDS.values() if kind.method == "dp-appr"} == set(get_args(ReleaseKind))


def test_the_audits_have_power() -> None:
    """A4 and A5 reach their bounds: passing is not for want of strength."""
    assert "at most 3 of at most 3" in run_audit("lists").finding
    assert run_audit("sensitivity").finding.startswith("at most 1 ")


def test_changed_roots_by_hand() -> None:
    """Lists 1 -> 0, 2 -> 1, 3 -> {}: nulling 0 reaches 0 and 1 within one hop, 2 within two."""
    graph = exact.graph_of([exact.np.array(x, dtype=int) for x in ([3], [0], [1], [])])
    before, after = (exact.full_edge_lists(one, one.train_nodes) for one in (graph, exact.without_list(graph, 0)))
    assert [exact.changed_roots(before, after, 0, hops) for hops in (1, 2)] == [2, 3]


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "audits.parquet"
    assert main(["audit", "votes", "--trials", "500", "--out", str(out)]) == 0
    assert "votes: passed" in capsys.readouterr().out
    table = pd.read_parquet(out)
    assert (table.measured <= table.claimed).all()
    assert main(["audit", "lists", "--trials", "4"]) == 0
    assert "lists: passed" in capsys.readouterr().out
    monkeypatch.setattr("dpgraph.audits.exact.changed_roots", lambda *given: 99)
    assert main(["audit", "lists", "--trials", "4"]) == 1
    assert "lists: FAILED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nothing"], "error: audit=nothing: expected one of accounted, "),
        (["votes", "--trials", "3"], "error: --trials=3: expected an integer >= 4"),
        (["votes", "--trials", "0", "--quick"], "error: --trials=0: expected an integer >= 4"),
    ],
)
def test_mistakes_are_one_line(arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", *arguments]) == 2
    assert capsys.readouterr().err.startswith(line)


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UserError, match=r"^audit=x"):
        run_audit("x")
