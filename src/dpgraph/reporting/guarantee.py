"""The guarantee of one row of results: its epsilons, what each is about, and what none of them covers.

columns.csv is the one list of its fields. Rows and tables name them flat (`eps_published`); results.parquet stores them
as one struct column (`guarantee.published.epsilon`). Rows that older versions shipped have the flat columns.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import pandas as pd
import pyarrow as pa

from dpgraph.core import outside
from dpgraph.core.errors import UserError
from dpgraph.families.registry import outside_of
from dpgraph.privacy.guarantee import at_most
from dpgraph.reporting.dictionary import COLUMNS, number
from dpgraph.reporting.protection import MODES, joined
from dpgraph.reporting.records import RecordedGuarantee, RecordedStatement

COLUMN = "guarantee"
# place of a field in `RunGuarantee`, by its flat name
PLACES = {name: column.stored.removeprefix(f"{COLUMN}.") for name, column in COLUMNS.items() if column.stored}
NO_BUDGET = "no budget was recorded at this step"
# the checks of every run; those of `dpgraph check method` are added
ALWAYS = "what ran is what its mechanism states (every run)"


@dataclass(frozen=True)
class Promise:
    """One epsilon with its relation and scope; nan, with the reason, without a guarantee."""

    epsilon: float = math.nan
    reason: str = ""
    relation: str = ""
    scope: str = ""
    unmet: str = ""  # premises of the formula that do not hold for what ran

    @classmethod
    def recorded(cls, one: RecordedGuarantee) -> Promise:
        return cls(number(one.epsilon), one.reason or "", str(one.relation), str(one.scope), joined(one.unmet))

    def with_epsilon(self, epsilon: float | None) -> Promise:
        """Return the promise at another step; None: no guarantee there."""
        if epsilon is not None:
            return replace(self, epsilon=float(epsilon), reason="")
        return replace(self, epsilon=math.nan, reason=self.reason or NO_BUDGET, relation="none", scope="none")


@dataclass(frozen=True)
class RunGuarantee:
    """Epsilons by the paper's formula, as proved, and as a method from outside the package claims it."""

    published: Promise = Promise()
    rigorous: Promise = Promise()
    claimed: Promise = Promise()
    checks: str = ""  # of a method from outside
    beside: str = ""  # the same run under other relations
    uncovered: str = ""
    delta: float = math.nan

    @classmethod
    def stated(cls, statement: RecordedStatement) -> RunGuarantee:
        """Return what a record's statement says."""
        others = (one for one in statement.beside if one.epsilon is not None)
        return cls(
            Promise.recorded(statement.published),
            Promise.recorded(statement.rigorous),
            beside=joined(f"{one.relation} {at_most(number(one.epsilon), digits=3)} ({one.scope})" for one in others),
            uncovered=joined(statement.uncovered),
            delta=number(statement.rigorous.delta),
        )

    @classmethod
    def from_columns(cls, columns: Mapping[str, Any]) -> RunGuarantee:
        """Return the guarantee that flat columns hold."""
        parts: dict[str, dict[str, Any]] = {}
        for name, place in PLACES.items():
            head, _, part = place.rpartition(".")
            parts.setdefault(head, {})[part] = columns[name]
        fields: dict[str, Any] = {head: Promise(**one) for head, one in parts.items() if head}
        return cls(**fields, **parts[""])

    @classmethod
    def weakest(cls, rows: pd.DataFrame) -> RunGuarantee:
        """Return what all rows guarantee: the largest epsilon, none where one of them has none, and all texts."""
        return cls.from_columns({
            name: text(rows[name]) if COLUMNS[name].kind == "string" else float(rows[name].max(skipna=name == "delta"))
            for name in PLACES
        })  # fmt: skip

    @property
    def columns(self) -> dict[str, float | str]:
        """Return the values by flat name."""
        return {name: attrgetter(place)(self) for name, place in PLACES.items()}

    def at_step(self, epsilons: Mapping[str, float | None]) -> RunGuarantee:
        """Return the guarantee of parameters before the last step, by their epsilons of `MODES`."""
        return replace(self, **{mode: getattr(self, mode).with_epsilon(epsilons.get(mode)) for mode in MODES})

    def as_claimed_by(self, method: str) -> RunGuarantee:
        """Return the guarantee with what a method from outside calls proved as its claim, and the checks it passed.

        This project has not read its proof: the proved epsilon is none, and its reason names the claim.
        """
        folder, own = outside_of(method), self.rigorous
        if folder is None or own.epsilon == math.inf:
            return self
        checks = ", ".join([ALWAYS, *outside.checks_of(folder)])
        what = "nothing"
        if not math.isnan(own.epsilon):
            what = f"epsilon {at_most(own.epsilon, digits=4)}, {own.relation}, {own.scope}"
        reason = f"claimed, not proved: {what}; the method is from outside of the package; checks: {checks}"
        rigorous = Promise(reason=reason, relation="none", scope="none")
        return replace(self, rigorous=rigorous, claimed=replace(own, reason=""), checks=checks)


def checks_noted(methods: Iterable[str]) -> dict[str, list[str]]:
    """Return what `dpgraph check method` noted of each method: results are collected again when that changes."""
    folders = {name: outside_of(name) for name in dict.fromkeys(methods)}
    return {name: list(outside.checks_of(folder)) for name, folder in folders.items() if folder is not None}


def text(column: pd.Series) -> str:
    """Return the distinct texts of a column, joined."""
    return "; ".join(dict.fromkeys(one for one in column.tolist() if isinstance(one, str) and one))


def packed(table: pa.Table) -> pa.Table:
    """Return the table with the flat columns of the guarantee as one struct column, where the first of them was."""
    names = [name for name in PLACES if name in table.column_names]
    if not names:
        return table
    heads: dict[str, dict[str, pa.Array]] = {}
    for name in names:
        head, _, part = PLACES[name].rpartition(".")
        heads.setdefault(head, {})[part] = table[name].combine_chunks()
    alone = heads.pop("", {})
    parts = {head: pa.StructArray.from_arrays(list(one.values()), list(one)) for head, one in heads.items()} | alone
    whole = pa.StructArray.from_arrays(list(parts.values()), list(parts))
    return table.drop_columns(names).add_column(min(map(table.column_names.index, names)), COLUMN, whole)


def unpacked(table: pa.Table) -> pa.Table:
    """Return the table with flat columns instead of the struct; raise UserError for a field that is not known."""
    flat = table.flatten().flatten() if COLUMN in table.column_names else table
    names = {f"{COLUMN}.{place}": name for name, place in PLACES.items()}
    unknown = [name for name in flat.column_names if name.startswith(f"{COLUMN}.") and name not in names]
    if unknown:
        raise UserError(f"column {unknown[0]}: unknown field of a guarantee: update dpgraph")
    named = flat.rename_columns([names.get(name, name) for name in flat.column_names])
    return named.replace_schema_metadata(table.schema.metadata)  # pandas reads the types of texts there
