"""Readings of the papers in workflow/: where one of them is shown, so are the others; `about` names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpgraph.config.claim_tests import uses
from dpgraph.config.experiment import Experiment
from dpgraph.config.published import hyperparameters
from dpgraph.planning.plan import Plan
from dpgraph.reporting.paper_values import paper_datasets
from tests.plans import plan_of

WORKFLOW = Path(__file__).parents[2] / "workflow"
ONE_READING = {"igamberdiev/search"}  # of the released code's rate


@pytest.fixture(scope="module")
def paper() -> Plan:
    return plan_of("paper")


@pytest.mark.parametrize("name", ["igamberdiev", "igamberdiev-v1"])
def test_the_clipped_readings_stand_beside_the_released_code(paper: Plan, name: str) -> None:
    """What the released code shows, which clips nothing, decides nothing of Eq. 5 by itself."""
    experiment: Experiment = paper.experiments[name]
    for artefact_id, artefact in experiment.artefacts.items():
        released = [one for one in artefact.methods if one.startswith(("dp-gcn-", "dp-split-")) and "-released" in one]
        if f"{name}/{artefact_id}" not in ONE_READING:
            wanted = {one.replace("released", other) for one in released for other in ("published", "per-node")}
            noise = {f"{one}-per-node" for one in artefact.methods if one in ("pure-noise-sgd", "pure-noise-adam")}
            wanted |= noise if released and "confusion" not in artefact_id and artefact_id != "table4" else set()
            assert wanted <= set(artefact.methods), artefact_id
    said = {
        "released": "clips nothing",
        "published": "One clipped gradient",
        "per-node": "Each node's gradient is clipped",
    }
    for method, row in experiment.methods.items():
        for reading, words in said.items():
            if method.startswith(("dp-gcn-sgd", "dp-gcn-adam", "dp-split-")) and reading in method:
                assert words in str(row.about), method


def test_dp_mlp_has_both_readings_of_its_noise(paper: Plan) -> None:
    experiment = paper.experiments["daigavane"]
    shown = ["table1", "table2", "table3", "table4", "fig2", "table9", "table10", "table11", "table12"]
    for artefact in shown:
        assert {"dp-mlp-published", "dp-mlp-published-text"} <= set(experiment.artefacts[artefact].methods), artefact
    abouts = [experiment.methods[one].about for one in ("dp-mlp-published", "dp-mlp-published-text")]
    assert "std λC" in abouts[0]
    assert "std 2λC" in abouts[1]
    both = [
        {entry.task_id: entry.cell for entry in paper.entries_of("daigavane/table1") if entry.method_id == method}
        for method in ("dp-mlp-published", "dp-mlp-published-text")
    ]
    assert both[0].keys() == both[1].keys() != set()
    for task, code in both[0].items():  # they differ in nothing else
        text = both[1][task].model_dump()
        assert text["privacy"].pop("variant") == "published-text"
        stated = code.model_dump()
        assert stated["privacy"].pop("variant") == "published"
        assert text == stated


@pytest.mark.parametrize("name", ["igamberdiev", "igamberdiev-v1"])
def test_claims_on_eq_5_have_a_verdict_for_all_its_readings(paper: Plan, name: str) -> None:
    """The released code, one clipped gradient, and each node's gradient clipped, as Eq. 5 is written."""
    claims = {one: claim for one, claim in paper.experiments[name].claims.items() if claim.readings}
    # of images, each record
    claims = {one: claim for one, claim in claims.items() if one not in ("I18", "V8")}
    assert len(claims) >= 6
    for claim in claims.values():
        ends = {end for changes in claim.readings.values() for end in changes.values()}
        assert len(claim.readings) == 3
        assert {"-published", "-per-node"} <= ends


@pytest.mark.parametrize("name", ["igamberdiev", "igamberdiev-v1"])
def test_claims_know_the_data_sets_that_their_sentence_covers(paper: Plan, name: str) -> None:
    """Else a claim about five data sets would be decided by those that were run."""
    experiment = paper.experiments[name]
    for claim_id, claim in experiment.claims.items():
        for part in (*claim.premises, *claim.parts) if claim.sentence is not None and claim_id != "I20" else ():
            named = part.tasks or any(term.task for term in getattr(part, "terms", ()))
            tables = experiment.artefacts[part.artefact].tables(part.artefact)
            assert named or paper_datasets(experiment, tables), (claim_id, part.part)
    mechanisms = [set(paper.experiments[one].own.mechanisms) for one in ("igamberdiev", "igamberdiev-v1")]
    assert mechanisms[0] == mechanisms[1]


def test_claims_on_dp_mlp_have_both_readings_of_its_noise(paper: Plan) -> None:
    """Each reading has cells in the suite of the paper's own grid."""
    experiment, text, compared = paper.experiments["daigavane"], "dp-mlp-published-text", 0
    for name, claim in experiment.claims.items():
        methods = {method for part in claim.parts for _, ids in uses(part) for method in ids}
        if claim.sentence is None or "dp-mlp-published" not in methods:
            continue
        assert list(claim.readings.values()) == [{}, {"dp-mlp-published": text}], name
        assert not [part for part in claim.by_part if "dp-mlp-published" in part], name
        for part in list(claim.read.values())[1].parts:
            for artefact, ids in uses(part):
                assert "dp-mlp-published" not in ids, name
                known = {entry.method_id for entry in paper.entries_of(f"daigavane/{artefact}")}
                compared += text in ids
                assert text not in ids or text in known, name
    assert compared >= 6


def test_the_printed_noise_is_judged_by_its_cells() -> None:
    """Where no suite at hand trains them, the parts say so by themselves."""
    for suite in ("images-cpu", "paper"):
        plan = plan_of(suite)
        _, claim = plan.claims()["Z12"]
        assert not [part for part in claim.tests if part.kind == "not-run"]
        for part in claim.parts:
            ((artefact, methods),) = uses(part)
            entries = plan.entries_of(f"zhang-ch4/{artefact}")
            known = {(entry.method_id, entry.value) for entry in entries}
            wanted = {(method, value) for method in methods for value in part.values or ()}
            assert wanted <= known, (suite, wanted - known)


@pytest.mark.parametrize("suite", ["paper", "ablations"])
def test_figure_3a_has_the_papers_own_mechanism(suite: str) -> None:
    entries = [one for one in plan_of(suite).entries_of("daigavane/fig3a") if one.method_id == "dp-gcn-1-published"]
    noises = {entry.cell.privacy.noise_multiplier for entry in entries if entry.cell.privacy is not None}
    assert len(entries) >= 2
    assert noises == {2.0}  # equal noise per step, as many steps as epsilon allows
    assert {entry.cell.training.steps for entry in entries} == {"max"}


def test_rows_as_printed_have_what_the_paper_prints() -> None:
    """Of ogbn-arxiv, for which the data set stands in."""
    plan = plan_of("arxiv-text")
    entries = plan.entries_of("daigavane/as-printed")
    assert len(entries) == 10
    for entry in entries:
        row = plan.experiments["daigavane"].methods[entry.method_id]
        table = "table11" if "gin" in entry.method_id or "gat" in entry.method_id else "table9"
        printed = hyperparameters("daigavane2022-node-level-dp-gnn", table, row.published[table]["model"], "ogbn-arxiv")
        cell = entry.cell.model_dump()
        for part, values in printed.items():
            assert {name: (cell[part] or {}).get(name) for name in values} == values, entry.method_id
        assert cell["model"]["width"] == 256
        assert cell["model"]["dropout"] == 0
        assert cell["training"]["steps"] == ("max" if entry.cell.privacy else 3000)


def test_inductive_rows_as_printed_have_what_the_paper_prints() -> None:
    """Of ogbn-arxiv-disjoint and -clustered, in Tables 10 and 12."""
    plan = plan_of("arxiv-text")
    entries = plan.entries_of("daigavane/as-printed-inductive")
    assert len(entries) == 22
    for entry in entries:
        row = plan.experiments["daigavane"].methods[entry.method_id]
        table = "table12" if "gin" in entry.method_id else "table10"
        data = f"ogbn-arxiv-{plan.task(entry.task_id).setting}"
        printed = hyperparameters("daigavane2022-node-level-dp-gnn", table, row.published[table]["model"], data)
        cell = entry.cell.model_dump()
        for part, values in printed.items():
            assert {name: (cell[part] or {}).get(name) for name in values} == values, (entry.method_id, data)
        assert cell["model"]["width"] == 256
        assert cell["model"]["hops"] == (0 if "mlp" in entry.method_id else int("2-" in entry.method_id) + 1)


def test_private_rows_of_early_stopping_differ_in_patience_alone() -> None:
    for suite in ("cpu", "paper"):
        entries = plan_of(suite).entries_of("igamberdiev/early-stopping")
        cells = {(entry.method_id, entry.task_id): entry.cell.model_dump() for entry in entries}
        stopped = {key: cell for key, cell in cells.items() if key[0].endswith("-stopped")}
        assert len(stopped) == 6 * len({key[1] for key in cells})
        for (method, task), cell in stopped.items():
            other = cells[method.removesuffix("-stopped"), task]
            assert (cell["training"].pop("patience"), other["training"].pop("patience")) == (20, None)
            assert cell == other, method


def test_the_long_suite_has_the_cells_that_the_short_one_leaves_out() -> None:
    """What tables of suite cpu say of its places that are not run: another suite has them."""
    left_out, long = plan_of("cpu").left_out, plan_of("igamberdiev-full").cells
    named = {name for name, entry in left_out.items() if "igamberdiev-full" in str(entry.not_run)}
    assert named
    assert named <= set(long)
