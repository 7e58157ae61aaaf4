"""Bugs that audits of single parts must find: samplers, clipping, noise, subgraphs, whole runs."""

from __future__ import annotations

from tests.mutants import broken
from tests.mutants.bugs.shorthand import edit, swap
from tests.mutants.planting import Audit

CLIPPING, NOISE, KIPF = (f"dpgraph.engine.training.{name}:" for name in ("clipping", "noise", "kipf"))
LISTS, BATCHES, PARTS = (
    "dpgraph.engine.sampling.edge_lists:",
    "dpgraph.engine.sampling.batches:",
    "dpgraph.families.subgraphs.prepared:",
)
TREES, STEPS = "dpgraph.families.trees.prepared:PreparedTrees.", "dpgraph.engine.training.steps:PrivateStep."
VOTES = "dpgraph.families.votes.prepared:PreparedVotes."
FACTORS, SUM = CLIPPING + "clip_factors", CLIPPING + "clipped_gradient_sum"
CLIPPED, DOUBLED = "torch.clamp_max(limits / enlarged, 1)", "torch.clamp_max(2 * limits / enlarged, 1)"
ADDED, TIMES = "tensor.add_(noise, alpha=value)", "tensor.add_(noise, alpha={} * value)"
CLIP, SUBGRAPHS = "order.privacy.clip_norm", PARTS + "PreparedParts.__init__"
FRESH = "steps.FreshNodes(nodes, mechanism.rate, generator)"
FIXED = (
    "steps.FixedParts([nodes[part::mechanism.num_splits] for part in range(mechanism.num_splits)], ('audits', 'fixed'))"
)
SOURCE = "steps.GraphSource(schedule, blocks.{0} if always else steps.BlockCache(blocks.{0}).block_of, present)"
ROUGH = Audit("subgraph-steps", 1000)


BUGS = (
    swap("lists: Algorithm 1", LISTS + "stable_edge_lists", broken.algorithm_1, Audit("lists", 4)),
    edit("sensitivity: no-op clip", FACTORS, CLIPPED, "torch.ones_like(enlarged)", Audit("sensitivity", 20)),
    edit("sensitivity: clip norm doubled", FACTORS, CLIPPED, DOUBLED, Audit("sensitivity", 20)),
    swap("sensitivity: adaptive clipping", SUM, broken.adaptive_clipping, Audit("sensitivity", 20)),
    swap("self-terms: masked loss, uncut edges",
         "dpgraph.engine.sampling.ego:pack_ego_trees", broken.with_the_next_node,
         Audit("self-terms")),
    swap("sensitivity: sqrt L forgotten", SUM, broken.each_group_alone, Audit("sensitivity", 20)),
    edit("subgraph-steps: fixed parts for fresh samples", SUBGRAPHS, FRESH, FIXED, ROUGH),
    swap("subgraph-steps: clipping per tensor", KIPF + "Privatizer._clip", broken.each_tensor_alone,
         Audit("subgraph-steps")),
    edit("subgraph-steps: no clipping", SUBGRAPHS, CLIP, "math.inf", ROUGH),
    edit("subgraph-steps: sensitivity C for 2C", SUBGRAPHS, CLIP, "2 * " + CLIP, ROUGH),
    edit("subgraph-locality: edges across parts kept", PARTS + "source_of", SOURCE.format("induced"),
         SOURCE.format("masked"), Audit("subgraph-locality", 10)),
    swap("subgraph-locality: clipping per tensor", KIPF + "Privatizer._clip", broken.each_tensor_alone,
         Audit("subgraph-locality")),
    edit("subgraph-locality: no clipping", SUBGRAPHS, CLIP, "math.inf", Audit("subgraph-locality", 10)),
    edit("one-run: noise over 1.7", TREES + "__init__", "order.noise_std", "order.noise_std / 1.7", Audit("one-run")),
    edit("one-run: noise of votes over 2", VOTES + "scores", "self._votes.on(ballots.buckets(cast), std, 1 / GRID)",
         "self._votes.on(ballots.buckets(cast), std / 2, 1 / GRID)", Audit("one-run")),
    edit("one-run: clip norm doubled", FACTORS, CLIPPED, DOUBLED, Audit("one-run")),
    edit("one-run: batches twice as likely", TREES + "_poisson",
         "PoissonSampler(len(self.data.graph.train_nodes), rate)",
         "PoissonSampler(len(self.data.graph.train_nodes), min(1.0, 2 * rate))", Audit("one-run")),
    edit("scale: 0.95 of the noise on sums", NOISE + "add_gaussian_noise", ADDED, TIMES.format(0.95),
         Audit("scale")),
    edit("scale: 0.9 of the noise on sums", NOISE + "add_gaussian_noise", ADDED, TIMES.format(0.9),
         Audit("scale", 10_000)),
    edit("scale: 1.1 of the noise on sums", NOISE + "add_gaussian_noise", ADDED, TIMES.format(1.1),
         Audit("scale", 10_000)),
    edit("scale: 0.95 of the noise in buffers", NOISE + "GaussianNoise.fill", "return float(self.std)",
         "return 0.95 * float(self.std)", Audit("scale")),
    edit("scale: 0.95 of the noise of releases", NOISE + "ReleaseNoise.on", "noise *= std", "noise *= 0.95 * std",
         Audit("scale")),
    edit("scale: 0.95 of the noise of sums over neighbours", "dpgraph.families.aggregates.prepared:Sums.release",
         "self._noise.on(summed, self._std, 1 / GRID)",
         "self._noise.on(summed, 0.95 * self._std, 1 / GRID)", Audit("scale")),
    edit("scale: 0.9 of the noise of vectors", "dpgraph.families.aggregates.embedding:PreparedEmbedding.__init__",
         "noise_std(noise_over_clip=mechanism.embedding_noise, clip_norm=self.clip_norm)",
         "0.9 * noise_std(noise_over_clip=mechanism.embedding_noise, clip_norm=self.clip_norm)",
         Audit("scale", 10_000)),
    edit("scale: one noise for all steps", NOISE + "GaussianNoise.add",
         "add_gaussian_noise(sums, self.std, self.generator)",
         "add_gaussian_noise(sums, self.std, self.generator.manual_seed(7))", Audit("scale", 4000)),
    edit("tuple-sensitivity: adaptive clipping", "dpgraph.families.tuples.steps:RelationStep.limits",
         "if self.clipped is Clipped.ROOT_COUNTS: ...", "if True: ...", Audit("tuple-sensitivity")),
)  # fmt: skip
