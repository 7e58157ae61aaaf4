"""Kinds of tests, found as modules of `claims/kinds`, and claims that families compute, by name."""

import importlib
import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

from dpgraph.config.claim import Claim
from dpgraph.config.claim_tests import Computed, PartTest, uses
from dpgraph.core.errors import invalid
from dpgraph.families.registry import declared
from dpgraph.reporting.claims.comparing import ClaimKind
from dpgraph.reporting.claims.verdicts import Verdict


@cache
def kinds() -> dict[type, ClaimKind]:
    """Return all kinds by their test, from `KINDS` of each module of the folder kinds."""
    names = sorted(path.stem for path in (Path(__file__).parent / "kinds").glob("[!_]*.py"))
    modules = (importlib.import_module(f"{__package__}.kinds.{name}") for name in names)
    return {kind.test: kind for module in modules for kind in module.KINDS}


def kind_of(test: PartTest) -> ClaimKind:
    """Return how a test is run. Raises TypeError for a test that no module of kinds declares."""
    if type(test) not in kinds():
        raise TypeError(f"{type(test).__name__}: expected a test that a module of claims/kinds declares")
    return kinds()[type(test)]


COMPUTED: dict[str, Callable[[], Verdict]] = declared("reported.py", "CLAIMS")


def computed_verdict(name: str) -> Verdict:
    """Return the verdict on a claim that needs no training. Raises UserError for an unknown name."""
    if name not in COMPUTED:
        raise invalid("function", name, f"one of {', '.join(COMPUTED)}")
    return COMPUTED[name]()


def in_words(claim: Claim, labels: Mapping[str, str]) -> tuple[str, str]:
    """Return what would reproduce a claim (every part must hold) and what would contradict it (one counterexample).

    Both are empty for a claim without a test. Methods have their `labels`, quoted where these have commas.
    """
    if isinstance(claim.test, Computed):
        every = "every recomputed number agrees with the statement (no sample, so no level)"
        return every, "one recomputed number does not"
    kinds = [(kind_of(part), part) for part in claim.parts]
    names = "|".join({re.escape(name) for part in claim.parts for _, methods in uses(part) for name in methods})
    quoted = {name: f"“{label}”" if "," in label else label for name, label in labels.items()}
    label = partial(re.sub, rf"(?<![\w-])({names})(?![\w-])", lambda found: quoted.get(found[0], found[0]))
    holds = dict.fromkeys(kind.holds(part) for kind, part in kinds)
    fails = dict.fromkeys(kind.fails(part) for kind, part in kinds)
    return label("; ".join(holds)), label("; or ".join(fails))
