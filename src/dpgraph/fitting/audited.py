"""What the card says of audits: attacks on the mechanism's own code, run where the card is made, on made-up graphs.

They read nothing of the user's graph. They attack the benchmark's run of the mechanism, whose votes, caps and steps a
release takes over; what a release has of its own, noise of the operating system on a grid, has tests (tests/fitting).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

from dpgraph.audits.outside import AUDITS as BY_METHOD
from dpgraph.audits.outside import only
from dpgraph.audits.registry import run_audit
from dpgraph.errors import UserError
from dpgraph.fitting.budget import Budgeted
from dpgraph.privacy.relation import Relation
from dpgraph.progress import tracked

Asked = tuple[tuple[str, int | None], ...]
# names and trials: seconds in all. The first four compare noise, rates, clip norms, what is read, and epsilon with what
# is worked out a second time, for the method alone
STEPS: Asked = tuple((name, None) for name in BY_METHOD)
VOTES: Asked = (("votes", 1000),)
MEAN: Asked = (("votes-mean", 100),)
READERS: Asked = (("votes-learnt", 4),)
REMOVED: Asked = (("votes-capped", 4), ("votes-removed", 4))


def audits_of(what: Budgeted) -> Asked:
    mean = MEAN if what.mechanism.mean_ratio is not None else ()
    if not what.votes:
        return (*STEPS, *mean)
    learnt = READERS if what.mechanism.reader_ratio is not None else ()
    return (*STEPS, *mean, *(REMOVED if what.relation is Relation.NODE_REMOVE else VOTES), *learnt)


@cache
def audited(method: str, asked: Asked) -> Mapping[str, str]:
    """What each audit claims and found. Raises UserError where one fails: then nothing may be released."""
    found = {}
    with only(method):
        for name, trials in tracked(asked, "audits of the mechanism on made-up graphs", len(asked), "audit"):
            result = run_audit(name, trials)
            if not result.passed:
                raise UserError(f"audit {name} FAILED: {result.finding}: nothing is released")
            found[f"audit {name}"] = f"passed: {result.claim}; found {result.finding}; {result.trials} trials"
    return MappingProxyType(found)
