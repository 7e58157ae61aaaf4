"""What would reproduce a claim and what would contradict it, in words, from its test."""

from __future__ import annotations

from collections.abc import Iterable

from dpgraph.config import claim_tests as kinds
from dpgraph.config.claim import Claim
from dpgraph.config.claim_tests import SimpleTest

AT = {"largest-epsilon": "", "every-epsilon": " at every ε"}


def would_reproduce(claim: Claim) -> str:
    """Every part must hold; empty where nothing is tested."""
    match claim.test:
        case kinds.Computed():
            return "every recomputed number agrees with the statement (no sample, so no level)"
        case kinds.NotTested():
            return ""
    return _joined(_holds(part) for part in claim.parts)


def would_contradict(claim: Claim) -> str:
    """One counterexample is enough; empty where nothing is tested."""
    match claim.test:
        case kinds.Computed():
            return "one recomputed number does not"
        case kinds.NotTested():
            return ""
    return _joined((_fails(part) for part in claim.parts), "; or ")


def _joined(sentences: Iterable[str], by: str = "; ") -> str:
    return by.join(dict.fromkeys(sentences))


def _holds(test: SimpleTest) -> str:
    where = _where(test)
    match test:
        case kinds.Greater():
            return f"{_each(test.better)} is {_above(test.margin)} {_each(test.worse)}{where}"
        case kinds.Similar():
            pairs = ", ".join(f"{one} and {two}" for one, two in test.pairs)
            return f"{pairs} differ by less than {_points(test.within)}{where}"
        case kinds.GrowingGap():
            return f"{test.better} gains on {_each(test.worse)} from the smallest ε to the largest{where}"
        case kinds.SmallerRange():
            return f"{_each(test.methods)} varies less in {test.artefact} than in {test.than}{where}"
        case kinds.NearBest():
            values = ", ".join(test.values)
            return f"{_each(test.methods)} at {values} is less than {_points(test.within)} below its best value{where}"
        case kinds.RarerClasses():
            what = "accuracy" if test.of == "accuracy" else f"accuracy lost to {test.reference}"
            order = "less" if test.of == "accuracy" else "more"
            return f"the rarer the class, the {order} {what} of {_each(test.methods)}{where}"
        case kinds.WeightedSum():
            terms = " ".join(
                f"{'−' if term.times < 0 else '+'} {abs(term.times):g} {term.method}"
                + "".join(f" ({text})" for text in (term.value, term.task) if text)
                + (f" at ε = {term.epsilon:g}" if term.epsilon is not None else "")
                for term in test.terms
            )
            return f"{terms.removeprefix('+ ')} is above {_points(test.above)}{where}"
        case kinds.RiseAndFall():
            return f"in {test.artefact} {_each(test.methods)} is higher at some evaluation than at its first and last"
        case kinds.EveryClass():
            return f"in {test.artefact} {test.higher} is above {test.lower} in each class"
        case kinds.AboveChance():
            return f"{_each(test.methods)} is above the share of the largest class{where}"
        case kinds.Regime():
            least = f"above {test.least:g}" if test.within is None else f"less than {_points(test.within)} below print"
            return f"{_each(test.methods)} is {least}{where}"
        case kinds.Acted():
            return f"{', '.join(f'{one} and {two}' for one, two in test.pairs)} differ from seed to seed{where}"
        case kinds.AtEqualAccuracy():
            more = f"more than {test.margin:g} above" if test.margin else "above"
            return (
                f"in {test.artefact} {test.higher} is {more} {_each(test.lower)} at equal accuracy: the least, the "
                "middle and the largest that both reach"
            )
    return _curve(test, where)


def _curve(test: kinds.Curve, where: str) -> str:
    named = f"{_each(test.methods)} over {'ε' if test.over == 'epsilon' else 'the sweep'}"
    ends = f" from {test.start or 'its first value'} to {test.end or 'its last'}" if test.start or test.end else ""
    match test:
        case kinds.Monotone():
            more = f" by more than {_points(test.by)}" if test.by else ""
            steps = f", no step by {_points(test.tolerance)} or more the other way" if test.tolerance else ""
            verb = "rises" if test.direction == "rising" else "falls"
            return f"{named} {verb}{ends}{more}{steps}{where}"
        case kinds.Constant():
            return f"any two values of {named}{ends} differ by less than {_points(test.within)}{where}"
        case kinds.PeakInside():
            return f"some value inside {named}{ends} is above both ends{where}"
    raise TypeError(f"{type(test).__name__}: expected a test on curves")


def _fails(test: SimpleTest) -> str:
    """The opposite of one comparison."""
    where = _where(test, against=True)
    match test:
        case kinds.Greater():
            limit = f"less than {_points(test.margin)} above" if test.margin > 0 else "below"
            if test.margin < 0:
                limit = f"more than {_points(-test.margin)} below"
            return f"{_any(test.better)} is {limit} {_any(test.worse)}{where}"
        case kinds.Similar():
            return f"one pair differs by more than {_points(test.within)}{where}"
        case kinds.GrowingGap():
            return f"the gap to {_any(test.worse)} shrinks{where}"
        case kinds.SmallerRange():
            return f"the range in {test.artefact} is the larger one{where}"
        case kinds.NearBest():
            return f"one of these values is more than {_points(test.within)} below another{where}"
        case kinds.RarerClasses():
            return f"the rank correlation has the other sign{where}"
        case kinds.WeightedSum():
            return f"it is below {_points(test.above)}{where}"
        case kinds.Monotone():
            steps = f", or a step goes the other way by more than {_points(test.tolerance)}" if test.tolerance else ""
            return f"the ends differ by less than {_points(test.by)}, or the other way{steps}{where}"
        case kinds.Constant():
            return f"two values differ by more than {_points(test.within)}{where}"
        case kinds.RiseAndFall():
            return f"in {test.artefact} the first or the last evaluation is higher than all between"
        case kinds.AboveChance() | kinds.Regime() | kinds.Acted():
            return f"one of them does not{where}"
        case kinds.EveryClass():
            return f"in {test.artefact} {test.higher} is below {test.lower} in one class"
        case kinds.AtEqualAccuracy():
            less = f"less than {test.margin:g} above" if test.margin else "below"
            return f"in {test.artefact} {test.higher} is {less} {_any(test.lower)} at one of these accuracies"
    return f"one end is above every value inside{where}"


def _where(test: SimpleTest, against: bool = False) -> str:
    if isinstance(test, kinds.RarerClasses):
        return ", over the classes of all data sets"
    if isinstance(test, kinds.RiseAndFall | kinds.EveryClass | kinds.AtEqualAccuracy):
        return ""
    if isinstance(test, kinds.WeightedSum) and test.terms[0].task is not None:
        return ""
    at = getattr(test, "at", "largest-epsilon")
    target = AT[at] if isinstance(at, str) else f" at ε = {', '.join(f'{value:g}' for value in at)}"
    of = "" if test.tasks is None else f" {', '.join(test.tasks)}"
    if test.across == "mean":
        where = f"on the mean of{of}" if of else "on the mean of all data sets"
    elif of:
        where = f"on{' one of' if against and len(test.tasks or ()) > 1 else ''}{of}"
    else:
        where = "on one data set" if against else "on every data set"
    return f"{target}, {where}"


def _each(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"each of {', '.join(names)}"


def _any(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"one of {', '.join(names)}"


def _above(margin: float) -> str:
    if margin > 0:
        return f"more than {_points(margin)} above"
    return "above" if margin == 0 else f"less than {_points(-margin)} below, or above,"


def _points(value: float) -> str:
    return f"{value:g} point{'' if value == 1 else 's'}".replace("-", "−")
