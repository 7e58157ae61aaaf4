"""Verdicts on a claim from its comparisons, by its parts, premises and readings (docs/reference/claims.md).

The size of the test of a conjunction is known. *Reproduced*: every part holds, each at 5 %; a claim of which one part
is false is called so at most once in twenty (intersection-union). *Contradicted*: the opposite of one part is shown at
5 % after Holm's correction over all parts of the claim, and Bonferroni's over the comparisons of each; a claim all of
whose parts are true is called so at most once in twenty, however its parts depend on each other.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np

from dpgraph.reporting.chance import holm
from dpgraph.reporting.claims.contrasts import LEVEL

REPRODUCED, CONTRADICTED, PREMISE_FAILS, DEPENDS, INCONCLUSIVE, UNDERPOWERED, NOT_RUN = VERDICTS = (
    "reproduced",
    "contradicted",
    "premise fails",
    "depends on the reading",
    "inconclusive",
    "underpowered",
    "not run",
)
NOT_OWN = "no run on the paper's own data with its own mechanism"
ABSENT = "is not in this suite"  # how the reason of a part ends whose table or figure a suite has not
DATA_HERE, DATA_MISSING = "here", "missing in part"
SURE = 0.9  # power from which a premise that is not shown counts as false
ENOUGH = 0.5  # power below which a part is called underpowered, unless a larger effect is shown
FEWEST = 5  # seeds below which a part has no verdict
CORRECTED = "after correction for the number of comparisons"  # p-values of reasons are those of one comparison


@dataclass(frozen=True)
class PartResult:
    """A part of a claim, or a premise of it, as claims.csv keeps it: `judged` needs no more to decide."""

    part: str
    verdict: str = NOT_RUN  # of a part that is computed or not run; else what `judged` makes of the numbers
    reason: str = ""  # the weakest comparison, or why the part was not tested
    reading: str = ""
    comparisons: int = 0
    n: int = 0  # seeds of the smallest sample
    size: float = math.nan
    power: float = math.nan
    p_for: float = math.nan  # against "one comparison does not hold"
    p_against: float = math.nan  # against "all comparisons hold", Bonferroni's correction over them
    larger: bool = False  # power is below `ENOUGH`, but an effect is shown that the test finds half of the time
    missing: str = ""  # why the first comparison that is missing could not be made
    premise: bool = False

    @property
    def tested(self) -> bool:
        """Return whether the part rests on samples."""
        return not math.isnan(self.p_against)

    @property
    def strong(self) -> bool:
        """Return whether the part is computed, or has enough power and seeds."""
        return (self.verdict in (REPRODUCED, CONTRADICTED) and not self.tested) or (
            self.power >= ENOUGH and self.n >= FEWEST
        )

    def holds(self) -> str:
        """Return the verdict on a premise: shown; fails where refuted, or not shown by a test that would; or open."""
        if self.p_for < LEVEL and self.tested and not self.missing:
            return REPRODUCED
        if self.p_for >= LEVEL and self.n >= FEWEST and (self.power >= SURE or self.p_against < LEVEL):
            return PREMISE_FAILS
        return NOT_RUN if self.missing or not self.tested else INCONCLUSIVE

    def decided(self, adjusted: float) -> str:
        """Return the verdict on a part, given `p_against` after Holm's correction."""
        if not self.tested:
            return NOT_RUN if self.missing else self.verdict
        if adjusted < LEVEL and self.n >= FEWEST:
            return CONTRADICTED
        if self.missing:
            return NOT_RUN
        if self.n < FEWEST or (not self.power >= ENOUGH and not self.larger):
            return UNDERPOWERED
        return REPRODUCED if self.p_for < LEVEL else INCONCLUSIVE

    @property
    def explained(self) -> str:
        """Return why the part, or the premise, has its verdict, with the weakest comparison."""
        if self.premise:
            decided = self.verdict in (REPRODUCED, PREMISE_FAILS)
            return self.reason if decided else self.missing or self.reason
        if not self.tested:
            return self.missing or self.reason
        if self.verdict == NOT_RUN:
            return f"{self.missing}; what was seen: {self.reason}"
        if self.verdict == UNDERPOWERED and self.n < FEWEST:
            return f"{self.n} seeds, fewer than {FEWEST}; what was seen: {self.reason}"
        if self.verdict == UNDERPOWERED:
            known = f"is seen with probability {self.power:.2f}" if self.power >= 0 else "has no known power"
            seen = "for it" if self.p_for < LEVEL else f"neither for it nor, {CORRECTED}, against it"
            return f"a true effect {known} at {self.n} seeds; what was seen is {seen}: {self.reason}"
        if self.verdict == INCONCLUSIVE:
            return f"neither shown nor, {CORRECTED}, refuted at 5 %: {self.reason}"
        more = f"; its power is {self.power:.2f}, but a larger effect is shown"
        return self.reason + more * (self.larger and self.verdict == REPRODUCED)


def judged(results: Sequence[PartResult]) -> tuple[str, str, tuple[PartResult, ...]]:
    """Return the verdict on a claim read in one way, its reason, and its parts and premises with their verdicts."""
    premises = [replace(one, verdict=one.holds()) for one in results if one.premise]
    parts = [one for one in results if not one.premise]
    # a part that is not run counts in the correction: which parts a claim has is known before any run
    adjusted = holm(np.array([one.p_against if one.tested else 1.0 for one in parts]))
    parts = [replace(one, verdict=one.decided(p)) for one, p in zip(parts, adjusted.tolist(), strict=True)]
    found = (*premises, *parts)
    for verdict, some in ((PREMISE_FAILS, premises), (NOT_RUN, premises), (INCONCLUSIVE, premises),
                          (CONTRADICTED, parts), (NOT_RUN, parts)):  # fmt: skip
        first = next((one for one in some if one.verdict == verdict), None)
        if first is not None:
            return verdict, f"premise, {_said(first)}" if first.premise else _said(first), found
    if all(one.verdict == REPRODUCED for one in parts):
        return REPRODUCED, _said(max(parts, key=lambda one: one.p_for if one.tested else 0.0)), found
    weak = next((one for one in parts if one.verdict == UNDERPOWERED), None)
    if len(parts) == 1 or weak is None:
        first = next(one for one in parts if one.verdict != REPRODUCED)
        return first.verdict, _said(first), found
    return INCONCLUSIVE, f"a part is underpowered: {_said(weak)}", found


def over_readings(verdicts: Mapping[str, tuple[str, str]]) -> tuple[str, str]:
    """Return one verdict and reason from those of all readings.

    Where decided readings differ it depends on the reading; one that is not decided leaves the claim undecided.
    """
    if len(set(verdicts.values())) == 1:
        return next(iter(verdicts.values()))
    told = "; ".join(f"{name}: {verdict} ({reason})" for name, (verdict, reason) in verdicts.items())
    decided = {verdict for verdict, _ in verdicts.values()} & {REPRODUCED, CONTRADICTED, PREMISE_FAILS}
    if len(decided) > 1:
        return DEPENDS, told if REPRODUCED in decided else f"in no reading reproduced: {told}"
    return max((verdict for verdict, _ in verdicts.values()), key=VERDICTS.index), told


def _said(one: PartResult) -> str:
    return f"{one.part}: {one.explained}" if one.part else one.explained


def parts_as_text(parts: Sequence[PartResult]) -> str:
    """Return parts as a JSON list, numbers with four digits; missing numbers are left out."""
    rows = [
        {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in asdict(one).items()
         if (value not in ("", 0, False) or isinstance(value, float)) and value == value}
        for one in parts
    ]  # fmt: skip
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":"))


def read_parts(text: str) -> list[PartResult]:
    """Return the parts of a row of claims.csv."""
    return [PartResult(**{"part": "", **row}) for row in json.loads(text)]
