"""Methods from outside the package: their epsilon is shown as claimed, never as proved."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from dpgraph.core import outside
from dpgraph.families.registry import outside_of
from dpgraph.privacy.relation import Relation, Scope

# the checks of every run; those of `dpgraph check method` are added
ALWAYS = "what ran is what its mechanism states (every run)"


def with_claims(method: str, columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns of a statement with what is claimed and `checks`: nan and empty for a method of the package.

    What a method from outside calls rigorous is its author's claim: this project has not read its proof. So nothing is
    left under `eps_rigorous`, whose reason says what is claimed and which checks the method has passed.
    """
    folder, shown = outside_of(method), dict(columns)
    if folder is None or shown["eps_rigorous"] == math.inf:
        return shown | {"eps_claimed": math.nan, "relation_claimed": "", "scope_claimed": "", "checks": ""}
    claimed = shown["eps_rigorous"]
    checks = ", ".join([ALWAYS, *outside.checks_of(folder)])
    what = "nothing" if math.isnan(claimed) else f"epsilon {claimed:.4g}"
    what += "".join(f", {shown[name]}" for name in ("relation_rigorous", "scope_rigorous") if not math.isnan(claimed))
    return shown | {
        "eps_claimed": claimed,
        "relation_claimed": shown["relation_rigorous"],
        "scope_claimed": shown["scope_rigorous"],
        "checks": checks,
        "eps_rigorous": math.nan,
        "eps_rigorous_reason": f"claimed, not proved: {what}; the method is from outside of the package; "
        f"checks: {checks}",
        "relation_rigorous": Relation.NONE.value,
        "scope_rigorous": Scope.NONE.value,
    }


def checks_noted(methods: Iterable[str]) -> dict[str, list[str]]:
    """Return what `dpgraph check method` noted of each method: results are collected again when that changes."""
    folders = {name: outside_of(name) for name in dict.fromkeys(methods)}
    return {name: list(outside.checks_of(folder)) for name, folder in folders.items() if folder is not None}
