"""From a cell of the workflow to its mechanism."""

from __future__ import annotations

from typing import Any

from dpgraph.errors import invalid
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


def mechanism_for(cell: Cell, num_train: int) -> Mechanism:
    """The cell's mechanism; what the cell leaves open (noise or steps) is None. `num_train` is N, public."""
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
    if cell.pagerank is not None:
        return _pagerank_mechanism(cell, privacy, cell.pagerank, num_train, steps)
    if cell.method in SPLITTING:
        return _split_mechanism(cell, privacy, num_train, steps)
    if cell.method in ("dp-mlp", LOTS) and cell.model.hops != 0:
        raise invalid("hops", cell.model.hops, f"0 for {cell.method}")
    _check_residual(cell, privacy)
    hops = cell.model.hops
    rate = training.sampling_rate
    batch_size = training.batch_size or max(1, round((rate or 0) * num_train))
    poisson_rate = batch_size / num_train if rate is None else rate
    common: dict[str, Any] = {
        "num_roots": num_train,
        "steps": steps,
        "delta": privacy.delta if privacy.delta is not None else 1 / (10 * num_train),
        "noise_multiplier": privacy.noise_multiplier,
    }
    if cell.method == LOTS:
        if privacy.variant == "rigorous":
            return PoissonLots(**common, sampling_rate=poisson_rate)
        if privacy.variant == "published":
            return ShuffledLots(**common, batch_size=batch_size)
        if privacy.variant == "released":
            return UnclippedLots(**common, batch_size=batch_size)
        raise invalid("variant", privacy.variant, f"rigorous, published or released for {LOTS}")
    common |= {"hops": hops, "max_degree": privacy.max_degree if hops else None}
    if privacy.variant == "published":  # groups: encoder, (aggregation,) decoder
        return FixedBatchTrees(**common, batch_size=batch_size, groups=3 if hops else 2)
    cap = privacy.list_cap if privacy.list_cap is not None else privacy.max_degree
    common["list_cap"] = cap if hops else None
    if privacy.variant == "rigorous-fixed-size":
        return FixedSizeStableTrees(**common, batch_size=batch_size)
    if cell.method == RESIDUAL:
        second = privacy.neighbour_sampling_rate
        return ResidualTrees(
            **common,
            sampling_rate=poisson_rate,
            neighbour_rate=poisson_rate if second is None else second,
            neighbour_clip=privacy.neighbour_clip_ratio,
            choice_epsilon=privacy.choice_epsilon or 0.0,
        )
    return PoissonTrees(**common, sampling_rate=poisson_rate)


def _split_mechanism(cell: Cell, privacy: Privacy, num_train: int, steps: int | None) -> Mechanism:
    pure_noise = cell.method == PURE_NOISE
    allowed = ("published",) if pure_noise else ("rigorous", "cut", "published", "released")
    if privacy.variant not in allowed:
        raise invalid("variant", privacy.variant, f"{' or '.join(allowed)} for {cell.method}")
    used = nodes_with_loss(num_train, cell.training.train_share)
    kinds = {
        "rigorous": PoissonSubgraphs,
        "cut": CutSubgraphs,
        "published": MaskedSubgraphs,
        "released": UnclippedSubgraphs,
    }
    return (PureNoise if pure_noise else kinds[privacy.variant])(
        num_roots=used,
        steps=steps,
        delta=privacy.delta if privacy.delta is not None else 1 / (10 * used),
        noise_multiplier=privacy.noise_multiplier,
        num_splits=cell.training.num_splits or 0,
    )


def kept_and_roots(pagerank: Pagerank, num_train: int) -> tuple[int, int]:
    """N, training nodes that are kept (a share q' of them), and M, the roots among them; both public."""
    kept = max(1, round(pagerank.node_share * num_train))
    rows = kept if pagerank.num_rows is None else pagerank.num_rows
    if rows > kept:
        raise invalid("num_rows", rows, f"at most the number of training nodes that are kept, {kept}")
    return kept, rows


def _pagerank_mechanism(
    cell: Cell, privacy: Privacy, pagerank: Pagerank, num_train: int, steps: int | None
) -> Mechanism:
    published = privacy.variant == "published"
    if privacy.variant not in ("rigorous", "published"):
        raise invalid("variant", privacy.variant, f"rigorous or published for {cell.method}")
    kept, rows = kept_and_roots(pagerank, num_train)
    delta = privacy.delta if privacy.delta is not None else 1 / (10 * num_train)
    noise: float | None = None
    values: float | None = None
    if cell.release_epsilon is not None:
        noise, values = release_noise(
            pagerank.release, cell.release_epsilon, rows, pagerank.top_k, delta / 2, published
        )
    common: dict[str, Any] = {
        "num_roots": rows,
        "steps": steps,
        "delta": delta,
        "noise_multiplier": privacy.noise_multiplier,
        "release": pagerank.release,
        "top_k": pagerank.top_k,
        "release_noise": noise,
        "values_epsilon": values,
    }
    training = cell.training
    if published:
        size = training.batch_size or max(1, round((training.sampling_rate or 0) * rows))
        return FixedBatchPagerank(
            **common,
            batch_size=size,
            sampled_nodes=kept,
            node_share=pagerank.node_share,
            column_norm=pagerank.column_norm,
        )
    rate = training.sampling_rate if training.batch_size is None else training.batch_size / rows
    if rate is None or rate > 1:
        raise invalid("batch_size", training.batch_size, f"at most the number of roots, {rows}")
    return PoissonPagerank(**common, sampling_rate=rate, column_cap=pagerank.column_cap)


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
    for variant, having in (("cut", (SUBGRAPH,)), ("released", (SUBGRAPH, LOTS))):
        if cell.privacy is not None and cell.privacy.variant == variant and cell.method not in having:
            raise invalid("variant", variant, f"another one: only {', '.join(having)} has it")


def _check_residual(cell: Cell, privacy: Privacy) -> None:
    if cell.method == RESIDUAL:
        if privacy.variant != "rigorous":
            raise invalid("variant", privacy.variant, f"rigorous for {RESIDUAL}")
        if cell.model.hops < 1:
            raise invalid("hops", cell.model.hops, f"an integer >= 1 for {RESIDUAL}")
        choice, epsilon = privacy.choice_epsilon, privacy.epsilon
        if choice is not None and epsilon is not None and choice >= epsilon:
            raise invalid("choice_epsilon", choice, f"a number < epsilon = {epsilon:g}, of which it is a part")
        return
    defaults = Privacy.model_fields
    for name in ("neighbour_clip_ratio", "neighbour_sampling_rate", "choice_epsilon"):
        value, default = getattr(privacy, name), defaults[name].default
        if value != default:
            raise invalid(name, value, f"{default}: only the method {RESIDUAL} has it")


def calibrate(
    cell: Cell, num_train: int, cache: Cache | None = None, max_steps: int = MAX_STEPS, show: bool = False
) -> Calibration:
    """Closes what the cell leaves open, under the accountant of its variant; see `calibrated` for cache and show."""
    mechanism = mechanism_for(cell, num_train)
    if cell.privacy is None:
        return calibrated(mechanism, None, "rigorous", None)
    unknown: Unknown | None = None
    if cell.privacy.epsilon is not None:
        unknown = "steps" if cell.training.steps == "max" else "noise"
    mode: Mode = "published" if cell.privacy.variant in ("published", "released") else "rigorous"
    return calibrated(mechanism, cell.privacy.epsilon, mode, unknown, max_steps, cache, show)
