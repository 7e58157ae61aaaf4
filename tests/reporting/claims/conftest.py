"""The plans of the tests of claims, with as many seeds as a verdict needs."""

from __future__ import annotations

import pytest

from dpgraph.planning.plan import Plan, load_plan
from dpgraph.reporting.claims.parts import FEWEST


def with_seeds(plan: Plan) -> Plan:
    return load_plan(plan.config.model_copy(update={"seeds": FEWEST}), plan.workflow)


@pytest.fixture(scope="session")
def paper_plan(paper_plan: Plan) -> Plan:
    return with_seeds(paper_plan)


@pytest.fixture(scope="session")
def views_plan(views_plan: Plan) -> Plan:
    return with_seeds(views_plan)


@pytest.fixture(scope="session")
def splits_plan(splits_plan: Plan) -> Plan:
    return with_seeds(splits_plan)
