"""Commands of the accountants and of the audits."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from dpgraph.cli.options import Json, Whole
from dpgraph.core.errors import Invalid, UserError, invalid, meant, shown

if TYPE_CHECKING:
    from dpgraph.privacy.accountants.declaration import Accountant
    from dpgraph.privacy.guarantee import Mode


@contextmanager
def _spelled_as_typed() -> Iterator[None]:
    """Name mechanisms and parameters as the command line does, with hyphens."""
    try:
        yield
    except UserError as error:
        from dpgraph.privacy.accountants.evaluate import accountants

        known = accountants()
        mechanisms, options = {name for name, *_ in known}, {name for one in known.values() for name in one.parameters}

        def typed(found: re.Match[str]) -> str:
            name = found[0].replace("_", "-")
            return name if found[0] in mechanisms else f"--{name}" if found[0] in options else found[0]

        name = error.name if isinstance(error, Invalid) else ""
        spelled = Invalid(re.sub(r"(?<![\w-])[a-z0-9]+(_[a-z0-9]+)+", typed, str(error)))
        spelled.name = name if str(spelled).startswith(f"{name}=") else ""
        raise spelled from None


Values = Annotated[str, Parameter(help="A parameter of the mechanism, e.g. --noise-multiplier 2.")]


@_spelled_as_typed()
def epsilon(
    mechanism: str,
    /,
    *,
    delta: float,
    mode: Literal["published", "rigorous", "both"] = "both",
    as_json: Json = False,
    **values: Values,
) -> None:
    """Show the epsilon of a mechanism under its accountants.

    `dpgraph list mechanisms` shows every mechanism and its parameters.

    Example: dpgraph epsilon poisson-gaussian --q 0.1 --noise-multiplier 2 --steps 100 --delta 1e-5

    Args:
        mechanism: E.g. poisson-gaussian.
        mode: Accountants to ask.
    """
    from dpgraph.privacy.accountants.evaluate import guarantee
    from dpgraph.privacy.guarantee import MODE_NAMES, at_most

    if not 0 < delta < 1:
        raise invalid("delta", delta, "a number in (0, 1)")
    name, known = _mechanism(mechanism)
    given = _parameters(values, known)
    modes: tuple[Mode, ...] = ("published", "rigorous") if mode == "both" else (mode,)
    guarantees = [guarantee(name, one, given, delta) for one in modes]
    if all(one.epsilon is None for one in guarantees):
        raise UserError(f"{name}: nothing is guaranteed: {guarantees[0].reason}")
    if as_json:
        answer = {one.mode: one.model_dump(mode="json") for one in guarantees}
        print(json.dumps({"mechanism": name, "parameters": given, **answer}, indent=1))
        return
    for one in guarantees:
        if one.epsilon is None:
            print(f"{MODE_NAMES[one.mode]} epsilon: none: {one.reason}")
            continue
        print(f"{MODE_NAMES[one.mode]} epsilon: {at_most(one.epsilon, digits=6)} at delta {delta:.12g}")
        print(f"  relation: {one.relation} ({one.relation.meaning})\n  scope: {one.scope}\n  sampling: {one.sampling}")
        for assumption in one.assumptions:
            print(f"  assumes: {assumption}")


@_spelled_as_typed()
def noise(
    mechanism: str,
    /,
    *,
    delta: float,
    epsilon: float,
    solve: Literal["noise", "steps", "rate"] = "noise",
    mode: Literal["published", "rigorous"] | None = None,
    as_json: Json = False,
    **values: Values,
) -> None:
    """Solve for the least noise, most steps or highest batch rate that meet a target epsilon.

    `dpgraph list mechanisms` shows every mechanism and its parameters.

    Example: dpgraph noise poisson-gaussian --q 0.1 --steps 100 --delta 1e-5 --epsilon 2

    Args:
        mechanism: E.g. poisson-gaussian.
        epsilon: Target, which is not exceeded.
        solve: What to solve for.
        mode: Accountant (default: rigorous, or the only one).
    """
    from dpgraph.privacy.accountants.evaluate import find, guarantee, solve_for
    from dpgraph.privacy.cache import default_cache
    from dpgraph.privacy.guarantee import MODE_NAMES, at_most

    name, known = _mechanism(mechanism)
    chosen = mode if mode is not None else next(iter(known)) if len(known) == 1 else "rigorous"
    given = _parameters(values, known)
    solved = solve_for(name, chosen, given, solve, delta=delta, epsilon=epsilon, cache=default_cache(), show=True)
    reached = guarantee(name, chosen, solved, delta)
    if reached.epsilon is None:
        raise TypeError(f"{name}: an answer without an epsilon")
    unknown = find(name, chosen).unknown(solve)
    if as_json:
        answer = {"mechanism": name, "mode": chosen, "delta": delta, "solved": unknown}
        print(json.dumps({**answer, "parameters": solved, "epsilon": reached.epsilon}, indent=1))
        return
    print(
        f"{unknown} {solved[unknown]:g}: {MODE_NAMES[chosen]} epsilon {at_most(reached.epsilon, digits=6)} <= "
        f"{epsilon:.12g} at delta {delta:.12g}"
        f"{reached.place}"
    )


def _mechanism(name: str) -> tuple[str, dict[Mode, Accountant]]:
    """Return the mechanism's own spelling and its accountants of epsilon by mode."""
    from dpgraph.privacy.accountants.evaluate import modes, names

    own = name.replace("-", "_")
    if own not in names():
        raise invalid("mechanism", name, f"one of {', '.join(names())}")
    return own, modes(own)


def _parameters(values: dict[str, str], known: dict[Mode, Accountant]) -> dict[str, Any]:
    """Return the parameters, each read as JSON where it is JSON."""
    given: dict[str, Any] = {}
    declared = {name: parameter for one in known.values() for name, parameter in one.parameters.items()}
    for option, value in values.items():
        name = option.replace("-", "_")
        if name not in declared:
            options = [f"--{one.replace('_', '-')}" for one in (*declared, "delta", "epsilon", "mode", "solve", "json")]
            raise UserError(
                f"--{shown(option)}: no such option and no parameter of this mechanism (dpgraph list mechanisms)"
                f"{meant(f'--{option}', options)}"
            )
        given[name] = value if declared[name].kind is str else _value(name, value, declared[name].allowed)
    return given


def _value(name: str, text: str, allowed: str) -> Any:
    for read in (json.loads, float):  # JSON has no .1 and no 1.
        try:
            return read(text)
        except ValueError:
            continue
    raise invalid(name, text, allowed)


def plan(
    *,
    num_train: Whole,
    hops: Whole,
    max_degree: Whole | None = None,
    list_cap: Whole | None = None,
    epsilon: float,
    delta: float | None = None,
    max_steps: Whole,
    neighbour_clip: float | None = None,
) -> None:
    """Find the best batch rate, steps and noise for a target epsilon, under the rigorous accountant.

    No data are read.

    Example: dpgraph plan --num-train 1000 --hops 1 --max-degree 5 --epsilon 4 --max-steps 100

    Args:
        num_train: Number of training nodes, N: public.
        hops: Layers of message passing.
        max_degree: Lists in which a node may occur, K (with hops).
        list_cap: Longest list (default: K).
        epsilon: Target.
        delta: Default: 1 / (10 N).
        max_steps: Step budget.
        neighbour_clip: Plan residual clipping with this ratio of clip norms, at equal batch rates.
    """
    from dpgraph.families.trees.planner import Question, plan_table, plans
    from dpgraph.privacy.cache import default_cache
    from dpgraph.privacy.public_numbers import usual_delta

    question = Question(
        num_train=num_train, hops=hops, max_degree=max_degree, list_cap=max_degree if list_cap is None else list_cap,
        epsilon=epsilon, delta=usual_delta(max(num_train, 1)) if delta is None else delta, max_steps=max_steps,
        neighbour_clip=neighbour_clip,
    )  # fmt: skip
    print(plan_table(question, plans(question, default_cache())))


def audit(audit: str, /, *, trials: Whole | None = None, quick: bool = False, out: Path | None = None) -> int:
    """Attack the project's own code; status 1 if a claim does not hold.

    `dpgraph list audits` shows every audit.

    Example: dpgraph audit sums --trials 4

    Args:
        audit: Name of an audit (e.g. facts, votes, sensitivity), or all.
        trials: Trials on each side (default: the audit's own).
        quick: Fewer trials where an audit takes long.
        out: Parquet file of the results.
    """
    from dpgraph.audits.registry import names_of, quick_trials, run_audit, write_audits
    from dpgraph.core.progress import tracked

    names = names_of(audit)
    counts = {name: quick_trials(name) if quick and trials is None else trials for name in names}
    results = [run_audit(name, counts[name]) for name in tracked(names, "audits", len(names), "audit")]
    if out is not None:
        write_audits(results, out)
    for one in results:
        print(f"{one.audit}: {'passed' if one.passed else 'FAILED'}")
        print(f"  claim: {one.claim}\n  found: {one.finding} ({one.trials} trials, {one.seconds:.2g} s)")
    return 0 if all(one.passed for one in results) else 1


def check(what: Literal["method", "accounting"], name: str | None = None, /) -> int:
    """Check a method of your own, or the accountants against reference values.

    Examples: dpgraph check method dp-mine; dpgraph check accounting; dpgraph check accounting values.csv

    Args:
        what: A method from outside the package, whose results then list the outcome, or the accountants.
        name: The method, or a CSV file of reference values (default: those that the accountants declare).
    """
    if what == "method":
        from dpgraph.audits.outside import check_method

        if name is None:
            raise UserError("check method: expected the name of a method from outside the package")
        path, found = check_method(name, print)
        near = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        print(f"{near}: {sum(found.values())} of {len(found)} passed; results list them, and call its epsilon claimed")
        return 0 if all(found.values()) else 1
    from dpgraph.audits.accounted import prv_epsilon
    from dpgraph.privacy.accountants.evaluate import check_accounting

    passed, failed, lines = check_accounting(name, {"prv": prv_epsilon})
    print("\n".join([*lines, f"{passed} passed, {failed} failed"]))
    return 1 if failed else 0
