"""Random streams: noise that is used twice, that another run shares, or that somebody else can compute."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit, swap
from tests.mutants.planting import Bug

LEDGER = "tests/engine/preparation/test_ledger.py::"
MASKS = "test_masks_of_dropout_are_secret_where_a_theorem_needs_them_fresh"
REUSE = LEDGER + "test_no_noise_is_used_twice_over_steps_tensors_releases_and_seeds"
OF_FIT = LEDGER + "test_no_noise_of_a_release_of_fit_is_used_twice"
EMPTY = LEDGER + "test_empty_batches_batches_of_one_and_absent_classes_are_noised_as_all_others"
OF_CLASSES = "tests/own_graph/test_classes.py::"
BASE, SECRET = "dpgraph.engine.preparation.base:Order.", "dpgraph.own_graph.secret:"


def drawn_once(plain):
    """Return a function that draws once for each size, whatever it is asked for later."""
    kept = {}

    def draw(count, scale, counter=None):
        if count not in kept:
            kept[count] = plain(count, 1.0, None)
        if counter is not None:
            counter.numbers += count
        return kept[count] * 0 + (kept[count] * scale).round()

    return draw


def one_for_all_tensors(plain):
    """Return noise of which every tensor of a step gets the first numbers of one vector."""

    def add(sums, std, generator):
        import torch

        largest = max(tensor.numel() for tensor in sums)
        noise = torch.empty(largest, dtype=sums[0].dtype).normal_(generator=generator)
        for tensor, value in zip(sums, std if isinstance(std, tuple) else [std] * len(sums), strict=True):
            tensor.add_(noise[: tensor.numel()].view_as(tensor), alpha=value)
        return sum(tensor.numel() for tensor in sums)

    return add


def kept_between_releases(plain):
    """Return a release that draws its noise once."""
    kept = {}

    def on(self, values, std, unit):
        if (id(self), values.shape) not in kept:
            kept[id(self), values.shape] = self.generator.standard_normal(values.shape)
        self.stds.append(std)
        return values + std * kept[id(self), values.shape]

    return on


def less_the_first(plain):
    """Return a sum of which the noise of the first one is taken off."""

    def release(self, rows):
        made = plain(self, rows)
        held = vars(self).setdefault("held", [])
        held.append(made - self.senders.received(rows))
        return made - held[0] if len(held) > 1 else made

    return release


BUGS: tuple[Bug, ...] = (
    swap(
        "one noise vector for the weight and the bias",
        "dpgraph.engine.training.noise:add_gaussian_noise",
        one_for_all_tensors,
        REUSE + "[dp-mlp-0-rigorous]",
    ),
    swap("a release of fit: one noise vector for all steps", SECRET + "rounded_gaussian", drawn_once, OF_FIT),
    edit(
        "a release of fit: one noise vector for all tensors",
        SECRET + "SecretNoise.add",
        "noised(tensor.numpy(), std, grid, self)",
        "noised(0 * sums[0].numpy(), std, grid, self).ravel()[:1] + tensor.numpy()",
        OF_FIT,
    ),
    edit(
        "one noise of releases for all seeds",
        BASE + "_open",
        "stream(self.cell, role, self.seed)",
        "stream(self.cell, role, self.seed if role != 'votes' else 0)",
        REUSE + "[dp-votes-softmax]",
    ),
    edit(
        "noise of the vectors for all seeds",
        BASE + "_open",
        "stream(self.cell, role, self.seed)",
        "stream(self.cell, role, 0 if role == 'noise of the embedding' else self.seed)",
        REUSE + "[dp-dgc-rigorous]",
    ),
    edit(
        "masks that cells share for parts that are charged once an epoch",
        "dpgraph.engine.preparation.base:PreparedStep.needs_secret_masks",
        "self.mechanism.steps_cost and not self.mechanism.public_masks",
        "False",
        LEDGER + MASKS + "[dp-subgraph-3-cut]",
    ),
    edit(
        "masks that cells share for Poisson lots",
        "dpgraph.engine.methods.base:Job.masks",
        "self.prepared is not None and self._has_secret_masks",
        "False",
        LEDGER + MASKS + "[dp-lots-0-rigorous]",
    ),
    edit(
        "masks that a resumed run repeats",
        "dpgraph.engine.preparation.base:PreparedStep.check_kept",
        "self._masks is not None",
        "self._masks is None",
        LEDGER + "test_secret_masks_have_one_reader_are_not_replaced_by_shared_ones_and_are_kept",
    ),
    edit(
        "batches of the device from a public key",
        BASE + "secret_key",
        "self._open(role, lambda *names: Key(entropy(*names) % 2**63), secret=True)",
        "self._open(role, lambda *names: Key(entropy(*names) % 2**63), secret=role not in PAIRED)",
        LEDGER + "test_a_secret_key_is_no_public_one",
    ),
    edit(
        "batches of the device from the key of the edge lists",
        "dpgraph.families.trees.prepared:PreparedTrees.__init__",
        "order.secret_key('batches of the device')",
        "order.secret_key('edge lists')",
        LEDGER + "test_batches_of_a_captured_step_come_from_a_secret_stream_of_their_own[dp-mlp-0-rigorous]",
    ),
    edit(
        "roots of rows ordered by who has a label",
        "dpgraph.families.pagerank.prepared:kept_nodes",
        "order = nodes[random.permutation(len(nodes))]",
        "order = nodes[np.argsort(np.asarray(graph.labels)[nodes] < 0, kind='stable')]",
        "tests/families/pagerank/test_appr.py::test_kept_nodes_and_the_order_of_roots_read_ids_alone",
    ),
    edit(
        "no noise where a batch of tuples is empty",
        "dpgraph.families.tuples.steps:RelationStep.__call__",
        "self.noise.add(found.sums)",
        "len(batch) and self.noise.add(found.sums)",
        EMPTY + "[dp-relation-encoder-rigorous]",
    ),
    edit(
        "no noise where a batch of roots is empty",
        "dpgraph.engine.training.steps:PrivateStep.__call__",
        "self.noise.add(sums)",
        "read and self.noise.add(sums)",
        EMPTY + "[dp-lots-0-rigorous]",
    ),
    swap(
        "all sums over neighbours share one noise",
        "dpgraph.engine.training.noise:ReleaseNoise.on",
        kept_between_releases,
        REUSE + "[dp-gap-rigorous]",
    ),
    swap(
        "hubs and degrees share one noise",
        "dpgraph.engine.training.noise:ReleaseNoise.on",
        kept_between_releases,
        REUSE + "[dp-votes-node-remove-capped]",
    ),
    edit(
        "checks and answers share one noise",
        "dpgraph.families.pate.prepared:confident_gnmax",
        "noisy_largest_count(votes[:max_checks], check_noise_std, generator)",
        "noisy_largest_count(votes[:max_checks], check_noise_std, __import__('copy').deepcopy(generator))",
        REUSE + "[dp-pate-gan]",
    ),
    edit(
        "lists from a key of the number of edges",
        "dpgraph.families.trees.prepared:stable_trees",
        "order.key('edge lists')",
        "len(graph.out_idx)",
        REUSE + "[dp-gnn-1-rigorous]",
    ),
    edit(
        "noise without the mass in B",
        "dpgraph.families.votes.prepared:PreparedVotes.scores",
        "vote_norm(num_classes=probabilities.shape[1], mass=mass)",
        "vote_norm(num_classes=probabilities.shape[1], mass=0.0)",
        "tests/contract/test_methods.py::test_what_ran_is_what_was_accounted_for[dp-votes-softmax]",
    ),
    edit(
        "a stream opened twice",
        "dpgraph.engine.preparation.ledger:Ledger.open",
        "role in self.entries or any(names == entry.names for entry in self.entries.values())",
        "False",
        LEDGER + "test_a_stream_is_opened_once_under_its_role_and_seed_and_a_secret_is_not_shared",
    ),
    edit(
        "streams that are not compared",
        "dpgraph.engine.preparation.base:PreparedStep.check",
        "check_streams(stated, self.due, used, steps)",
        "None",
        LEDGER + "test_a_run_whose_streams_are_not_those_stated_has_no_epsilon",
    ),
    edit(
        "a record that lists nothing as uncovered",
        "dpgraph.pipeline.stages:_statement",
        "list(data_dependent(value))",
        "[]",
        "tests/pipeline/test_stages.py::test_a_record_lists_what_no_epsilon_covers_and_which_streams_were_drawn",
    ),
    edit(
        "classes that are counted over all labels are public",
        "dpgraph.problems.base:class_count",
        "('the number of classes: counted over all labels',)",
        "()",
        "tests/problems/test_preprocess.py::test_classes_that_are_counted_over_all_labels_are_said_to_be",
    ),
    edit(
        "a split that depends on who has a label is public",
        "dpgraph.data.splits:make_split",
        "bool((raw.labels < 0).any())",
        "False",
        "tests/data/test_splits.py::test_a_random_split_says_that_it_depends_on_who_has_a_label",
    ),
    edit(
        "rows that cost nothing before the first step",
        "dpgraph.families.pagerank.mechanism:PagerankSteps.at_step",
        "max(step, 1)",
        "step",
        "tests/families/pagerank/test_mechanism.py::test_rows_are_charged_before_the_first_step[gaussian]",
    ),
    edit(
        "a card that leaves out what was made from all records",
        "dpgraph.own_graph.card:_not_covered",
        "uncovered += own.uncovered",
        "uncovered += ()",
        "tests/own_graph/test_release.py::test_a_card_says_what_was_made_from_all_records_before_and_what_edges_may_not_be"
        "_made_of[node-null-True]",
    ),
    edit(
        "a checkpoint of units that does not keep the noise",
        "dpgraph.families.units.prepared:PreparedUnits.__init__",
        "{'batches': self.draws.generator, 'images': self.images, 'noise': self.noise.generator}",
        "{'batches': self.draws.generator, 'images': self.images}",
        LEDGER + "test_a_checkpoint_keeps_every_generator_that_steps_draw_from[dp-units-class]",
    ),
    swap(
        "the second hop without the noise of the first",
        "dpgraph.families.aggregates.prepared:Sums.release",
        less_the_first,
        REUSE + "[dp-gap-rigorous]",
    ),
    edit(
        "one noise for all classes of a choice",
        "dpgraph.own_graph.classes:noisy_counts",
        "[count + two_sided_geometric(epsilon, below) for count in counts.tolist()]",
        "counts + two_sided_geometric(epsilon, below)",
        OF_CLASSES + "test_noise_of_every_class_is_its_own",
    ),
    edit(
        "a choice of classes one label too early",
        "dpgraph.own_graph.classes:select_classes",
        "noisy >= selection.threshold",
        "noisy >= selection.threshold - 1",
        OF_CLASSES + "test_a_selection_reads_noisy_counts_alone",
    ),
    edit(
        "the exact number of labels of chosen classes",
        "dpgraph.own_graph.classes:select_classes",
        "int(noisy[kept].sum())",
        "int(counts[kept].sum())",
        OF_CLASSES + "test_a_selection_reads_noisy_counts_alone",
    ),
    edit(
        "a choice of classes that is charged once it succeeded",
        "dpgraph.own_graph.fit:fit",
        "charged = charge(own, promise, scope, folder, releases) if seed is None else charged",
        "charged = charged",
        OF_CLASSES + "test_a_choice_that_fails_is_charged",
    ),
    edit(
        "negatives from fewer entities than are accounted for",
        "dpgraph.families.tuples.prepared:PreparedRelations.__init__",
        "tuples.kind is Lists.STABLE_TUPLES and null > 1",
        "False",
        "tests/families/tuples/test_null_entities.py::test_data_with_two_null_entities_are_refused",
    ),
)
