"""DP-APPR and its baselines (Zhang 2021, chapter 5)."""

from __future__ import annotations

from typing import Any

from dpgraph.engine.methods.cost import network_seconds
from dpgraph.engine.methods.spec import OWN_RECORD, AttackCase, MethodSpec, ReadBy, ScoreReads, Variant
from dpgraph.families.pagerank.look import look
from dpgraph.families.pagerank.mechanism import FixedBatchPagerank, PoissonPagerank
from dpgraph.families.pagerank.settings import ApprCell, DpApprCell
from dpgraph.families.pagerank.variants import poisson_pagerank, published_pagerank
from dpgraph.privacy.procedure import Batches, Clipped
from dpgraph.privacy.relation import PredictionInput, Relation
from dpgraph.problems.base import Size

WITHOUT_DATA, FROM_DATA = ("identity", "random"), ("gaussian", "exponential", "exponential-values")


SECONDS_PER_ROW = 7e-4  # of PageRank, on one CPU core: measured on PubMed


def seconds(cell: Any, size: Size) -> float:
    """Training and the rows that it reads."""
    rows = cell.pagerank.num_rows or cell.pagerank.node_share * size.train_nodes
    return network_seconds(cell, size) + SECONDS_PER_ROW * rows


def inference(cell: Any) -> PredictionInput:
    return PredictionInput.RAW_GRAPH if cell.pagerank.inference_steps > 0 else PredictionInput.OWN_RECORD


def score(cell: Any) -> ScoreReads:
    """Return the raw graph where inference walks it; training reads training nodes and the edges among them alone."""
    walks = inference(cell) is PredictionInput.RAW_GRAPH
    return ScoreReads(OWN_RECORD | {ReadBy.RAW_GRAPH}) if walks else ScoreReads(OWN_RECORD)


def root_exchanges(cell: Any) -> int:
    """Two: the root's record becomes null, then null becomes the other's record; the release is accounted for any
    change of all rows, once. One where both nodes are kept anyway and a root reads others, too: then one row and one
    loss term change, by up to 2 C, and a step is accounted for one such root besides the node's own (Mixture pairs of R
    >= 2; Theorem 1 at R = M).
    """
    return 2 if cell.pagerank.release == "identity" or cell.pagerank.node_share < 1 else 1


def contract(release: str, variant: str | None, **more: str) -> dict[str, Any]:
    """Return a cell that the tests put through the contract of methods."""
    pagerank: dict[str, Any] = {"release": release, "num_rows": 20, **more}
    if variant == "published":
        pagerank["node_share"] = 0.8
    if release in FROM_DATA:
        pagerank |= {"clip": 0.1, "epsilon_share": 0.5}
    return {
        "model": {"architecture": "mlp", "hops": 0, "width": 8, "heads": 3},
        "training": {"batch_size": 8} if variant == "published" else {"sampling_rate": 0.3},
        **({} if variant is None else {"privacy": {"variant": variant, "epsilon": 6.0}}),
        "pagerank": pagerank,
    }


def attack(release: str, variant: str) -> AttackCase:
    """Whole runs are attacked where rows cost nothing and steps have a dominating pair."""
    rigorous = variant == "rigorous"
    return AttackCase(
        variant=variant,
        reads="rows",
        release=release,
        batches=Batches.POISSON if rigorous else Batches.FIXED_SIZE,
        clipping=Clipped.ROOT,
        noise_unit="m C" if release == "exact" else "C",
        relation=Relation.NODE_NULL,
        run_attack="rows" if rigorous and release in WITHOUT_DATA else None,
    )


SPECS = (
    MethodSpec(
        "appr",
        "A two-layer perceptron over exact rows of PageRank, without privacy: Vanilla of the thesis.",
        "dpgraph.families.pagerank.train:Appr",
        ApprCell,
        {f"{release}-none": contract(release, None) for release in ("exact", *WITHOUT_DATA)},
        inference=inference,
        look=look,
        root_exchanges=root_exchanges,
        seconds=seconds,
    ),
    MethodSpec(
        "dp-appr",
        "Rows of PageRank released privately, then DP-SGD or DP-Adam on them (Algorithms 6 to 9).",
        "dpgraph.families.pagerank.train:DpAppr",
        DpApprCell,
        {
            **{f"{release}-rigorous": contract(release, "rigorous") for release in (*WITHOUT_DATA, *FROM_DATA)},
            **{
                f"{release}-published": contract(release, "published")
                for release in ("exact", *WITHOUT_DATA, *FROM_DATA)
            },
            "gaussian-rigorous-kept": contract("gaussian", "rigorous", losses="kept"),
        },
        {
            "rigorous": Variant(PoissonPagerank, poisson_pagerank, score),
            "published": Variant(FixedBatchPagerank, published_pagerank, score, target="published"),
        },
        (
            *(attack(release, "rigorous") for release in (*WITHOUT_DATA, *FROM_DATA)),
            *(attack(release, "published") for release in ("exact", *WITHOUT_DATA, *FROM_DATA)),
        ),
        inference=inference,
        look=look,
        root_exchanges=root_exchanges,
        seconds=seconds,
    ),
)
