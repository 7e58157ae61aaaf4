"""A suite's pages list the claims that it has artefacts of; the others are in one sentence."""

from __future__ import annotations

import pytest

from dpgraph.planning.plan import Plan
from dpgraph.reporting.claims.page import claims_page, elsewhere, held
from dpgraph.reporting.claims.table import claims_table
from dpgraph.reporting.leaderboard.page import Links, page
from dpgraph.reporting.leaderboard.standings import standings
from tests.plans import plan_of


@pytest.fixture(scope="module")
def baselines() -> Plan:
    return plan_of("baselines")


def test_the_page_of_baselines_lists_no_claim_that_it_has_nothing_of(baselines):
    table = claims_table(baselines, None)
    kept = held(baselines, table)
    assert list(kept["claim"]) == ["D11", "D12"]  # computed
    sentence = elsewhere(baselines, table)
    assert sentence.startswith(f"{len(table) - 2} more claims are not tested here, other suites have their tables")
    assert ": D1, D2, " in sentence
    text = claims_page(baselines, table)
    assert "2 claims on suite baselines" in text
    assert "<td>D1</td>" not in text
    assert sentence.removesuffix(".") in text


def test_a_claim_whose_data_are_missing_or_that_was_decided_stays(paper_plan):
    table = claims_table(paper_plan, None)
    names = set(held(paper_plan, table)["claim"])
    assert "D1" in names  # table 1 is in the suite, without results
    assert names < set(table["claim"])
    left = next(name for name in table["claim"] if name not in names)
    table.loc[table["claim"] == left, "verdict"] = "contradicted"
    assert left in set(held(paper_plan, table)["claim"])


def test_nothing_is_said_where_all_are_held(plan, claims, results):
    table = claims[claims["claim"].isin(held(plan, claims)["claim"])]
    assert elsewhere(plan, table) == ""
    assert "more claims are" not in page(plan, standings(plan, results), table, Links())
