"""The papers' claims, each tested on this suite's results: reproduced, contradicted, inconclusive or not run (why)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from dpgraph.errors import UserError
from dpgraph.experiments.experiment import Claim, Computed, Greater, GrowingGap, NotTested
from dpgraph.experiments.plan import Entry, Plan
from dpgraph.files import write_text
from dpgraph.reporting import computed
from dpgraph.reporting.contrasts import LEVEL, Contrast, contrast
from dpgraph.reporting.formats import difference, epsilon, html_text
from dpgraph.reporting.page import page
from dpgraph.reporting.paper_values import paper_datasets
from dpgraph.reporting.results import Outcome, Results, write_csv

COLUMNS = (
    "paper",
    "claim",
    "statement",
    "source",
    "own_numbers",
    "verdict",
    "scope",
    "evidence",
    "comparisons",
    "n",
    "suite",
)
ELSEWHERE = "on this suite's data sets, which are not the paper's"


@dataclass(frozen=True)
class Verdict:
    verdict: str
    scope: str
    evidence: str
    comparisons: int = 0
    n: int = 0


@dataclass
class Comparisons:
    """What a claim compares: contrasts that have values, and reasons of those that have none."""

    margin: float = 0.0
    found: list[tuple[str, Contrast]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    budgets: dict[str, None] = field(default_factory=dict)  # in order, each once


def write_claims(plan: Plan, results: pd.DataFrame | None, path_csv: Path, path_html: Path) -> list[Path]:
    table = claims_table(plan, results)
    write_csv(table, path_csv)
    write_text(path_html, claims_page(plan, table))
    return [path_csv, path_html]


def claims_table(plan: Plan, results: pd.DataFrame | None) -> pd.DataFrame:
    """One row per claim of the plan's papers.

    A claim over several data sets, methods or budgets is *reproduced* if every single comparison holds at the 5 % level
    (an intersection-union test needs no correction), *contradicted* if one is refuted at 5 % after Bonferroni's
    correction, else *inconclusive*. `n` is the smallest number of seeds in a comparison.
    """
    found = None if results is None else Results(results)
    rows = []
    for name, (paper, claim) in plan.claims().items():
        result = _verdict(plan, paper, claim, found)
        rows.append(
            {
                "paper": paper,
                "claim": name,
                "statement": claim.statement,
                "source": claim.source,
                "own_numbers": claim.own_numbers,
                "verdict": result.verdict,
                "scope": result.scope,
                "evidence": result.evidence,
                "comparisons": result.comparisons,
                "n": result.n,
                "suite": plan.suite.name,
            }
        )
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _verdict(plan: Plan, paper: str, claim: Claim, results: Results | None) -> Verdict:
    test = claim.test
    if isinstance(test, NotTested):
        return _not_run(test.why)
    if isinstance(test, Computed):
        finding = computed.FUNCTIONS[test.function]()
        return Verdict(finding.verdict, "computed, without training", finding.evidence, finding.n, 0)
    artefact = f"{paper}/{test.artefact}"
    if artefact not in plan.artefacts:
        return _not_run(f"{test.artefact} is not in this suite")
    if results is None:
        return _not_run("no results yet")
    tasks = {
        task_id: task
        for task_id, (task, _) in plan.tasks_of(artefact).items()
        if test.tasks is None or task.published in test.tasks
    }
    if not tasks:
        names = ", ".join(test.tasks or ())
        return _not_run(f"data set {names} is not in this suite")
    metric = plan.artefacts[artefact].metric
    comparisons = Comparisons(test.margin if isinstance(test, Greater) else 0.0)
    for task_id, task in tasks.items():
        entries = [entry for entry in plan.entries_of(artefact) if entry.task_id == task_id]
        known = [(entry, results.outcome(entry, metric)) for entry in entries]
        if isinstance(test, Greater):
            _greater(test, task.label, known, comparisons)
        else:
            _growing_gap(test, task.label, known, comparisons)
    return _decide(comparisons, _scope(plan, artefact, test, list(tasks)))


Known = list[tuple[Entry, Outcome]]


def _greater(test: Greater, label: str, known: Known, comparisons: Comparisons) -> None:
    for better in test.better:
        for worse in test.worse:
            upper, lower = _of(known, better), _of(known, worse)
            pairs = list(_pairs(upper, lower))
            if not pairs:
                comparisons.missing.append(f"{label}: {better} and {worse} have no budget in common in this suite")
            for at, (one, two) in pairs[-1:] if test.at == "largest-epsilon" else pairs:
                _compare(f"{label}, {better} − {worse}{at}", [(1.0, *one), (-1.0, *two)], comparisons)


def _growing_gap(test: GrowingGap, label: str, known: Known, comparisons: Comparisons) -> None:
    for worse in test.worse:
        pairs = list(_pairs(_of(known, test.better), _of(known, worse)))
        if len(pairs) < 2:
            comparisons.missing.append(f"{label}: {test.better} and {worse} have fewer than two budgets in common")
            continue
        (first, (low_better, low_worse)), (last, (high_better, high_worse)) = pairs[0], pairs[-1]
        terms = [(1.0, *high_better), (-1.0, *high_worse), (-1.0, *low_better), (1.0, *low_worse)]
        where = f"{label}, gap {test.better} − {worse}{last} minus the same{first}"
        _compare(where, terms, comparisons)


def _of(known: Known, method: str) -> dict[float | None, tuple[Entry, Outcome]]:
    return {entry.epsilon: (entry, outcome) for entry, outcome in known if entry.method_id == method}


Place = tuple[Entry, Outcome]


def _pairs(
    upper: dict[float | None, Place], lower: dict[float | None, Place]
) -> Iterator[tuple[str, tuple[Place, Place]]]:
    """Both methods at each common target epsilon, ascending; a method without a budget stands beside every one."""
    budgets = sorted({value for value in (*upper, *lower) if value is not None})
    targets: list[float | None] = [*budgets] if budgets else [None]
    for target in targets:
        one = upper.get(target, upper.get(None))
        two = lower.get(target, lower.get(None))
        if one is not None and two is not None:
            yield (f" at target ε = {target:g}" if target is not None else ""), (one, two)


def _compare(where: str, terms: Iterable[tuple[float, Entry, Outcome]], comparisons: Comparisons) -> None:
    terms = list(terms)
    bad = [f"{entry.method_id} {outcome.why_not}" for _, entry, outcome in terms if not outcome.ok]
    if bad:
        comparisons.missing.append(f"{where}: {', '.join(dict.fromkeys(bad))}")
        return
    values = [(weight, entry.cell.slug, 100 * outcome.values.to_numpy()) for weight, entry, outcome in terms]
    comparisons.budgets |= dict.fromkeys(_budget(entry, known) for _, entry, known in terms if entry.cell.privacy)
    comparisons.found.append((where, contrast(values)))


def _budget(entry: Entry, outcome: Outcome) -> str:
    name = f"{entry.method_id} on {entry.suite_task.label}"
    return f"{name}: published {epsilon(outcome.eps_published)}, rigorous {epsilon(outcome.eps_rigorous)}"


def _decide(comparisons: Comparisons, scope: str) -> Verdict:
    margin, found = comparisons.margin, comparisons.found
    evidence = [_sentence(where, value, margin) for where, value in found]
    evidence += [f"not compared: {text}" for text in comparisons.missing]
    if comparisons.budgets:
        evidence.append(f"ε: {'; '.join(comparisons.budgets)}")
    text = ". ".join(evidence)
    n = min((value.n for _, value in found), default=0)
    testable = [value for _, value in found if value.n >= 2]
    refuted = any(value.p_below(margin) < LEVEL / len(testable) for value in testable)
    if refuted:  # one counterexample refutes a universal claim, whatever else is missing
        verdict = "contradicted"
    elif comparisons.missing:
        verdict = f"not run ({comparisons.missing[0]})"
    elif len(testable) < len(found):
        return Verdict("inconclusive", scope, f"one seed only: no test is possible. {text}", len(found), n)
    elif all(value.p_above(margin) < LEVEL for value in testable):
        verdict = "reproduced"
    else:
        verdict = "inconclusive"
    return Verdict(verdict, scope, text, len(found), n)


def _sentence(where: str, value: Contrast, margin: float) -> str:
    if value.n < 2:
        return f"{where}: {difference(value.estimate)} points"
    side, p = "above", value.p_above(margin)
    if value.estimate < margin:
        side, p = "below", value.p_below(margin)
    shown = "p < 0.001" if p < 1e-3 else f"p = {p:.3f}"
    return f"{where}: {difference(value.estimate)} points, standard error {value.error:.2f}; {side} {margin:g}: {shown}"


def _scope(plan: Plan, artefact: str, test: Greater | GrowingGap, tasks: list[str]) -> str:
    """Which data sets the verdict speaks about, and which of the paper's it does not."""
    shown = {task: plan.suite.tasks[task] for task in tasks}
    foreign = [task.label for task in shown.values() if task.published is None or plan.suite.demonstration]
    own = [task.published for task in shown.values() if task.published is not None and not plan.suite.demonstration]
    parts = []
    if foreign:
        parts.append(f"{ELSEWHERE}: {' / '.join(foreign)}")
    if own:
        parts.append(f"on the paper's data sets {', '.join(own)}")
    if own:
        wanted = test.tasks or _paper_tasks(plan, artefact)
        left = [name for name in wanted if name not in own]
        if left:
            parts.append(f"not tested on {', '.join(left)}")
    return "; ".join(parts)


def _paper_tasks(plan: Plan, artefact: str) -> tuple[str, ...]:
    paper, name = artefact.split("/")
    experiment = plan.experiments[paper]
    try:
        return tuple(paper_datasets(experiment, experiment.artefacts[name].published_table or name))
    except UserError:
        return ()


def _not_run(why: str) -> Verdict:
    return Verdict(f"not run ({why})", "", "")


HEAD = ("Claim", "Statement", "Source", "The paper’s own numbers", "Verdict", "Evidence", "Seeds")


def claims_page(plan: Plan, table: pd.DataFrame) -> str:
    head = "".join(f'<th scope="col">{name}</th>' for name in HEAD)
    counts = table["verdict"].str.replace(r" \(.*", "", regex=True).value_counts()
    where = f"suite {plan.suite.name}" + (", whose data sets are not the papers’" if plan.suite.demonstration else "")
    lead = f"{len(table)} claims on {where}: " + ", ".join(f"{n} {word}" for word, n in counts.items())
    body = []
    for paper, rows in table.groupby("paper", sort=False):
        title = html_text(plan.experiments[str(paper)].title)
        body.append(f'<tr class="block"><th scope="rowgroup" colspan="{len(HEAD)}">{title}</th></tr>')
        body += [_html_row(row) for row in rows.to_dict("records")]
    note = (
        "Welch’s t on the seeds’ values, one-sided at 5 %. Reproduced: every comparison holds. Contradicted: one is "
        "refuted after Bonferroni’s correction. Inconclusive: neither."
    )
    return page(
        plan.suite,
        "Claims of the papers",
        f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(body)}</tbody></table></div>'
        f'<div class="notes"><p>{note}</p></div>',
        lead,
    )


def _html_row(row: dict) -> str:
    word, _, why = row["verdict"].partition(" (")
    shown = row["verdict"] if why else word
    scope = f'<span class="scope">{html_text(row["scope"])}</span>' if row["scope"] else ""
    kind = word.replace(" ", "-") + (" elsewhere" if row["scope"].startswith(ELSEWHERE) else "")
    texts = [f"<td>{html_text(str(row[name]))}</td>" for name in ("claim", "statement", "source", "own_numbers")]
    evidence = "".join(f"<div>{html_text(part)}</div>" for part in row["evidence"].split(". ") if part)
    return (
        f'<tr>{"".join(texts)}<td><span class="verdict {kind}">{html_text(shown)}</span>{scope}</td>'
        f'<td class="evidence">{evidence}</td><td>{row["n"] or ""}</td></tr>'
    )
