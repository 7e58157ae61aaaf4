"""Claims of a suite that shows places which it does not run: for want of compute, or because nothing can run them."""

from __future__ import annotations

import pytest

from dpgraph.reporting.claims.registry import COMPUTED
from dpgraph.reporting.claims.table import NOT_OWN, claims_table
from dpgraph.reporting.claims.verdicts import computed as verdict_of
from tests.plans import plan_of
from tests.reporting.conftest import first_entries, missing_row
from tests.reporting.verdicts import assert_not_run

MEANS = {"cosine": 0.40, "relation-head": 0.46, "dp-relation-head": 0.44, "relation-encoder": 0.50}
GRAPHS = "the graphs of the paper are not published"


@pytest.fixture(scope="module")
def verdicts(rows_of, as_frame):
    """Suite text-cpu with results of whatever it runs."""
    plan = plan_of("text-cpu", seeds=5)
    rows = []
    for entry in first_entries(plan):
        if entry.not_run is None:
            given = rows_of(entry, mean=MEANS.get(entry.cell.method, 0.47), std=0.001)
            final = [row for row in given if row["final"] and row["metric"] == "accuracy/test"]
            rows += [row | {"metric": metric} for row in final for metric in ("mrr/test", "prec_at_1/test")]
        else:
            why = "compute: 2 hours" if entry.not_run == "compute" else entry.not_run
            rows.append(missing_row(entry, "not run", why))
    with pytest.MonkeyPatch.context() as patch:  # bounds take half a minute and read no result
        for name in ("bound-of-theorem-3", "bounds-elsewhere"):
            patch.setitem(COMPUTED, name, lambda: verdict_of(True, "", 1))
        return claims_table(plan, as_frame(rows)).set_index("claim")


def test_what_nothing_can_run_here_decides_no_claim(verdicts):
    """Table 1 shows the paper's own graphs, which are not published: a claim is about those that there are."""
    row = verdicts.loc["HO2"]
    assert row["verdict"] == "reproduced"
    assert row["scope"].count("Cora to HepTh") == 1
    assert "not tested on mag:CHN->USA" in row["scope"] or "not tested on MAG CHN to USA" in row["scope"]
    assert verdicts.loc["HO1"]["verdict"] != "not run"


def test_the_papers_claims_are_not_decided_on_other_graphs(verdicts):
    for claim in ("H1", "H2", "H5"):
        row = verdicts.loc[claim]
        assert_not_run(row, "")
        assert row["data"] == "missing in part"
        assert "not run: compute: 2 hours" in row["reason"] or row["reason"] == NOT_OWN or GRAPHS in row["reason"]


def test_claims_where_the_encoders_are_run_have_verdicts(verdicts):
    for claim in ("HO3", "HO5", "HO6", "HO8", "HO9"):
        assert verdicts.loc[claim]["n"] == 5, claim
    assert verdicts.loc["HO5"]["verdict"] == "reproduced"
