"""Bugs that audits of rows, sums, vectors, teachers, units and tuples must find."""

from __future__ import annotations

from dpgraph.families.tuples.sampling import capped_tuples
from tests.mutants import broken
from tests.mutants.bugs.shorthand import edit, swap
from tests.mutants.planting import Audit, Bug, Edit, Swap

SENDERS, SUMS = "dpgraph.families.aggregates.prepared:Senders.", Audit("sums")
VECTORS, EMBEDDING = "dpgraph.families.aggregates.embedding:", Audit("embedding")
CAPPED, BY_OWNERS = SENDERS + "capped", "smallest_in_group(owners, lists.indices, receivers, len(sends), key, PROPOSE)"
BY_READERS = "smallest_in_group(lists.indices, owners, receivers, len(sends), key, PROPOSE)"
GNMAX, ROWS = "dpgraph.families.pate.prepared:", "dpgraph.families.pagerank.release:"
VOTED, CHECKED = (
    "noise_std * generator.standard_normal(votes.shape)",
    "noise_std * generator.standard_normal(len(votes))",
)
LITTLE = (GNMAX + "noisy_histograms", VOTED, "0.5 * " + VOTED)
QUIET = (GNMAX + "noisy_largest_count", CHECKED, "0.0 * " + CHECKED)
ANSWERS = (Edit(GNMAX + "confident_gnmax", "np.flatnonzero(passed)[:max_answers]",
                "np.flatnonzero(passed)[: 2 * max_answers]"),)  # fmt: skip
CHECKS = (Edit(GNMAX + "confident_gnmax", "votes[:max_checks]", "votes"),)
TEACHERS, NODE_TEACHERS, UNITS = Audit("teachers"), Audit("node-teachers"), Audit("units")
NODES = "dpgraph.families.pate.nodes.prepared:"
STEP, DIVIDED = "dpgraph.families.units.steps:UnitStep.__call__", "apply_gradient(self.optimizer, sums, self.divisor)"
TUPLES, LIMITS = "dpgraph.families.tuples.steps:RelationStep.", "largest_counts(batch)"
PREPARED, FACTS = "dpgraph.families.tuples.prepared:PreparedRelations.__init__", Audit("tuple-facts", 200)

BUGS = (
    edit("rows: sensitivity C1 for sqrt 2 C1", ROWS + "matrix_sensitivity", "math.sqrt(2 * num_rows)",
         "math.sqrt(num_rows)",
         "tests/families/pagerank/test_release.py::test_the_sensitivity_is_attained_and_larger_than_the_thesis_says"),
    Bug("facts: column norm capped, not its support",
        (Swap(ROWS + "cap_columns", broken.capped_by_norm),
         Swap("dpgraph.families.pagerank.prepared:Rows.checked", lambda _: lambda self: self)),  # which would notice
        Audit("facts", 200)),
    edit("gnmax: sensitivity 1 for sqrt 2", GNMAX + "noisy_histograms", VOTED, "0.5 ** 0.5 * " + VOTED,
         "tests/families/pate/test_prepared.py::test_laws_of_checks_and_answers"),
    swap("teachers: parts overlap", "dpgraph.families.pate.teachers:members", broken.overlapping_parts, TEACHERS),
    edit("teachers: answers of half the noise", *LITTLE, TEACHERS),
    edit("teachers: checks without noise", *QUIET, TEACHERS),
    Bug("teachers: missing cap", ANSWERS, TEACHERS),
    Bug("gnmax: no cap on checks", CHECKS,
        "tests/families/pate/test_prepared.py::test_caps_stop_the_run[caps1-made1]"),
    swap("node-teachers: parts overlap", NODES + "fitted", broken.fitted_with_the_next, NODE_TEACHERS),
    swap("node-teachers: edges between parts", NODES + "view_means", broken.mixed_views, NODE_TEACHERS),
    edit("node-teachers: axes of private records", "dpgraph.families.pate.nodes.prepared:queries_axes",
         "features[torch.from_numpy(queries)]", "features", NODE_TEACHERS),
    edit("node-teachers: answers of half the noise", *LITTLE, NODE_TEACHERS),
    edit("node-teachers: checks without noise", *QUIET, NODE_TEACHERS),
    Bug("node-teachers: missing cap", ANSWERS, NODE_TEACHERS),
    swap("units: nothing is clipped", "dpgraph.families.units.steps:clipped_sum",
         lambda plain: lambda parts, clip_norm: plain(parts, 1e9), UNITS),
    edit("units: noise / 1.3", "dpgraph.families.units.prepared:PreparedUnits.__init__", "order.noise_std",
         "order.noise_std / 1.3", UNITS),
    swap("units: subclasses by k-means",
         "dpgraph.families.units.sampling:subclass_units", broken.clusters_as_subclasses, UNITS),
    edit("units: twice the rate", "dpgraph.engine.sampling.batches:poisson_batch", "generator.random(num_roots) < rate",
         "generator.random(num_roots) < 2 * rate", UNITS),
    edit("units: a divisor of its own", STEP, DIVIDED, DIVIDED.replace("self.divisor", "max(1.0, self.divisor - 1)"),
         UNITS),
    swap("units: two vectors of a unit", "dpgraph.families.units.steps:clipped_sum",
         lambda plain: lambda parts, clip_norm: [2 * one for one in plain(parts, clip_norm)], UNITS),
    edit("sums: a cap on readers", CAPPED, BY_OWNERS, BY_READERS, SUMS),
    swap("sums: receivers chosen by their degrees", CAPPED, broken.sent_by_degree, SUMS),
    swap("sums: whole lists under a cap", CAPPED, broken.sent_to_all, SUMS),
    edit("sums: rows of any norm", SENDERS + "received", "unit_rows(rows)", "np.array(rows, dtype=np.float64)", SUMS),
    edit("sums: noise of the sums halved", "dpgraph.families.aggregates.prepared:Sums.release",
         "self._noise.on(summed, self._std, 1 / GRID)", "self._noise.on(summed, self._std / 2, 1 / GRID)", SUMS),
    swap("sums: the degree bound is not checked", SENDERS + "bounded", broken.sent_to_all, SUMS),
    edit("embedding: a cap on readers", CAPPED, BY_OWNERS, BY_READERS, EMBEDDING),
    swap("embedding: whole lists under a cap", CAPPED, broken.sent_to_all, EMBEDDING),
    edit("embedding: noise by the root of the cap", VECTORS + "PreparedEmbedding.__init__",
         "mechanism.embedding_noise",
         "mechanism.embedding_noise * 2 * (mechanism.receivers + 1) ** 0.5 / (2 * mechanism.receivers + 1)", EMBEDDING),
    swap("embedding: clip norm doubled", VECTORS + "SLACK", lambda _: 2.0, EMBEDDING),
    edit("tuple-facts: counts of negatives ignored", TUPLES + "limits", LIMITS,
         "largest_counts(batch[:, :2])", FACTS),
    edit("tuple-facts: limits of tuples before it", TUPLES + "limits", LIMITS,
         "largest_counts(batch).cummin(0).values", FACTS),
    swap("tuple-facts: limits from the batch", "dpgraph.families.tuples.heads:HeadModel.clipped",
         broken.limits_from_the_batch, FACTS),
    edit("tuple-facts: noise halved", PREPARED, "order.noise_std", "order.noise_std / 2", FACTS),
    edit("tuple-facts: negatives with replacement", "dpgraph.families.tuples.sampling:Negatives.draw",
         "self.generator.choice(len(self.entities), size=wanted, replace=False, shuffle=True)",
         "self.generator.integers(0, len(self.entities), wanted)", FACTS),
    edit("tuple-facts: batches twice as large", PREPARED, "mechanism.sampling_rate", "2 * mechanism.sampling_rate",
         FACTS),
    edit("tuple-facts: divided by the batch", TUPLES + "__call__", "self.divisor", "1.0", FACTS),
    swap("tuple-sensitivity: tuples capped at both ends", "dpgraph.families.tuples.sampling:stable_tuples",
         lambda _: lambda graph, degree, cap, key: capped_tuples(graph, degree, key), Audit("tuple-sensitivity")),
)  # fmt: skip
