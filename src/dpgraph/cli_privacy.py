"""What the subcommands of the accountants and audits do: epsilon, noise, plan, check-accounting, audit."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from typing import Any

from dpgraph.errors import UserError, invalid
from dpgraph.privacy.accountants.catalogue import ACCOUNTANTS, NAMES
from dpgraph.privacy.accountants.parameters import PARAMETERS
from dpgraph.privacy.guarantee import Mode

log = logging.getLogger("dpgraph")


def epsilon(options: argparse.Namespace) -> None:
    from dpgraph.privacy.accountants.evaluate import guarantee

    parameters = _parameters(options)
    modes: tuple[Mode, ...] = ("published", "rigorous") if options.mode == "both" else (options.mode,)
    guarantees = [guarantee(options.mechanism_name, mode, parameters, options.delta) for mode in modes]
    if all(one.epsilon is None for one in guarantees):
        raise UserError(f"{options.mechanism_name}: nothing is guaranteed: {guarantees[0].reason}")
    if options.json:
        answer = {one.mode: one.model_dump(mode="json") for one in guarantees}
        print(json.dumps({"mechanism": options.mechanism_name, "parameters": parameters, **answer}, indent=1))
        return
    for one in guarantees:
        if one.epsilon is None:
            print(f"{one.mode} epsilon: none: {one.reason}")
            continue
        print(f"{one.mode} epsilon: {one.epsilon:.6g} at delta {options.delta:g}")
        print(f"  relation: {one.relation} ({one.relation.meaning})\n  scope: {one.scope}\n  sampling: {one.sampling}")
        for assumption in one.assumptions:
            print(f"  assumes: {assumption}")


def noise(options: argparse.Namespace) -> None:
    from dpgraph.privacy.accountants.catalogue import accountant
    from dpgraph.privacy.accountants.evaluate import guarantee, solve_for
    from dpgraph.privacy.cache import default_cache

    solved = solve_for(
        options.mechanism_name,
        options.mode,
        _parameters(options),
        options.solve,
        delta=options.delta,
        epsilon=options.epsilon,
        cache=default_cache(),
        show=True,
    )
    reached = guarantee(options.mechanism_name, options.mode, solved, options.delta)
    spent = reached.epsilon
    name = accountant(options.mechanism_name, options.mode).unknown(options.solve)
    if options.json:
        answer = {"mechanism": options.mechanism_name, "mode": options.mode, "delta": options.delta, "solved": name}
        print(json.dumps({**answer, "parameters": solved, "epsilon": spent}, indent=1))
        return
    print(
        f"{name} {solved[name]:g}: {options.mode} epsilon {spent:.6g} <= {options.epsilon:g} at delta {options.delta:g}"
        f"{reached.place}"
    )


def plan(options: argparse.Namespace) -> None:
    from dpgraph.privacy.cache import default_cache
    from dpgraph.privacy.planner import Question, plan_table, plans
    from dpgraph.privacy.public_numbers import usual_delta

    question = Question(
        num_train=options.num_train,
        hops=options.hops,
        max_degree=options.max_degree,
        list_cap=options.list_cap if options.list_cap is not None else options.max_degree,
        epsilon=options.epsilon,
        delta=options.delta if options.delta is not None else usual_delta(max(options.num_train, 1)),
        max_steps=options.max_steps,
        neighbour_clip=options.neighbour_clip,
    )
    proposed = plans(question, default_cache())
    if options.json:
        settings = [{**one.model_dump(mode="json"), **one.merits} for one in proposed]
        print(json.dumps({"question": question.model_dump(mode="json"), "settings": settings}, indent=1))
    else:
        print(plan_table(question, proposed))


def check_accounting(options: argparse.Namespace) -> None:
    from dpgraph.audits.cross_check import prv_epsilon
    from dpgraph.privacy.accountants.check import check_accounting as check

    passed, failed, lines = check(options.file, {"prv": prv_epsilon})
    print("\n".join([*lines, f"{passed} passed, {failed} failed"]))
    if failed:
        sys.exit(1)


def audit(options: argparse.Namespace) -> None:
    from dpgraph.audits.registry import names_of, quick_trials, run_audit, write_audits
    from dpgraph.progress import tracked

    if options.figure is not None and options.out is None:
        raise invalid("--figure", options.figure, "--out, too")
    names = names_of(options.audit, options.nightly)
    trials = {name: options.trials or (quick_trials(name) if options.quick else None) for name in names}
    results = [run_audit(name, trials[name]) for name in tracked(names, "audits", len(names), "audit")]
    if options.out is not None:
        write_audits(results, options.out)
        if options.figure is not None:
            from dpgraph.reporting.audit_figure import read_audits, write_audit_figure

            write_audit_figure(read_audits(options.out), options.figure)
    if options.json:
        print(json.dumps([one.model_dump(mode="json") for one in results], indent=1))
    else:
        for one in results:
            print(f"{one.audit}: {'passed' if one.passed else 'FAILED'}")
            print(f"  claim: {one.claim}\n  found: {one.finding} ({one.trials} trials, {one.seconds:.2g} s)")
    if not all(one.passed for one in results):
        sys.exit(1)


def _parameters(options: argparse.Namespace) -> dict[str, Any]:
    """Flags over --parameters; a flag's text is read as JSON where it is JSON."""
    given: dict[str, Any] = {}
    if options.parameters is not None:
        try:
            given = json.loads(options.parameters)
        except ValueError:
            raise invalid("--parameters", options.parameters, "a JSON object") from None
        if not isinstance(given, dict):
            raise invalid("--parameters", options.parameters, "a JSON object")
    for name in PARAMETERS:
        text = getattr(options, f"parameter_{name}", None)
        if text is not None:
            given[name] = _value(name, text)
    return given


def _value(name: str, text: str) -> Any:
    if PARAMETERS[name].kind is str:
        return text
    for read in (json.loads, float):  # JSON has no .1 and no 1.
        try:
            return read(text)
        except ValueError:
            continue
    raise invalid(name, text, PARAMETERS[name].allowed)


def mechanism_options(added: argparse.ArgumentParser, solving: bool) -> None:
    """A subcommand for each mechanism, with its parameters as flags; `solving`: for a target epsilon."""
    mechanisms = added.add_subparsers(required=True, metavar="MECHANISM", dest="mechanism")
    for mechanism in NAMES:
        _add_mechanism(mechanisms, mechanism, solving)


def _add_mechanism(mechanisms: Any, mechanism: str, solving: bool) -> None:
    known = {
        mode: one for (name, mode, quantity), one in ACCOUNTANTS.items() if (name, quantity) == (mechanism, "epsilon")
    }
    added = mechanisms.add_parser(
        mechanism, aliases=list({mechanism.replace("_", "-")} - {mechanism}), help=" and ".join(known)
    )
    added.set_defaults(mechanism_name=mechanism)
    added.add_argument("--delta", type=float, required=True)
    only = next(iter(known)) if len(known) == 1 else None
    if solving:
        added.add_argument("--epsilon", type=float, required=True, help="target, which is not exceeded")
        added.add_argument("--solve", choices=["noise", "steps", "rate"], default="noise")
        added.add_argument("--mode", choices=["published", "rigorous"], default=only or "rigorous")
    else:
        added.add_argument("--mode", choices=["published", "rigorous", "both"], default="both")
    added.add_argument("--json", action="store_true")
    added.add_argument("--parameters", metavar="JSON", help="all parameters at once; flags override it")
    for name in dict.fromkeys(name for one in known.values() for name in one.names if name):
        parameter = PARAMETERS[name]
        added.add_argument(
            f"--{name.replace('_', '-')}",
            dest=f"parameter_{name}",
            metavar=parameter.kind.__name__.upper(),
            help=f"{parameter.text}: {parameter.allowed}".replace("%", "%%"),
        )
