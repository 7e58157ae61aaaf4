"""Steps over tuples of relations: batches, negatives, limits, noise and accounting."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit, ran, swap
from tests.mutants.planting import Audit

RELATIONS = "dpgraph.families.tuples.prepared:"
RELATIONAL = "dpgraph.families.tuples.epsilon:"
TUPLES = "dpgraph.families.tuples.sampling:"
RELATION_HEADS = "dpgraph.families.tuples.heads:"
TOWER_CLIPPING = "dpgraph.families.tuples.towers:"
TRAINING_TUPLES = "dpgraph.families.tuples.steps:"
OF_PUBLIC = "tests/contract/test_public.py::test_neighbours_have_the_same_mechanism_statement_and_procedure"
OF_TEXT_TOWER = "tests/families/tuples/test_text_tower.py::"
OF_RELATION_MECHANISMS = "tests/families/tuples/test_mechanism.py::"
OF_TUPLES = "tests/families/tuples/test_sampling.py::"
CAPTURED = "dpgraph.families.tuples.captured:"
OF_CAPTURED = "tests/families/tuples/test_captured.py::"
OF_TUPLES_TESTS = "tests/families/tuples/test_steps.py::"

BUGS = (
    edit(
        "noise / 1.3 on tuples",
        RELATIONS + "PreparedRelations.__init__",
        "order.noise_std",
        "order.noise_std / 1.3",
        ran("dp-relation-head-rigorous"),
    ),
    edit(
        "rate 2q on tuples",
        RELATIONS + "PreparedRelations.__init__",
        "mechanism.sampling_rate",
        "min(1.0, 2 * mechanism.sampling_rate)",
        ran("dp-relation-head-rigorous"),
    ),
    edit(
        "clip at 2C on tuples",
        RELATIONS + "PreparedRelations.__init__",
        "order.privacy.clip_norm",
        "2 * order.privacy.clip_norm",
        ran("dp-relation-encoder-rigorous"),
    ),
    edit(
        "tuples capped as published, accounted as stable",
        RELATIONS + "PreparedRelations.__init__",
        "isinstance(mechanism, StaticTuples)",
        "False",
        ran("dp-relation-head-rigorous"),
    ),
    edit(
        "tuples are counted, not places",
        "dpgraph.families.tuples.mechanism:static_tuples",
        "replace(asked, counts=Counts(places, entities))",
        "asked",
        OF_PUBLIC + "[dp-relation-head-rigorous]",
    ),
    edit(
        "delta follows the images of a class",
        "dpgraph.families.units.mechanism:_common",
        "Counts(units, images)",
        "Counts(units, asked.counts.num_protected)",
        OF_PUBLIC + "[dp-units-class]",
    ),
    edit(
        "a private number is no objection",
        "dpgraph.privacy.mechanisms.base:NoisySteps._proved",
        "private_numbers(self.numbers_from, statement.relation)",
        "()",
        "tests/contract/test_public.py::test_an_epsilon_under_a_relation_that_a_number_may_differ_in_is_refused",
    ),
    edit(
        "one negative more than accounted",
        RELATIONS + "PreparedRelations.__init__",
        "mechanism.negatives",
        "mechanism.negatives + 1",
        ran("dp-relation-head-published"),
    ),
    edit(
        "negatives with replacement",
        TUPLES + "Negatives.draw",
        "self.generator.choice(len(self.entities), size=wanted, replace=False, shuffle=True)",
        "self.generator.choice(len(self.entities), size=wanted, replace=True, shuffle=True)",
        OF_TUPLES + "test_no_entity_is_a_negative_twice_in_a_batch",
    ),
    edit(
        "negatives in the order of their ids",
        TUPLES + "Negatives.draw",
        "return self.entities[chosen].reshape(count, self.per_tuple)",
        "chosen = np.sort(chosen)\nreturn self.entities[chosen].reshape(count, self.per_tuple)",
        OF_TUPLES + "test_negatives_are_uniform_at_every_place",
    ),
    edit(
        "an entity's tuples are not capped",
        TUPLES + "capped_tuples",
        "pairs[kept]",
        "pairs",
        OF_TUPLES + "test_no_entity_is_in_too_many_tuples",
    ),
    edit(
        "counts of entities ignore the negatives",
        TRAINING_TUPLES + "RelationStep.limits",
        "largest_counts(batch)",
        "largest_counts(batch[:, :2])",
        Audit("tuple-facts", 200),
    ),
    edit(
        "one tuple's limit for all",
        TRAINING_TUPLES + "RelationStep.limits",
        "largest_counts(batch)",
        "largest_counts(batch).clamp_max(1)",
        Audit("tuple-facts", 200),
    ),
    edit(
        "noise on tuples after the optimiser",
        TRAINING_TUPLES + "RelationStep.__call__",
        "self.noise.add(found.sums)\napply_gradient(self.optimizer, found.sums, self.divisor)",
        "apply_gradient(self.optimizer, found.sums, self.divisor)\nself.noise.add(found.sums)",
        Audit("tuple-facts", 200),
    ),
    edit(
        "a divisor of the tuples drawn",
        TRAINING_TUPLES + "RelationStep.__call__",
        "self.divisor",
        "float(max(1, len(batch)))",
        Audit("tuple-facts", 200),
    ),
    edit(
        "factors of tuples above their limit",
        TRAINING_TUPLES + "clip_factors",
        "1 - 1e-06",
        "1 + 0.001",
        OF_TUPLES_TESTS + "test_no_factor_lets_a_tuple_beyond_its_limit",
    ),
    edit(
        "ghost norms of towers without cross terms",
        TOWER_CLIPPING + "TowerModel._squares",
        "grams.sum(dim=(1, 2))",
        "torch.diagonal(grams, dim1=1, dim2=2).sum(dim=1)",
        OF_TUPLES_TESTS + "test_both_ways_to_a_norm_agree",
    ),
    edit(
        "norms of towers without biases",
        TOWER_CLIPPING + "TowerModel._squares",
        "squares = squares + slopes.sum(dim=1, dtype=torch.float64).square().sum(dim=1)",
        "pass",
        OF_TUPLES_TESTS + "test_a_perceptron_equals_autograd_whatever_the_chunks[1]",
    ),
    edit(
        "norms of a chunk's last layer only",
        TOWER_CLIPPING + "TowerModel._add",
        "squares += self._squares(layers[number], *both)",
        "squares = self._squares(layers[number], *both)",
        OF_TUPLES_TESTS + "test_a_perceptron_equals_autograd_whatever_the_chunks[60]",
    ),
    edit(
        "norms of towers are not enlarged by rounding",
        TOWER_CLIPPING + "TowerModel._add",
        "enlarged_norms(squares.clamp_min(0).to(limits.dtype), scales)",
        "squares.clamp_min(0).sqrt()",
        OF_TUPLES_TESTS + "test_no_contribution_of_rounded_operands_is_beyond_its_limit",
    ),
    edit(
        "slopes of texts count for another tuple",
        TOWER_CLIPPING + "TowerModel._of",
        "rows[back]",
        "rows",
        OF_TEXT_TOWER + "test_clipped_sums_over_texts_equal_autograd",
    ),
    edit(
        "a text's state depends on its batch",
        "dpgraph.families.tuples.text_tower:TextTower.forward",
        "mask.long()",
        "torch.ones_like(ids)",
        OF_TEXT_TOWER + "test_padding_and_company_do_not_move_a_text",
    ),
    edit(
        "norms of heads without the loss' scale",
        RELATION_HEADS + "HeadModel.clipped",
        "(longest + inner) / 2",
        "(longest + inner) / 4",
        OF_TUPLES_TESTS + "test_heads_equal_autograd",
    ),
    edit(
        "a leaving entity lets no tuple in",
        RELATIONAL + "static_pair",
        "Mixture.binomial(count=refill, rate=rate)",
        "Mixture.binomial(count=0, rate=rate)",
        OF_RELATION_MECHANISMS + "test_static_clipping_at_the_papers_size",
    ),
    edit(
        "negatives are free",
        RELATIONAL + "static_pair",
        "min(1.0, size * negatives / nodes)",
        "0.0",
        OF_RELATION_MECHANISMS + "test_static_epsilon_moves_as_it_should",
    ),
    edit(
        "a chord where negatives become certain",
        RELATIONAL + "static_pair",
        "(full, full + 1)",
        "()",
        OF_RELATION_MECHANISMS + "test_chords_between_batch_sizes_are_above_the_average_over_all_of_them",
    ),
    edit(
        "a negative moves by C",
        RELATIONAL + "static_pair",
        "Mixture.binomial(count=1, rate=min(1.0, size * negatives / nodes), unit=2.0)",
        "Mixture.binomial(count=1, rate=min(1.0, size * negatives / nodes), unit=1.0)",
        OF_RELATION_MECHANISMS + "test_static_clipping_at_the_papers_size",
    ),
    swap(
        "half the noise of Proposition 4.1",
        "dpgraph.families.tuples.mechanism:AdaptiveTuples.SENSITIVITY",
        lambda _: 1.5,
        OF_RELATION_MECHANISMS + "test_noise_is_that_of_the_claimed_sensitivity",
    ),
    edit(
        "a null entity stays in the pool of negatives",
        "dpgraph.problems.relations.value:Relations.present",
        "(np.asarray(self.domain) == TRAIN) & self.recorded",
        "np.asarray(self.domain) == TRAIN",
        "tests/families/tuples/test_null_entities.py::test_a_null_record_from_files_leaves_tuples_and_pool",
    ),
    edit(
        "a tuple whose gradient is not finite spoils the sum",
        "dpgraph.families.tuples.steps:without_lost",
        "rows.masked_fill(lost.view(-1, *(1,) * (rows.dim() - 1)), 0)",
        "rows",
        "tests/families/tuples/test_steps.py::test_a_tuple_whose_gradient_is_not_finite_adds_nothing",
    ),
    edit(
        "an id without a record is kept when data are made",
        "dpgraph.problems.relations.prepare:with_records",
        "kept.all()",
        "True",
        "tests/families/tuples/test_null_entities.py::test_ids_without_a_record_are_left_out_when_data_are_made",
    ),
    edit(
        "captured: negatives in the order of their ids",
        CAPTURED + "DeviceTuples._negatives",
        "numbers.topk(self.own.negatives.wanted(tuples), largest=False, sorted=True).indices",
        "numbers.topk(self.own.negatives.wanted(tuples), largest=False, sorted=True).indices.sort().values",
        OF_CAPTURED + "test_batches_are_those_of_the_mechanism",
    ),
    edit(
        "captured: negatives drawn with the numbers of the batches",
        CAPTURED + "CapturedTuples.__init__",
        "DeviceTuples(step.batches, places, negatives, step.device)",
        "DeviceTuples(step.batches, places, places, step.device)",
        OF_CAPTURED + "test_batches_are_those_of_the_mechanism",
    ),
    edit(
        "captured: an empty slot adds its gradient",
        CAPTURED + "CapturedTuples.program",
        "self.step.limits(batch).masked_fill(batch[:, 0] == NO_ENTITY, 0)",
        "self.step.limits(batch)",
        OF_CAPTURED + "test_sums_are_those_of_the_usual_step[adaptive]",
    ),
    edit(
        "captured: half of the noise on tuples",
        CAPTURED + "CapturedTuples._release",
        "float(noise.std)",
        "float(noise.std) / 2",
        OF_CAPTURED + "test_the_noise_is_that_of_the_usual_step",
    ),
    edit(
        "captured: places without a tuple are drawn",
        CAPTURED + "DeviceTuples.batch",
        "(self.batches.masks(step, 1, self.row)[0] & self.filled)",
        "self.batches.masks(step, 1, self.row)[0]",
        OF_CAPTURED + "test_sums_are_those_of_the_usual_step[head]",
    ),
    edit(
        "predictions over tuples read their own record alone",
        "dpgraph.families.tuples.spec:inference",
        "PredictionInput.RAW_GRAPH",
        "PredictionInput.OWN_RECORD",
        "tests/families/tuples/test_tuples.py::test_predictions_read_the_records_of_other_entities_so_that_no_epsilon_covers"
        "_them",
    ),
)
