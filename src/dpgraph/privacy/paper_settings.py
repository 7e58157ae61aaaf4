"""Table of docs/privacy.md: the settings of Daigavane et al., with the published epsilon and what can be proved.

    python -m dpgraph.privacy.paper_settings

prints it anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dpgraph.experiments.published import match
from dpgraph.privacy.calibration import epsilon_of, solve
from dpgraph.privacy.mechanisms import FixedBatchTrees, PoissonTrees

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
    "experiment", "data set", "model", "N", "m", "K", "r", "λ", "claim", "T", "published ε", "rigorous ε",
    "R", "rigorous ε, ours",
)  # fmt: skip


@dataclass(frozen=True)
class Setting:
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
            delta=1 / (10 * num_roots),
            noise_multiplier=self.noise_multiplier,
        )
        steps = solve(open_steps, self.claim, "published", "steps").steps
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


def settings() -> Iterator[Setting]:
    """The private rows of the paper's Tables 9 to 12, as transcribed; equal rows once."""
    seen = set()
    for row in match("hyperparameters", paper=PAPER):
        if not row["model"].startswith("DP-"):
            continue
        mlp = row["model"] == "DP-MLP"
        setting = Setting(
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


def paper_settings_table() -> str:
    """Markdown; one line per setting."""
    lines = ["| " + " | ".join(HEADER) + " |", "|" + "---|" * len(HEADER)]
    lines += ["| " + " | ".join(setting.cells()) + " |" for setting in settings()]
    return "\n".join(lines)


if __name__ == "__main__":
    print(paper_settings_table())
