"""The tables in docs/privacy/trees.md and residual.md are those that the code computes: the settings of Daigavane et
al., with the claimed epsilon and what can be proved, and the noise that each mechanism with a proof needs.

    python tests/privacy/test_paper_settings.py

prints them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpgraph.config.published import match
from dpgraph.families.trees.mechanism import FixedSizeStableTrees, PoissonTrees, ResidualTrees
from dpgraph.families.trees.published import FixedBatchTrees
from dpgraph.privacy.accountants.evaluate import solve_for
from dpgraph.privacy.calibration import epsilon_of, solve
from dpgraph.privacy.public_numbers import usual_delta, whole_batch

DOCUMENT = Path(__file__).parents[2] / "docs" / "privacy" / "trees.md"
NOISE_DOCUMENT = DOCUMENT.with_name("residual.md")
PAPER = "daigavane2022-node-level-dp-gnn"
CLAIMS = {"table1": 12.0, "table2": 15.0, "table3": 12.0, "table4": 15.0}  # epsilon in the tables' captions
# Training nodes of the official splits; clustered: 67 % of the nodes, as in the paper's Table 7.
NUM_TRAIN = {
    "ogbn-arxiv": 90941,
    "ogbn-arxiv-disjoint": 90941,
    "ogbn-arxiv-clustered": 113460,
    "ogbn-products": 196615,
    "ogbn-mag": 629571,
    "reddit": 153932,
    "reddit-disjoint": 153932,
}
HEADER = (
    "experiment", "data set", "model", "N", "m", "K", "r", "λ", "claim", "T", "claimed ε", "proved ε",
    "R", "proved ε, ours",
)  # fmt: skip
NOISE_HEADER = (
    "r", "K = D", "R", "ε", "DP-MLP", "residual 0.05", "residual 0.1", "one batch 0.1", "DP-GNN", "fixed size",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class NoiseRow:
    """Noise std / clip norm (of the self terms) on ogbn-arxiv, q = 0.1, T = 100, the usual delta."""

    hops: int
    max_degree: int
    epsilon: float

    def cells(self) -> tuple[str, ...]:
        num_roots = NUM_TRAIN["ogbn-arxiv"]
        steps, rate, delta = 100, 0.1, usual_delta(num_roots)
        run: dict[str, Any] = {"num_roots": num_roots, "steps": steps, "delta": delta, "noise_multiplier": None}
        trees: dict[str, Any] = {"hops": self.hops, "max_degree": self.max_degree, "list_cap": self.max_degree}
        gnn = PoissonTrees(**run, **trees, sampling_rate=rate)

        def residual(clip: float) -> ResidualTrees:
            return ResidualTrees(**run, **trees, sampling_rate=rate, neighbour_rate=rate, neighbour_clip=clip)

        mechanisms = (
            PoissonTrees(**run, hops=0, sampling_rate=rate),
            residual(0.05),
            residual(0.1),
            gnn,
            FixedSizeStableTrees(**run, **trees, batch_size=whole_batch(rate=rate, num_roots=num_roots)),
        )
        noise = [f"{solve(one, 'rigorous', epsilon=self.epsilon).noise_std_over_clip:.4g}" for one in mechanisms]
        one_batch = {"affected_roots": gnn.affected_roots, "q": rate, "neighbour_to_self_clip": 0.1, "steps": steps}
        solved = solve_for("residual_one_batch", "rigorous", one_batch, "noise", delta=delta, epsilon=self.epsilon)
        noise.insert(3, f"{solved['sigma_over_self_clip']:.4g}")
        return (f"{self.hops}", f"{self.max_degree}", f"{gnn.affected_roots}", f"{self.epsilon:g}", *noise)


NOISE_ROWS = tuple(
    NoiseRow(hops=hops, max_degree=degree, epsilon=epsilon)
    for hops, degree in ((1, 7), (2, 3))
    for epsilon in (1.0, 4.0, 8.0)
)


@dataclass(frozen=True, kw_only=True)
class PaperSetting:
    experiment: str
    dataset: str
    model: str
    batch_size: int
    max_degree: int | None
    hops: int
    noise_multiplier: float

    @property
    def claim(self) -> float:
        return CLAIMS[self.experiment]

    def as_published(self) -> FixedBatchTrees:
        """With as many steps as the claim allows under the paper's own accountant: the paper does not give T."""
        num_roots = NUM_TRAIN[self.dataset]
        open_steps = FixedBatchTrees(
            num_roots=num_roots,
            batch_size=self.batch_size,
            steps=None,
            hops=self.hops,
            max_degree=self.max_degree,
            groups=3 if self.hops else 2,
            delta=usual_delta(num_roots),
            noise_multiplier=self.noise_multiplier,
        )
        steps = solve(open_steps, "published", "steps", epsilon=self.claim).steps
        return open_steps.with_steps(steps or 0)

    def as_proved(self, published: FixedBatchTrees) -> PoissonTrees:
        """Stable sampler and Poisson batches with the same noise std, steps and expected batch size; D = K."""
        return PoissonTrees(
            num_roots=published.num_roots,
            sampling_rate=published.batch_size / published.num_roots,
            steps=published.steps,
            hops=published.hops,
            max_degree=published.max_degree,
            list_cap=published.max_degree,
            delta=published.delta,
            noise_multiplier=published.noise_std_over_clip,
        )

    def cells(self) -> tuple[str, ...]:
        published = self.as_published()
        proved = self.as_proved(published)
        numbers = (
            f"{published.num_roots}", f"{self.batch_size}", f"{self.max_degree or '–'}", f"{self.hops}",
            f"{self.noise_multiplier:g}", f"{self.claim:g}", f"{published.steps}",
            f"{epsilon_of(published, 'published'):.2f}", published.rigorous().text,
            f"{proved.affected_roots}", f"{epsilon_of(proved, 'rigorous'):.2f}",
        )  # fmt: skip
        return (self.experiment, self.dataset, self.model, *numbers)


def settings() -> Iterator[PaperSetting]:
    """The private rows of the paper's Tables 9 to 12, as transcribed; equal rows once."""
    seen = set()
    for row in match("hyperparameters", paper=PAPER):
        if not row["model"].startswith("DP-"):
            continue
        mlp = row["model"] == "DP-MLP"
        setting = PaperSetting(
            experiment=row["experiment"],
            dataset=row["dataset"],
            model=row["model"],
            batch_size=int(row["batch_size"]),
            max_degree=None if mlp else int(row["K"]),
            hops=0 if mlp else 2 if "2-layer" in row["model"] else 1,
            noise_multiplier=float(row["noise_multiplier"]),
        )
        key = (setting.dataset, setting.batch_size, setting.max_degree, setting.hops, setting.noise_multiplier)
        if (key, setting.claim) not in seen:
            seen.add((key, setting.claim))
            yield setting


def markdown(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, ("---",) * len(header), *rows))


def table() -> list[tuple[str, ...]]:
    lines = [
        line for line in DOCUMENT.read_text(encoding="utf-8").splitlines() if line.startswith(("| table", "| exp"))
    ]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in lines]


def test_the_document_shows_every_setting() -> None:
    header, *rows = table()
    assert header == HEADER
    assert [row[:3] for row in rows] == [(s.experiment, s.dataset, s.model) for s in settings()]


def test_the_document_shows_what_the_code_computes() -> None:
    """Every fourth setting: all kinds of rows, a fourth of the time."""
    for row, setting in list(zip(table()[1:], settings()))[::4]:
        assert row == setting.cells()


def test_no_setting_is_covered_by_a_proof_for_the_papers_own_mechanism() -> None:
    assert {row[HEADER.index("proved ε")] for row in table()[1:]} == {"none"}


def noise_table() -> list[tuple[str, ...]]:
    lines = NOISE_DOCUMENT.read_text(encoding="utf-8").splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("| r | K = D |"))
    kept = [lines[start], *lines[start + 2 : start + 2 + len(NOISE_ROWS)]]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in kept]


def test_the_document_shows_the_noise_of_every_mechanism() -> None:
    """One row is computed again."""
    header, *rows = noise_table()
    assert header == NOISE_HEADER
    assert [row[0:4:3] for row in rows] == [(f"{row.hops}", f"{row.epsilon:g}") for row in NOISE_ROWS]
    assert rows[2] == NOISE_ROWS[2].cells()


def test_residual_clipping_lies_between_dp_mlp_and_dp_gnn() -> None:
    for row in noise_table()[1:]:
        mlp, small, large, one_batch, gnn, fixed = (float(value) for value in row[4:])
        assert mlp < small < large < one_batch < gnn < fixed


if __name__ == "__main__":
    print(markdown(HEADER, (setting.cells() for setting in settings())))
    print(markdown(NOISE_HEADER, (row.cells() for row in NOISE_ROWS)))
