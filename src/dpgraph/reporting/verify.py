"""Check that pages print the numbers of the kept rows: docs/numbers.yaml and the pages of docs/results.

A statement is a text of a file with a place for each number, `{data@budget}`: `{pubmed@4}` is "86.4 ± 0.3", the mean
and half of its 95 % interval, `{pubmed@4:.1f}` the mean alone, `{pubmed}` a number without privacy. The label
`LARGEST_CLASS` has the share of the largest class of the test nodes. A statement without a suite has the counts of
`summed` over the papers' claims, such as `{decided}`.
"""

import math
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd

from dpgraph.config.config import Config, load
from dpgraph.config.frozen import Frozen
from dpgraph.core.errors import invalid
from dpgraph.core.progress import tracked
from dpgraph.planning.plan import WORKFLOW, load_plan
from dpgraph.reporting.chance import METRIC as CHANCE
from dpgraph.reporting.claims.page import summed
from dpgraph.reporting.claims.table import read_claims, write_claims
from dpgraph.reporting.leaderboard.guide import VALUES, guide, guide_data
from dpgraph.reporting.leaderboard.standings import read_values, standings, standings_of
from dpgraph.reporting.render import ROWS, read_rows
from dpgraph.reporting.shipping import CLAIMS, FOLDER, GUIDE, GUIDE_DATA, pages_of_all, readme_before_figures

NUMBERS = Path("docs/numbers.yaml")
LARGEST_CLASS = "largest class"
DIGITS = 1e-6  # of what eight digits are compared to


class PrintedNumbers(Frozen):
    """Numbers of one method of a suite, by its label in the leaderboard; without both, counts of claims."""

    file: str
    suite: str = ""
    label: str = "claims"
    text: str


class Numbers(Frozen):
    """docs/numbers.yaml. `data`: short names of data sets, as the leaderboard calls them."""

    data: dict[str, str]
    statements: tuple[PrintedNumbers, ...] = ()


class PrintedMean(float):
    """A mean, with half of its 95 % interval where no format is given."""

    half: float = math.nan

    def __format__(self, spec: str) -> str:
        return super().__format__(spec) if spec else f"{self:.1f} ± {self.half:.1f}"


class LeaderboardNumbers(dict):
    """The numbers of a method in a suite's leaderboard, by `data@budget`."""

    def __init__(self, statement: PrintedNumbers, out: Path, data: dict[str, str]) -> None:
        super().__init__()
        self.statement, self.data, folder = statement, data, out / statement.suite
        self.table = standings_of(read_values(folder / VALUES))
        if statement.label == LARGEST_CLASS:
            self.table = _largest_class(read_rows(folder / ROWS, statement.suite), self.table)

    def __missing__(self, place: str) -> PrintedMean:
        name, _, budget = place.partition("@")
        if name not in self.data:
            raise invalid(f"{NUMBERS}: {self.statement.text}", name, f"one of {', '.join(self.data)}")
        rows = self.table[(self.table["data"] == self.data[name]) & (self.table["label"] == self.statement.label)]
        rows = rows[rows["budget"] == float(budget or math.inf)]
        if len(rows) != 1:
            what = f"one row of “{self.statement.label}” in suite {self.statement.suite}, not {len(rows)}"
            raise invalid(f"{NUMBERS}: {self.statement.text}", place, what)
        shown = PrintedMean(rows["mean"].iloc[0])
        shown.half = float(rows["high"].iloc[0] - rows["low"].iloc[0]) / 2
        return shown


def unlike_statements(root: Path = Path()) -> Iterator[str]:
    """Yield a line for each text of `NUMBERS` that its file does not have."""
    numbers, out = load(Numbers, root / NUMBERS), root / FOLDER
    counted = summed(pd.read_csv(out / CLAIMS.with_suffix(".csv")))
    for statement in numbers.statements:
        known = LeaderboardNumbers(statement, out, numbers.data) if statement.suite else counted
        expected = statement.text.format_map(known)
        if _plain(expected) not in _plain((root / statement.file).read_text(encoding="utf-8")):
            yield f"{statement.file}: expected “{expected}” (suite {statement.suite or 'all'}, {statement.label})"


def _largest_class(rows: pd.DataFrame, table: pd.DataFrame) -> pd.DataFrame:
    """Return one row per data set of a leaderboard: the mean share of the largest class over splits, in percent."""
    task = ["dataset", "setting", "split"]
    splits = rows[rows["metric"] == CHANCE].drop_duplicates([*task, "seed"])
    shares = (100 * splits.groupby(task)["value"].mean()).rename("mean").reset_index()
    named = table[[*task, "data"]].drop_duplicates().merge(shares, on=task)
    return named.assign(label=LARGEST_CLASS, budget=math.inf, low=math.nan, high=math.nan)


def unlike_pages(root: Path = Path(), claims: bool = True) -> Iterator[str]:
    """Yield a line for each page of docs/results, and for the guide, that is not what the rows give."""
    folder = root / FOLDER
    kept_rows = sorted(folder.glob(f"*/{ROWS}"))
    for path in tracked(kept_rows, "pages", len(kept_rows), "suite"):
        suite = path.parent.name
        plan, rows = load_plan(Config(suite=suite), root / WORKFLOW), read_rows(path, suite)
        if not _same(standings_of(read_values(path.with_name(VALUES))), standings(plan, rows)):
            yield f"{path.with_name(VALUES)}: expected the leaderboard of {ROWS}: run `dpgraph ship --suite {suite}`"
        readme, kept = path.with_name("README.md"), read_claims(path.with_name("claims.csv"))
        if not readme.read_text(encoding="utf-8").startswith(readme_before_figures(plan, rows, kept)):
            yield f"{readme}: expected what {ROWS} gives: run `dpgraph ship --suite {suite} --rows {path}`"
        if claims:
            with TemporaryDirectory() as made:
                write_claims(plan, rows, Path(made) / "claims.csv", Path(made) / "claims.html")
                if not _same(*(read_claims(one / "claims.csv")[VERDICT] for one in (path.parent, Path(made)))):
                    yield f"{path.with_name('claims.csv')}: expected the verdicts of {ROWS}"
    for path, (_, text) in pages_of_all(folder, root / WORKFLOW).items() if claims else ():
        if text != path.read_text(encoding="utf-8"):
            yield f"{path}: expected what rows and claims of the suites give: run `dpgraph ship` for one of them"
    for name, made in ((GUIDE, guide(folder, root / WORKFLOW)), (GUIDE_DATA, guide_data(folder))):
        if made != (folder.parent / name).read_text(encoding="utf-8"):
            yield f"{folder.parent / name}: expected what docs/results gives: run `dpgraph ship` for one of its suites"


def without_rows(root: Path = Path()) -> list[str]:
    """Return the suites of docs/results whose rows are not kept, so that no number can be recomputed."""
    return sorted(path.parent.name for path in (root / FOLDER).glob(f"*/{VALUES}") if not path.with_name(ROWS).exists())


VERDICT = ["claim", "verdict", "size", "power", "n", "evidence"]


def _same(kept: pd.DataFrame, made: pd.DataFrame) -> bool:
    try:
        pd.testing.assert_frame_equal(kept, made, check_dtype=False, rtol=DIGITS)
    except AssertionError:
        return False
    return True


def _plain(text: str) -> str:
    """Return the text with single spaces."""
    return " ".join(text.split())
