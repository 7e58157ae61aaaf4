"""Bugs that audits of all methods must find in each method and variant to which they apply."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.mutants import broken
from tests.mutants.bugs.shorthand import edit, swap
from tests.mutants.planting import Audit, Bug, Edit, Swap

BASE = "dpgraph.engine.preparation.base:"
TREES, LOTS, PARTS = (f"dpgraph.families.{name}.prepared:" for name in ("trees", "lots", "subgraphs"))
ROWS = "dpgraph.families.pagerank.prepared:"
STEPS, NOISE, KIPF = (f"dpgraph.engine.training.{name}:" for name in ("steps", "noise", "kipf"))
RELEASE, COMPONENTS = "dpgraph.families.pagerank.release:", "dpgraph.families.lots.prepared:"
STREAMS = "dpgraph.config.streams:"
MECHANISMS = "dpgraph.families."
Cases = Callable[[Any], bool]


def facts(cases: Cases) -> Audit:
    """Return the audit of noise, batches and clip norms, of these cases one by one."""
    return Audit("facts", cases=cases)


def reach(cases: Cases) -> Audit:
    """Return the audit of what one record moves, of these cases one by one."""
    return Audit("reach", cases=cases)


def accounted(cases: Cases) -> Audit:
    """Return the audit of what mechanisms state, of these cases one by one."""
    return Audit("accounted", cases=cases)


def self_terms(cases: Cases) -> Audit:
    """Return the audit of what training reads, of these cases one by one."""
    return Audit("self-terms", cases=cases)


def exact(kind: Any) -> bool:
    """Tell whether nothing is lost in the accounting, so that small bugs show in a run."""
    return (kind.ego_trees or kind.parts) and kind.poisson


def one_hop(kind: Any) -> bool:
    """Tell whether trees have one hop, at sensitive settings."""
    return kind.trees and kind.hops == 1 and exact(kind)


def two_terms(kind: Any) -> bool:
    """Tell whether neighbours have a batch and a clip norm of their own."""
    return kind.residual and kind.neighbours


def with_neighbours(kind: Any) -> bool:
    """Tell whether a node's record is read by other roots' losses and a theorem counts how many."""
    return kind.release not in (None, "identity") and kind.variant == "rigorous"


def clips_twice(kind: Any) -> bool:
    """Tell whether clipping at C is accounted for."""
    return bool(kind.clipped)


CLIP_DOUBLED = (
    Edit(TREES + "PreparedTrees._term", "PreparedTerm(loss, trees, Draws(sampler, self.batches), clip_norm)",
         "PreparedTerm(loss, trees, Draws(sampler, self.batches), clip_norm and 2 * clip_norm)"),
    Edit(LOTS + "PreparedLots.__init__", "order.privacy.clip_norm", "2 * order.privacy.clip_norm"),
    Edit(PARTS + "PreparedParts.__init__", "order.privacy.clip_norm", "2 * order.privacy.clip_norm"),
    Edit(ROWS + "PreparedRows.closed", "self.clip_norm", "2 * self.clip_norm"),
)  # fmt: skip
LARGER_BATCHES = (
    Edit(TREES + "PreparedTrees._poisson", "rate", "min(1.0, 2 * rate)"),
    Edit(TREES + "PreparedTrees._fixed_size", "size", "min(len(self.data.graph.train_nodes), 2 * size)"),
    Edit(LOTS + "PreparedLots.__init__", "mechanism.batch_size", "2 * mechanism.batch_size"),
    Edit(PARTS + "PreparedParts.__init__", "mechanism.rate", "min(1.0, 2 * mechanism.rate)"),
    Edit("dpgraph.families.subgraphs.steps:equal_parts", "num_splits", "num_splits // 2"),
    Edit(PARTS + "PreparedParts.__init__",
         "steps.parts_by_id(nodes, graph.num_nodes, mechanism.num_splits, order.generator('partition'))",
         "steps.parts_by_id(nodes, graph.num_nodes, mechanism.num_splits // 2, order.generator('partition'))"),
    Edit(ROWS + "PreparedRows.__init__", "PoissonSampler(len(roots), mechanism.sampling_rate)",
         "PoissonSampler(len(roots), min(1.0, 2 * mechanism.sampling_rate))"),
    Edit(ROWS + "PreparedRows.__init__", "FixedSizeSampler(len(roots), mechanism.batch_size)",
         "FixedSizeSampler(len(roots), min(len(roots), 2 * mechanism.batch_size))"),
)  # fmt: skip
WITH_PAIRS = (
    "trees.mechanism:PoissonTrees",
    "trees.mechanism:ResidualTrees",
    "subgraphs.mechanism:PoissonSubgraphs",
    "pagerank.mechanism:PoissonPagerank",
)
WITH_NOISE = (
    "trees.mechanism:PoissonTrees",
    "trees.mechanism:ResidualTrees",
    "trees.mechanism:FixedSizeStableTrees",
    "trees.published:FixedBatchTrees",
    "trees.records:Lots",
    "subgraphs.mechanism:GraphSplits",
    "pagerank.mechanism:PoissonPagerank",
    "pagerank.mechanism:FixedBatchPagerank",
)
FEWER_ROOTS = tuple(
    Swap(f"{MECHANISMS}{name}.affected_roots", broken.one_less)
    for name in ("trees.mechanism:StableTrees", "pagerank.mechanism:PoissonPagerank")
)
HALF_THE_RATE = tuple(Swap(f"{MECHANISMS}{name}.dominating_pair", broken.at_half_the_rate) for name in WITH_PAIRS)
UNCAPPED_COLUMNS = (
    Swap(RELEASE + "cap_columns", lambda _: lambda released, cap, generator: released),
    Swap(ROWS + "Rows.checked", lambda _: lambda self: self),  # which would notice
)


def less_noise(factor: float) -> tuple[Swap, ...]:
    """Return changes of all mechanisms: they give less noise, and say so, so that they agree with what runs."""
    return tuple(Swap(f"{MECHANISMS}{name}.noise_std_over_clip", broken.smaller(factor)) for name in WITH_NOISE)


def noise_over(factor: float) -> tuple[Edit, ...]:
    """Return a change of every prepared step, which its mechanism does not know of."""
    return (Edit(BASE + "Order.noise_over_clip", "return value", f"return value / {factor}"),)


BUGS = (
    Bug("facts: noise over 1.05", noise_over(1.05), facts(lambda kind: True)),
    Bug("facts: clip norm doubled", CLIP_DOUBLED, facts(clips_twice)),
    Bug("facts: batches twice as large", LARGER_BATCHES, facts(lambda kind: not kind.silent)),
    edit("facts: one batch for both terms", STEPS + "PrivateStep.__call__", "term.draws.next()",
         "term.draws.next() if term is self.terms[0] else positions", facts(two_terms)),
    edit("facts: full batch for rate q",
         "dpgraph.engine.sampling.batches:poisson_batch", "generator.random(num_roots) < rate",
         "generator.random(num_roots) < 1", facts(one_hop)),
    edit("facts: neighbour clip norm doubled", TREES + "PreparedTrees.__init__", "mechanism.neighbour_clip * clip_norm",
         "2 * mechanism.neighbour_clip * clip_norm", facts(two_terms)),
    edit("facts: one batch for all steps", "dpgraph.engine.sampling.batches:Draws.next", "self.generator",
         "np.random.default_rng(7)", facts(lambda kind: not kind.parts and not kind.partition)),
    swap("facts: cyclic partition", "dpgraph.engine.sampling.batches:PoissonSampler.draw", broken.in_turn,
         facts(lambda kind: kind.poisson and not kind.parts)),
    Bug("facts: noise of the first step in all",
        (Edit(NOISE + "GaussianNoise.add", "self.generator", "self.generator.clone_state()"),
         Edit(NOISE + "GaussianNoise.fill", "self.generator", "self.generator.clone_state()")),
        facts(lambda kind: True)),
    swap("facts: cells share their batches", STREAMS + "PAIRED", lambda paired: paired | {"batches"},
         facts(lambda kind: kind.hops == 1 and kind.poisson)),
    edit("facts: one number on all coordinates", NOISE + "add_gaussian_noise",
         "torch.empty_like(tensor).normal_(generator=generator)",
         "torch.empty_like(tensor).fill_(float(torch.randn(1, generator=generator)))",
         facts(lambda kind: not kind.parts and kind.release is None)),
    edit("facts: divided by the batch's own size", STEPS + "PrivateStep.__call__", "self.divisor",
         "float(max(1, read))", facts(lambda kind: kind.ego_trees and kind.poisson)),
    swap("facts: noise before clipping", KIPF + "Privatizer.apply", broken.noise_before_clipping,
         facts(lambda kind: kind.parts and kind.clipped)),
    Bug("facts: mechanism and step with noise over 1.3", less_noise(1.3), facts(lambda kind: True)),
    Bug("facts: mechanism and step with one root fewer", FEWER_ROOTS,
        facts(lambda kind: kind.noise_unit == "2 C R" and kind.hops > 0)),
    Bug("facts: columns not capped", UNCAPPED_COLUMNS, facts(with_neighbours)),
    Bug("facts: release noise over 1.3",
        (Edit(RELEASE + "gaussian_release", "noisy_rows(piece, clip_norm, noise_multiplier, generator)",
              "noisy_rows(piece, clip_norm, noise_multiplier / 1.3, generator)"),
         Edit(RELEASE + "exponential_release", "clip_value / epsilon", "clip_value / epsilon / 1.3"),
         Edit(RELEASE + "exponential_release", "top_k * clip_value / epsilon_values",
              "top_k * clip_value / epsilon_values / 1.3")),
        facts(lambda kind: kind.release in ("gaussian", "exponential", "exponential-values"))),
    edit("facts: components of too little noise", COMPONENTS + "noisy_moments",
         "noise.on(total, std, 0.0)", "noise.on(total, std / 1.3, 0.0)",
         facts(lambda kind: kind.components)),
    Bug("reach: clip norm doubled", CLIP_DOUBLED, reach(clips_twice)),
    swap("reach: whole lists", TREES + "stable_trees", broken.over_whole_lists,
         reach(lambda kind: kind.clipped and kind.ego_trees and kind.hops > 0 and kind.neighbours)),
    Bug("reach: rows not clipped",
        (Edit(RELEASE + "clip_rows", "1 / np.maximum(1.0, norms / clip_norm)", "np.ones(len(norms))"),
         Edit(RELEASE + "exponential_release", "np.minimum(piece.toarray(), clip_value)", "piece.toarray()")),
        reach(lambda kind: kind.release in ("gaussian", "exponential-values"))),
    edit("reach: records not scaled to length 1", COMPONENTS + "noisy_moments",
         "unit_rows(records[start : start + ROWS])", "records[start : start + ROWS].astype(np.float64)",
         reach(lambda kind: kind.components)),
    Bug("reach: columns not capped", UNCAPPED_COLUMNS, reach(lambda kind: kind.clipped and with_neighbours(kind))),
    Bug("accounted: noise over 1.3 in the mechanism", less_noise(1.3), accounted(lambda kind: True)),
    Bug("accounted: one affected root fewer", FEWER_ROOTS,
        accounted(lambda kind: (kind.hops > 0 and kind.ego_trees and not kind.percentiles and kind.neighbours)
                  or with_neighbours(kind))),
    swap("accounted: half of the affected roots", MECHANISMS + "trees.mechanism:StableTrees.affected_roots",
         lambda plain: property(lambda self: plain.fget(self) // 2),
         accounted(lambda kind: one_hop(kind) and kind.neighbours)),
    edit("accounted: components without a charge", MECHANISMS + "lots.mechanism:ComponentLots.release_mu",
         "1 / self.components_noise", "0.0", accounted(lambda kind: kind.components)),
    edit("accounted: one affected node for all of a part",
         MECHANISMS + "subgraphs.mechanism:NodeClippedSubgraphs.most_nodes",
         "math.ceil(self.num_roots / self.num_splits)", "1", accounted(lambda kind: kind.each_node)),
    Bug("accounted: dominating pair at half the rate", HALF_THE_RATE,
        accounted(lambda kind: kind.poisson and kind.reads != "records")),
    edit("accounted: epsilon of one step fewer", "dpgraph.privacy.mechanisms.base:NoisySteps.closed",
         "return (self.steps, self.noise_multiplier)", "return (max(1, self.steps - 1), self.noise_multiplier)",
         accounted(lambda kind: kind.clipped and not kind.partition)),
    swap("self-terms: self terms read their neighbours", TREES + "_alone", broken.whole_trees,
         self_terms(lambda kind: not kind.neighbours)),
    swap("self-terms: features standardised over all nodes", BASE + "PrivateData.from_graph",
         broken.read_as(broken.standardised), self_terms(lambda kind: not kind.silent)),
    swap("self-terms: features divided by degrees", BASE + "PrivateData.from_graph", broken.read_as(broken.by_degree),
         self_terms(broken.reads_no_edge)),
    swap("self-terms: features moved by the mean label", BASE + "PrivateData.from_graph",
         broken.read_as(broken.by_label),
         self_terms(lambda kind: kind.variant == "rigorous")),
)  # fmt: skip
