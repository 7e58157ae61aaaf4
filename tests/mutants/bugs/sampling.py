"""Batches of the wrong rate, size or law, and divisors that are not public."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit, ran

PARTS = "dpgraph.families.subgraphs.prepared:"
TREES = "dpgraph.families.trees.prepared:"
BATCHES = "dpgraph.engine.sampling.batches:"
STEPS = "dpgraph.engine.training.steps:"
OF_FACTS = "tests/engine/preparation/test_facts.py::"

BUGS = (
    edit(
        "rate 2q on ego trees",
        TREES + "PreparedTrees._poisson",
        "PoissonSampler(len(self.data.graph.train_nodes), rate)",
        "PoissonSampler(len(self.data.graph.train_nodes), min(1.0, 2 * rate))",
        ran("dp-gnn-1-rigorous"),
    ),
    edit(
        "rate 2q on subgraphs",
        PARTS + "PreparedParts.__init__",
        "mechanism.rate",
        "min(1.0, 2 * mechanism.rate)",
        ran("dp-subgraph-3-rigorous"),
    ),
    edit(
        "rate 2q on rows",
        "dpgraph.families.pagerank.prepared:PreparedRows.__init__",
        "PoissonSampler(len(roots), mechanism.sampling_rate)",
        "PoissonSampler(len(roots), min(1.0, 2 * mechanism.sampling_rate))",
        ran("dp-appr-identity-rigorous"),
    ),
    edit(
        "the second batch holds everybody",
        TREES + "PreparedTrees.__init__",
        "mechanism.neighbour_rate",
        "1.0",
        ran("dp-residual-1-rigorous"),
    ),
    edit(
        "the second batch replays the first",
        TREES + "PreparedTrees._term",
        "self.batches",
        "__import__('copy').deepcopy(self.batches)",
        OF_FACTS + "test_the_two_batches_of_residual_clipping_are_independent",
    ),
    edit(
        "one batch for both terms",
        STEPS + "PrivateStep.__call__",
        "term.draws.next()",
        "term.draws.next() if term is self.terms[0] else positions",
        ran("dp-residual-1-rigorous"),
    ),
    edit(
        "fixed-size batches named Poisson",
        TREES + "PreparedTrees._poisson",
        "PoissonSampler(len(self.data.graph.train_nodes), rate)",
        "FixedSizeSampler(len(self.data.graph.train_nodes), round(rate * len(self.data.graph.train_nodes)))",
        ran("dp-mlp-0-rigorous"),
    ),
    edit(
        "a Poisson sampler that draws a fixed size",
        BATCHES + "poisson_batch",
        "np.flatnonzero(generator.random(num_roots) < rate)",
        "np.sort(generator.choice(num_roots, round(rate * num_roots), replace=False))",
        OF_FACTS + "test_poisson_batches_have_their_rate_and_are_independent[dp-mlp-0-rigorous]",
    ),
    edit(
        "rate 2q in the sampler",
        BATCHES + "poisson_batch",
        "generator.random(num_roots) < rate",
        "generator.random(num_roots) < 2 * rate",
        OF_FACTS + "test_poisson_batches_have_their_rate_and_are_independent[dp-gnn-1-rigorous]",
    ),
    edit(
        "neighbouring roots are drawn together",
        BATCHES + "poisson_batch",
        "generator.random(num_roots)",
        "np.repeat(generator.random((num_roots + 1) // 2), 2)[:num_roots]",
        OF_FACTS + "test_poisson_batches_have_their_rate_and_are_independent[dp-lots-0-rigorous]",
    ),
    edit(
        "fixed-size batches with replacement",
        BATCHES + "fixed_size_batch",
        "generator.choice(num_roots, size=m, replace=False, shuffle=False)",
        "generator.choice(num_roots, size=m, replace=True, shuffle=False)",
        "tests/engine/sampling/test_batches.py::test_fixed_size_batches_are_uniform_sets",
    ),
    edit(
        "the same batch in every step",
        BATCHES + "Draws.next",
        "self.generator",
        "np.random.default_rng(7)",
        OF_FACTS + "test_poisson_batches_have_their_rate_and_are_independent[dp-appr-random-rigorous]",
    ),
    edit(
        "fresh subgraphs come from fixed parts",
        PARTS + "PreparedParts.__init__",
        "steps.FreshNodes(nodes, mechanism.rate, generator)",
        "masked_schedule(nodes, mechanism.num_splits, order)",
        ran("dp-subgraph-3-rigorous"),
    ),
    edit(
        "parts depend on who else is there",
        PARTS + "PreparedParts.__init__",
        "steps.parts_by_id(nodes, graph.num_nodes, mechanism.num_splits, order.generator('partition'))",
        "steps.equal_parts(nodes, mechanism.num_splits, order.generator('partition'))",
        OF_FACTS + "test_nobody_else_changes_parts_when_a_node_leaves",
    ),
    edit(
        "an epoch's lots are those of the last",
        "dpgraph.families.lots.prepared:LotSchedule.lot",
        "numpy_generator(*self.names, epoch)",
        "numpy_generator(*self.names)",
        "tests/families/lots/test_lots.py::test_epochs_differ_and_a_lot_is_a_function_of_its_step",
    ),
    edit(
        "a divisor of the batch's own size",
        STEPS + "PrivateStep.__call__",
        "self.divisor",
        "float(max(1, read))",
        "tests/engine/training/test_steps.py::test_each_term_draws_its_own_batch_and_noise_comes_once",
    ),
    edit(
        "a divisor of those with a label",
        TREES + "PreparedTrees.__init__",
        "self.terms = [self._term(trees, self._poisson(mechanism.sampling_rate), clip_norm)]\n"
        "self.divisor = expected_batch(rate=mechanism.sampling_rate, num_roots=mechanism.num_roots)",
        "self.terms = [self._term(trees, self._poisson(mechanism.sampling_rate), clip_norm)]\n"
        "known = int((self.data.labels[self.data.graph.train_nodes] >= 0).sum())\n"
        "self.divisor = expected_batch(rate=mechanism.sampling_rate, num_roots=known)",
        "tests/contract/test_methods.py::test_a_null_record_can_be_fed[dp-gnn-1-rigorous]",
    ),
)
