"""Mechanisms and accountants that state too little."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit

PREPARED = "dpgraph.families.pagerank.prepared:"
BASE = "dpgraph.privacy.mechanisms.base:"
SUBGRAPHS = "dpgraph.families.subgraphs.mechanism:"
DECLARATION = "dpgraph.privacy.accountants.declaration:"
TREES = "dpgraph.families.trees.mechanism:"
PAGERANK_RELEASE = "dpgraph.families.pagerank.release:"
OF_SOUNDNESS = "tests/engine/methods/test_soundness.py::"
OF_FACTS = "tests/engine/preparation/test_facts.py::"
OF_MECHANISMS = "tests/privacy/test_mechanisms.py::"
OF_PAGERANK_MECHANISMS = "tests/families/pagerank/test_mechanism.py::"
OF_DECLARED = "tests/privacy/test_declared.py::"
OF_DELTA = "tests/privacy/test_default_delta.py::"
OF_REFUSALS = "tests/privacy/test_refusals.py::"
OF_SUBGRAPH_MECHANISMS = "tests/families/subgraphs/test_mechanism.py::"
OF_SEARCHES = "tests/reporting/views/test_search_cost.py::"
SEARCH_COST = "dpgraph.reporting.views.search.cost:"
OF_PAGERANK_RELEASE = "tests/families/pagerank/test_release.py::"

STATISTICS = "dpgraph.privacy.auditing:"
OF_STATISTICS = "tests/privacy/test_auditing.py::"

BUGS = (
    edit(
        "scores that are not finite pass an audit",
        STATISTICS + "finite",
        "if broken.size: ...",
        "if False: ...",
        OF_STATISTICS + "test_scores_that_are_not_finite_are_refused[nan]",
    ),
    edit(
        "a sum that is no number passes an audit",
        "dpgraph.audits.result:largest",
        "np.max(values)",
        "max(values)",
        "tests/audits/test_mechanisms.py::test_a_sum_that_is_no_number_does_not_pass",
    ),
    edit(
        "an audit reads scores in one direction",
        STATISTICS + "measured_errors",
        "ways[0][0] >= ways[1][0]",
        "True",
        OF_STATISTICS + "test_the_direction_of_scores_is_found",
    ),
    edit(
        "the direction of scores found on the trials that bound",
        STATISTICS + "measured_errors",
        "_chosen(sign * sides[0][:half], sign * sides[1][:half])",
        "_chosen(sign * sides[0][half:trials], sign * sides[1][half:trials])",
        OF_STATISTICS + "test_the_first_half_alone_chooses",
    ),
    edit(
        "one run in the better direction for nothing",
        "dpgraph.audits.one_run:CanaryRun.shown",
        "auditing.one_run_refutes(**known, inverse=curve, confidence=1 - alarm / 2)",
        "auditing.one_run_refutes(**known, inverse=curve, confidence=1 - alarm)",
        "tests/audits/test_mechanisms.py::test_a_better_direction_costs_half_of_what_may_fail",
    ),
    edit(
        "right guesses over guesses, not over canaries",
        STATISTICS + "one_run_mass",
        "total * correct / canaries",
        "total * correct / guesses",
        OF_STATISTICS + "test_the_recursion_solves_the_linear_programme",
    ),
    edit(
        "the mass of wrong guesses above forgotten",
        STATISTICS + "one_run_mass",
        "inverse(np.minimum(right, 1.0)) - wrong",
        "inverse(np.minimum(right, 1.0))",
        OF_STATISTICS + "test_the_recursion_solves_the_linear_programme",
    ),
    edit(
        "a claim's probabilities grow by e^eps the wrong way",
        STATISTICS + "inverse_of",
        "(y - gap) / grown",
        "(y - gap) * 1.1 / grown",
        OF_STATISTICS + "test_no_attacker_beats_the_bound_on_few_canaries",
    ),
    edit(
        "delta of PageRank counts its rows",
        "dpgraph.families.pagerank.mechanism:PagerankSteps.counted",
        "Counted.TRAINING",
        "Counted.ROOTS",
        OF_DELTA + "test_each_rule_has_a_mechanism_that_it_matters_for",
    ),
    edit(
        "a delta that means nothing for everybody is the default",
        "dpgraph.privacy.public_numbers:Counted.delta",
        "meaningful_delta(delta=usual, people=protected) is None",
        "True",
        OF_SOUNDNESS + "test_the_default_delta_means_something_for_everybody",
    ),
    edit(
        "delta 1 / N is accepted by name",
        DECLARATION + "Accountant.checked",
        "self.mode == 'rigorous'",
        "False",
        OF_REFUSALS + "test_delta_must_be_below_one_over_the_number_of_records[double_mixture]",
    ),
    edit(
        "what a theorem presumes is not looked at",
        "dpgraph.privacy.accountants.parameters:Premise.check",
        "given.get(self.name, self.holds) != self.holds",
        "False",
        OF_REFUSALS
        + "test_a_premise_that_does_not_hold_is_refused_in_one_line[double_mixture-sampling-fixed partition]",
    ),
    edit(
        "a number out of the declared range is taken",
        "dpgraph.privacy.accountants.parameters:Parameter.check",
        "self.least is None or value >= self.least",
        "True",
        OF_DECLARED + "test_what_its_declaration_does_not_allow_is_one_line",
    ),
    edit(
        "an accountant from outside is shown like one that was read here",
        "dpgraph.privacy.accountants.evaluate:guarantee",
        "outside.is_within(known.function.__module__)",
        "True",
        OF_DECLARED + "test_a_new_accountant_is_listed_evaluated_solved_and_checked",
    ),
    edit(
        "an answer of an edited accountant is kept",
        "dpgraph.privacy.accountants.evaluate:solve_for",
        "None if files is None else cache",
        "cache",
        OF_DECLARED + "test_an_answer_of_an_edited_accountant_is_not_kept",
    ),
    edit(
        "an accountant needs no reference value",
        DECLARATION + "Accountant.__post_init__",
        "not self.references",
        "False",
        OF_DECLARED + "test_an_incomplete_declaration_is_one_line_that_names_its_file",
    ),
    edit(
        "an epsilon under a relation that its declaration does not state",
        "dpgraph.privacy.accountants.declaration:Accountant.__post_init__",
        "self.relations is not None",
        "False",
        OF_DECLARED + "test_an_incomplete_declaration_is_one_line_that_names_its_file",
    ),
    edit(
        "two accountants of one name",
        "dpgraph.privacy.accountants.evaluate:_accountants",
        "one.key in found",
        "False",
        OF_DECLARED + "test_an_incomplete_declaration_is_one_line_that_names_its_file",
    ),
    edit(
        "declared reference values are not compared",
        "dpgraph.privacy.accountants.evaluate:declared_rows",
        "accountants().items()",
        "()",
        OF_DECLARED + "test_a_wrong_reference_value_fails_the_check",
    ),
    edit(
        "delta of everybody is not looked at",
        BASE + "NoisySteps.meaningless_delta",
        "self.num_protected or self.num_roots",
        "self.num_roots",
        OF_SOUNDNESS + "test_a_delta_of_one_in_everybody_gives_no_epsilon[dp-gnn-1-rigorous]",
    ),
    edit(
        "a meaningless delta is accepted",
        BASE + "NoisySteps._check",
        "self.refuses_delta",
        "not self.refuses_delta",
        OF_SOUNDNESS + "test_a_delta_of_one_in_everybody_gives_no_epsilon[dp-appr-random-rigorous]",
    ),
    edit(
        "a paper's mechanism has an epsilon at any delta",
        BASE + "NoisySteps._proved",
        "self.meaningless_delta",
        "None",
        OF_SOUNDNESS + "test_a_delta_of_one_in_everybody_gives_no_epsilon[dp-subgraph-3-published]",
    ),
    edit(
        "R without the nodes that are let in",
        TREES + "StableTrees.changed_trees",
        "tree_size(max_degree=degree, hops=self.hops) + cap * tree_size(max_degree=degree, hops=self.hops - 1)",
        "tree_size(max_degree=degree, hops=self.hops)",
        OF_MECHANISMS + "test_affected_roots",
    ),
    edit(
        "a mechanism's pair forgets a root",
        TREES + "PoissonTrees.dominating_pair",
        "self.affected_roots",
        "max(1, self.affected_roots - 1)",
        OF_MECHANISMS + "test_the_two_epsilons_of_the_rigorous_mechanism",
    ),
    edit(
        "node-remove is stated of trees with neighbours",
        "dpgraph.families.trees.mechanism:RemovedRecords._own_records",
        "self.hops != 0",
        "self.hops < 0",
        OF_MECHANISMS + "test_whoever_reads_an_edge_has_no_such_statement",
    ),
    edit(
        "half of the steps are accounted for",
        "dpgraph.privacy.accountants.composition:_repeated",
        "one.self_compose(steps, tail_mass_truncation=tail_mass)",
        "one.self_compose(max(1, steps // 2), tail_mass_truncation=tail_mass)",
        OF_MECHANISMS + "test_the_two_epsilons_of_the_rigorous_mechanism",
    ),
    edit(
        "a subgraph moves by C",
        SUBGRAPHS + "GraphSplits._gaussian",
        "2 * vectors",
        "vectors",
        OF_SUBGRAPH_MECHANISMS + "test_table_3_and_what_holds_instead",
    ),
    edit(
        "one affected node for all of a part",
        SUBGRAPHS + "NodeClippedSubgraphs.rigorous",
        "self._gaussian(steps, self.most_nodes)",
        "self._gaussian(steps)",
        OF_SUBGRAPH_MECHANISMS + "test_one_node_may_turn_the_gradient_of_every_node_of_a_part_around",
    ),
    edit(
        "fresh subgraphs at the whole noise",
        SUBGRAPHS + "PoissonSubgraphs.dominating_pair",
        "noise / 2",
        "noise",
        OF_SUBGRAPH_MECHANISMS + "test_ten_parts",
    ),
    edit(
        "an unfinished epoch is free",
        SUBGRAPHS + "GraphSplits.epochs",
        "math.ceil(steps / self.num_splits)",
        "max(1, steps // self.num_splits)",
        OF_SUBGRAPH_MECHANISMS + "test_an_unfinished_epoch_counts_whole",
    ),
    edit(
        "an unfinished epoch of lots is free",
        "dpgraph.families.lots.mechanism:ShuffledLots.epochs",
        "math.ceil(steps / self.lots_per_epoch)",
        "max(1, steps // self.lots_per_epoch)",
        "tests/families/lots/test_mechanism.py::test_an_epoch_that_has_begun_counts",
    ),
    edit(
        "rows move by C1",
        PAGERANK_RELEASE + "matrix_sensitivity",
        "2 * num_rows",
        "num_rows",
        OF_PAGERANK_RELEASE + "test_the_sensitivity_is_attained_and_larger_than_the_thesis_says",
    ),
    edit(
        "the release of rows is charged half",
        "dpgraph.families.pagerank.mechanism:PagerankSteps.release_mu",
        "2 * self.rows",
        "self.num_roots",
        OF_PAGERANK_MECHANISMS + "test_rigorous_example",
    ),
    edit(
        "rows are not clipped",
        PAGERANK_RELEASE + "clip_rows",
        "1 / np.maximum(1.0, norms / clip_norm)",
        "np.ones(len(norms))",
        OF_PAGERANK_RELEASE + "test_clipped_matrices_are_within_the_sensitivity",
    ),
    edit(
        "the noise of rows / 1.3",
        PREPARED + "PreparedRows._released",
        "gaussian_release(rows, clip, noise, top_k, random)",
        "gaussian_release(rows, clip, noise / 1.3, top_k, random)",
        OF_FACTS + "test_released_rows_have_the_noise_that_is_accounted_for[gaussian]",
    ),
    edit(
        "the draws of rows at 2 epsilon",
        PREPARED + "PreparedRows._released",
        "exponential_release(rows, clip, noise, top_k, random, values)",
        "exponential_release(rows, clip, 2 * noise, top_k, random, values)",
        OF_FACTS + "test_released_rows_have_the_noise_that_is_accounted_for[exponential]",
    ),
    edit(
        "Gumbel noise of half the scale",
        PAGERANK_RELEASE + "exponential_release",
        "clip_value / epsilon",
        "clip_value / epsilon / 2",
        OF_PAGERANK_RELEASE + "test_the_exponential_mechanism_draws_with_its_weights",
    ),
    edit(
        "a release at all of delta",
        "dpgraph.families.pagerank.variants:_rows",
        "common['delta'] / 2",
        "common['delta']",
        OF_PAGERANK_MECHANISMS + "test_training_epsilon_leaves_the_rest_to_the_release",
    ),
    edit(
        "votes move by 1",
        "dpgraph.families.pate.accountant:capped_epsilon",
        "2 * answers",
        "answers",
        "tests/privacy/test_evaluate.py::test_reference_value[R157]",
    ),
    edit(
        "votes beyond the cap",
        "dpgraph.families.pate.prepared:confident_gnmax",
        "np.flatnonzero(passed)[:max_answers]",
        "np.flatnonzero(passed)",
        "tests/families/pate/test_prepared.py::test_caps_stop_the_run",
    ),
    edit(
        "a search charges one of its seeds",
        "dpgraph.privacy.accountants.tuning:paid_epsilon",
        "repeats * one.rdp(ORDERS)",
        "1 * one.rdp(ORDERS)",
        "tests/privacy/test_tuning.py::test_without_one_off_costs_seeds_are_as_many_more_steps",
    ),
    edit(
        "a search pays whatever its score reads",
        SEARCH_COST + "objections",
        "spec(one.method).variant(one).score(one).objections(one.task.setting, splits)",
        "list[str]()",
        OF_SEARCHES + "test_a_search_over_votes_is_refused",
    ),
    edit(
        "a search asks the trials that were drawn, not those that might be",
        SEARCH_COST + "objections",
        "[trial.cell for trial in trials] + [one for some in tried.values() for one in some if one is not None]",
        "[trial.cell for trial in trials]",
        OF_SEARCHES + "test_what_one_value_of_a_setting_reads_counts_for_all_trials",
    ),
    edit(
        "a search pays for validation nodes that train in other seeds",
        "dpgraph.engine.methods.spec:ScoreReads.objections",
        "self.public is Public.BY_SPLIT and splits > 1",
        "False",
        OF_SEARCHES + "test_seeds_with_splits_of_their_own_have_no_public_validation_nodes",
    ),
    edit(
        "a search pays for a run that proves nothing",
        SEARCH_COST + "tuning_cost",
        "(single := run.rigorous()).epsilon is None",
        "(single := run.rigorous()).delta < 0",
        OF_SEARCHES + "test_a_recorded_run_without_an_epsilon_is_not_accounted",
    ),
    edit(
        "votes read no list in a search",
        "dpgraph.families.votes.spec:score",
        "{spec.ReadBy.RELEASED, spec.ReadBy.OWN_LIST} if listed else {spec.ReadBy.RELEASED}",
        "{spec.ReadBy.RELEASED}",
        OF_SEARCHES + "test_a_search_over_votes_is_refused",
    ),
    edit(
        "steps of a mechanism that runs once do not round",
        "dpgraph.privacy.accountants.composition:_steps_of",
        "pair.times * _steps_of(pair.pair)",
        "1",
        "tests/privacy/test_extremes.py::test_steps_of_a_mechanism_that_runs_once_round_as_well",
    ),
    edit(
        "an answer for code of one's own is kept",
        "dpgraph.privacy.cache:made_elsewhere",
        "return None",
        "return ()",
        "tests/privacy/test_cache.py::test_an_answer_of_a_mechanism_of_ones_own_is_not_kept",
    ),
    edit(
        "a calibration for code of one's own is believed",
        "dpgraph.privacy.calibration:is_answer",
        "made_elsewhere(type(mechanism)) is not None",
        "True",
        "tests/privacy/test_cache.py::test_an_answer_of_a_mechanism_of_ones_own_is_not_kept",
    ),
    edit(
        "a stored noise is believed",
        "dpgraph.privacy.accountants.evaluate:solve_for",
        "epsilon_at(stored) <= epsilon",
        "True",
        "tests/privacy/test_cache.py::test_a_stored_number_that_does_not_meet_the_target_is_no_answer",
    ),
    edit(
        "a stored calibration is believed",
        "dpgraph.privacy.calibration:_stored",
        "answer.seal == _seal(question, answer)",
        "True",
        "tests/privacy/test_cache.py::test_an_edited_calibration_is_no_answer",
    ),
)
