"""From a cell of the workflow to its mechanism. Nothing falls through: an unknown method or variant is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dpgraph.errors import UserError, invalid
from dpgraph.experiments.cell import Cell, Pagerank, Privacy
from dpgraph.privacy.cache import Cache
from dpgraph.privacy.calibration import Calibration, calibrated
from dpgraph.privacy.catalogue import Unknown
from dpgraph.privacy.guarantee import Mode
from dpgraph.privacy.mechanisms import (
    CutSubgraphs,
    FixedBatchPagerank,
    FixedBatchTrees,
    FixedSizeStableTrees,
    MaskedSubgraphs,
    Mechanism,
    NonPrivate,
    NoRecord,
    PoissonLots,
    PoissonPagerank,
    PoissonSubgraphs,
    PoissonTrees,
    PureNoise,
    ResidualTrees,
    ShuffledLots,
    UnclippedLots,
    UnclippedSubgraphs,
)
from dpgraph.privacy.pagerank import release_noise
from dpgraph.privacy.relation import Inference
from dpgraph.privacy.solving import MAX_STEPS
from dpgraph.privacy.subgraph_mechanisms import nodes_with_loss

RESIDUAL, LOTS = "dp-residual", "dp-lots"
PAGERANK = ("appr", "dp-appr")  # methods over rows of PageRank
PRIVATE_PREFIX = "dp-"  # of the names of methods with a budget
SUBGRAPH, PURE_NOISE, RANDOM = "dp-subgraph", "dp-pure-noise", "random"
SPLITTING = ("kipf-gcn", SUBGRAPH, PURE_NOISE)  # methods over parts of the training nodes
# settings that only some methods read: (methods, value that all others have)
READ_BY: dict[str, tuple[tuple[str, ...], Any]] = {
    "num_splits": (SPLITTING, None),
    "train_share": ((*SPLITTING, "majority"), 1.0),
    "patience": (("kipf-gcn",), None),
    "weight_decay": (("kipf-gcn",), 0.0),
    "dropout": (("kipf-gcn", SUBGRAPH, "mlp", "dp-mlp", LOTS), 0.0),
}
BASELINES = ("majority", RANDOM)  # they take any way to give a batch size, as they have no batches


@dataclass(frozen=True)
class Asked:
    """What a mechanism is built from: a cell with a budget, and public counts of its graph."""

    cell: Cell
    privacy: Privacy
    num_train: int
    num_protected: int | None  # None: no more than the roots
    steps: int | None

    def common(self, num_roots: int) -> dict[str, Any]:
        """Fields that every noisy mechanism has; delta as `default_delta` for these roots."""
        delta = self.privacy.delta
        return {
            "num_roots": num_roots,
            "num_protected": self.num_protected,
            "steps": self.steps,
            "delta": default_delta(num_roots, self.num_protected) if delta is None else delta,
            "noise_multiplier": self.privacy.noise_multiplier,
            "inference": inference_of(self.cell),
        }

    @property
    def batch_size(self) -> int:
        training = self.cell.training
        return training.batch_size or max(1, round((training.sampling_rate or 0) * self.num_train))

    @property
    def rate(self) -> float:
        rate = self.cell.training.sampling_rate
        return self.batch_size / self.num_train if rate is None else rate

    @property
    def stable_lists(self) -> dict[str, Any]:
        """Fields of trees over the stable sampler's lists; no K and D without hops."""
        hops, privacy = self.cell.model.hops, self.privacy
        cap = privacy.list_cap if privacy.list_cap is not None else privacy.max_degree
        return {
            "hops": hops,
            "max_degree": privacy.max_degree if hops else None,
            "list_cap": cap if hops else None,
        }


def default_delta(num_roots: int, num_protected: int | None) -> float:
    """1 / (10 N), N the roots, as in the papers; of everybody protected where the first would mean nothing."""
    usual = 1 / (10 * num_roots)
    return usual if num_protected is None or usual < 1 / num_protected else 1 / (10 * num_protected)


def inference_of(cell: Cell) -> Inference:
    """What the prediction of a node reads at test time."""
    if cell.method == RANDOM:
        return Inference.NOTHING
    reads_edges = cell.pagerank.inference_steps > 0 if cell.pagerank is not None else cell.model.hops > 0
    return Inference.RAW_GRAPH if reads_edges else Inference.OWN_RECORD


def _poisson_trees(asked: Asked) -> Mechanism:
    return PoissonTrees(**asked.common(asked.num_train), **asked.stable_lists, sampling_rate=asked.rate)


def _fixed_size_trees(asked: Asked) -> Mechanism:
    return FixedSizeStableTrees(**asked.common(asked.num_train), **asked.stable_lists, batch_size=asked.batch_size)


def _published_trees(asked: Asked) -> Mechanism:
    hops = asked.cell.model.hops
    return FixedBatchTrees(
        **asked.common(asked.num_train),
        hops=hops,
        max_degree=asked.privacy.max_degree if hops else None,
        batch_size=asked.batch_size,
        groups=3 if hops else 2,  # encoder, (aggregation,) decoder
    )


def _residual_trees(asked: Asked) -> Mechanism:
    privacy, second = asked.privacy, asked.privacy.neighbour_sampling_rate
    if asked.cell.model.hops < 1:
        raise invalid("hops", asked.cell.model.hops, f"an integer >= 1 for {RESIDUAL}")
    choice, epsilon = privacy.choice_epsilon, privacy.epsilon
    if choice is not None and epsilon is not None and choice >= epsilon:
        raise invalid("choice_epsilon", choice, f"a number < epsilon = {epsilon:g}, of which it is a part")
    return ResidualTrees(
        **asked.common(asked.num_train),
        **asked.stable_lists,
        sampling_rate=asked.rate,
        neighbour_rate=asked.rate if second is None else second,
        neighbour_clip=privacy.neighbour_clip_ratio,
        choice_epsilon=choice or 0.0,
    )


def _poisson_lots(asked: Asked) -> Mechanism:
    return PoissonLots(**asked.common(asked.num_train), sampling_rate=asked.rate)


def _fixed_lots(kind: type[ShuffledLots] | type[UnclippedLots]) -> Builder:
    return lambda asked: kind(**asked.common(asked.num_train), batch_size=asked.batch_size)


def _splits(
    kind: type[PoissonSubgraphs | CutSubgraphs | MaskedSubgraphs | UnclippedSubgraphs | PureNoise],
) -> Builder:
    def build(asked: Asked) -> Mechanism:
        training = asked.cell.training
        used = nodes_with_loss(asked.num_train, training.train_share)
        return kind(**asked.common(used), num_splits=training.num_splits or 0)

    return build


def kept_and_roots(pagerank: Pagerank, num_train: int) -> tuple[int, int]:
    """N, training nodes that are kept (a share q' of them), and M, the roots among them; both public."""
    kept = max(1, round(pagerank.node_share * num_train))
    rows = kept if pagerank.num_rows is None else pagerank.num_rows
    if rows > kept:
        raise invalid("num_rows", rows, f"at most the number of training nodes that are kept, {kept}")
    return kept, rows


def _rows(asked: Asked, pagerank: Pagerank, published: bool) -> dict[str, Any]:
    """Fields that both mechanisms over rows of PageRank have."""
    _, rows = kept_and_roots(pagerank, asked.num_train)
    common = asked.common(rows)
    if asked.privacy.delta is None:
        common["delta"] = default_delta(asked.num_train, asked.num_protected)
    noise: float | None = None
    values: float | None = None
    if asked.cell.release_epsilon is not None:
        noise, values = release_noise(
            pagerank.release, asked.cell.release_epsilon, rows, pagerank.top_k, common["delta"] / 2, published
        )
    shared = {"release": pagerank.release, "top_k": pagerank.top_k, "release_noise": noise, "values_epsilon": values}
    return common | shared


def _pagerank_of(asked: Asked) -> Pagerank:
    if asked.cell.pagerank is None:
        raise invalid("pagerank", "null", f"rows of PageRank for the method {asked.cell.method}")
    return asked.cell.pagerank


def _published_pagerank(asked: Asked) -> Mechanism:
    pagerank, training = _pagerank_of(asked), asked.cell.training
    kept, rows = kept_and_roots(pagerank, asked.num_train)
    return FixedBatchPagerank(
        **_rows(asked, pagerank, published=True),
        batch_size=training.batch_size or max(1, round((training.sampling_rate or 0) * rows)),
        sampled_nodes=kept,
        node_share=pagerank.node_share,
        column_norm=pagerank.column_norm,
    )


def _poisson_pagerank(asked: Asked) -> Mechanism:
    pagerank, training = _pagerank_of(asked), asked.cell.training
    _, rows = kept_and_roots(pagerank, asked.num_train)
    rate = training.sampling_rate if training.batch_size is None else training.batch_size / rows
    if rate is None or rate > 1:
        raise invalid("batch_size", training.batch_size, f"at most the number of roots, {rows}")
    return PoissonPagerank(
        **_rows(asked, pagerank, published=False), sampling_rate=rate, column_cap=pagerank.column_cap
    )


Builder = Callable[[Asked], Mechanism]
TREES: dict[str, Builder] = {
    "rigorous": _poisson_trees,
    "rigorous-fixed-size": _fixed_size_trees,
    "published": _published_trees,
}
# every private method with the mechanism of each of its variants
MECHANISMS: dict[str, dict[str, Builder]] = {
    "dp-gnn": TREES,
    "dp-mlp": TREES,
    RESIDUAL: {"rigorous": _residual_trees},
    LOTS: {
        "rigorous": _poisson_lots,
        "published": _fixed_lots(ShuffledLots),
        "released": _fixed_lots(UnclippedLots),
    },
    SUBGRAPH: {
        "rigorous": _splits(PoissonSubgraphs),
        "cut": _splits(CutSubgraphs),
        "published": _splits(MaskedSubgraphs),
        "released": _splits(UnclippedSubgraphs),
    },
    PURE_NOISE: {"published": _splits(PureNoise)},
    "dp-appr": {"rigorous": _poisson_pagerank, "published": _published_pagerank},
}


def mechanism_for(cell: Cell, num_train: int, num_protected: int | None = None) -> Mechanism:
    """The cell's mechanism; what the cell leaves open (noise or steps) is None.

    `num_train` is N, the training nodes, `num_protected` everybody whose record the guarantee is for (None: no more
    than those); both are public. Raises UserError for a method or a variant that names no mechanism.
    """
    training, privacy = cell.training, cell.privacy
    if num_train < 1:
        raise invalid("num_train", num_train, "an integer >= 1")
    if training.batch_size is not None and training.batch_size > num_train:
        raise invalid("batch_size", training.batch_size, f"at most the number of training nodes, {num_train}")
    _check_settings(cell)
    steps = None if training.steps == "max" else training.steps
    if privacy is not None and not cell.method.startswith(PRIVATE_PREFIX):
        raise invalid("privacy", "given", f"none for the method {cell.method}")
    if privacy is None:
        if cell.method.startswith(PRIVATE_PREFIX):
            raise invalid("privacy", None, f"a budget for the method {cell.method}")
        if steps is None:
            raise invalid("steps", "max", "an integer without privacy")
        return NoRecord(steps=steps) if cell.method == RANDOM else NonPrivate(steps=steps)
    if cell.method not in MECHANISMS:
        known = ", ".join(MECHANISMS)
        raise UserError(
            f"method={cell.method}: no mechanism is named for it, so nothing accounts for it: known {known}"
        )
    if cell.method in ("dp-mlp", LOTS) and cell.model.hops != 0:
        raise invalid("hops", cell.model.hops, f"0 for {cell.method}")
    _check_residual(cell, privacy)
    variants = MECHANISMS[cell.method]
    if privacy.variant not in variants:
        raise invalid("variant", privacy.variant, f"{' or '.join(variants)} for {cell.method}")
    return variants[privacy.variant](Asked(cell, privacy, num_train, num_protected, steps))


def _check_settings(cell: Cell) -> None:
    """Settings that the method would ignore are refused, and those that it needs demanded."""
    for name, (readers, default) in READ_BY.items():
        value = getattr(cell.model if name == "dropout" else cell.training, name)
        if value != default and cell.method not in (*readers, *(BASELINES if name == "num_splits" else ())):
            raise invalid(name, value, f"{default}: only {', '.join(readers)} read it")
    if (cell.method in PAGERANK) != (cell.pagerank is not None):
        raise invalid("pagerank", "null" if cell.pagerank is None else "given", "it exactly for appr and dp-appr")
    if cell.pagerank is not None:
        if cell.model.architecture != "mlp":
            raise invalid("architecture", cell.model.architecture, f"mlp for {cell.method}")
        if cell.privacy is None and cell.pagerank.released:
            raise invalid("release", cell.pagerank.release, "exact, identity or random without privacy")
    if cell.method in SPLITTING and cell.training.num_splits is None:
        raise invalid("num_splits", None, f"an integer >= 1 for {cell.method}")
    if (cell.method in SPLITTING) != (cell.model.architecture == "kipf") and cell.method not in BASELINES:
        expected = "kipf" if cell.method in SPLITTING else "one other than kipf"
        raise invalid("architecture", cell.model.architecture, f"{expected} for {cell.method}")


def _check_residual(cell: Cell, privacy: Privacy) -> None:
    """Settings of residual clipping are refused for all others."""
    if cell.method == RESIDUAL:
        return
    defaults = Privacy.model_fields
    for name in ("neighbour_clip_ratio", "neighbour_sampling_rate", "choice_epsilon"):
        value, default = getattr(privacy, name), defaults[name].default
        if value != default:
            raise invalid(name, value, f"{default}: only the method {RESIDUAL} has it")


def calibrate(
    cell: Cell,
    num_train: int,
    cache: Cache | None = None,
    max_steps: int = MAX_STEPS,
    show: bool = False,
    num_protected: int | None = None,
) -> Calibration:
    """Closes what the cell leaves open, under the accountant of its variant; see `calibrated` for cache and show."""
    mechanism = mechanism_for(cell, num_train, num_protected)
    return calibrated(mechanism, *target_of(cell), max_steps, cache, show)


def target_of(cell: Cell) -> tuple[float | None, Mode, Unknown | None]:
    """Epsilon that is asked for, the mode whose epsilon it is, and what is open."""
    if cell.privacy is None:
        return None, "rigorous", None
    unknown: Unknown | None = None
    if cell.privacy.epsilon is not None:
        unknown = "steps" if cell.training.steps == "max" else "noise"
    return (
        cell.privacy.epsilon,
        "published" if cell.privacy.variant in ("published", "released") else "rigorous",
        unknown,
    )
