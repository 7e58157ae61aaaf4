"""Risk in words: an attacker's advantage and true positives, the budget that has them, and what a release says."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit

CURVE, RISK, BUDGET = (
    "dpgraph.families.votes.epsilon:TradeOff.",
    "dpgraph.own_graph.risk:",
    "dpgraph.own_graph.budget:",
)
FIT, CARD = "dpgraph.own_graph.fit:", "dpgraph.own_graph.card:"
OF_RISK, OF_RELEASE = "tests/own_graph/test_risk.py::", "tests/own_graph/test_release.py::"
OF_FIT = "tests/own_graph/test_fit.py::"
BEST = OF_RISK + "test_both_numbers_are_those_of_the_best_test[{}]"
KEPT = OF_RISK + "test_a_budget_stated_as_an_advantage_is_kept_and_used[{}]"
WEAK = OF_RISK + "test_a_release_that_protects_hardly_anybody_is_never_called_private_without_saying_so[True]"

BUGS = (
    edit(
        "the advantage of half the mu",
        CURVE + "advantage",
        "max(self.mu, LEAST_MU)",
        "max(self.mu / 2, LEAST_MU)",
        BEST.format("1.12-0-0"),
    ),
    edit(
        "an advantage without its choice",
        CURVE + "advantage",
        "self.choice",
        "0.0",
        BEST.format("0.9-0.2-0"),
    ),
    edit(
        "an advantage without unlikely events",
        CURVE + "advantage",
        "float(1 - first[0] - second[0]) + self.failure",
        "float(1 - first[0] - second[0])",
        BEST.format("1.0-0.4-0.05"),
    ),
    edit(
        "true positives without unlikely events",
        CURVE + "true_positives",
        "1 - second + math.exp(loss) * (FALSE_ALARMS - first) + self.failure",
        "1 - second + math.exp(loss) * (FALSE_ALARMS - first)",
        BEST.format("1.0-0.4-0.05"),
    ),
    edit(
        "true positives at another rate of false ones",
        CURVE + "true_positives",
        "errors(loss)[0] - FALSE_ALARMS",
        "errors(loss)[0] - 10 * FALSE_ALARMS",
        BEST.format("1.12-0-0"),
    ),
    edit(
        "true positives without a choice",
        CURVE + "true_positives",
        "self.choice",
        "0.0",
        BEST.format("0.9-0.2-0"),
    ),
    edit(
        "a curve without unlikely events",
        CURVE + "errors",
        "second - self.failure",
        "second",
        BEST.format("1.0-0.4-0.05"),
    ),
    edit(
        "the risk of a run without what its rule chooses",
        BUDGET + "BudgetedRun.trade_off",
        "TradeOff(mu=self.mu, choice=self.choice, failure=self.failure)",
        "TradeOff(mu=self.mu, choice=0.0, failure=self.failure)",
        OF_RISK + "test_a_curve_has_the_epsilon_that_is_stated_under_every_relation[True]",
    ),
    edit(
        "the risk of a run without unlikely events",
        BUDGET + "BudgetedRun.trade_off",
        "TradeOff(mu=self.mu, choice=self.choice, failure=self.failure)",
        "TradeOff(mu=self.mu, choice=self.choice)",
        OF_RISK + "test_a_curve_of_unlikely_events_counts_them",
    ),
    edit(
        "the risk of a release without its choice of classes",
        BUDGET + "BudgetedRun.trade_off",
        "self.paid is None",
        "True",
        OF_RISK + "test_a_choice_of_classes_is_in_the_curve_whatever_was_chosen[node-null]",
    ),
    edit(
        "the risk of one outcome of a choice of classes",
        BUDGET + "BudgetedRun.trade_off",
        "found.mu > whole.mu or found.choice + float(self.paid.epsilon) > whole.choice",
        "False",
        OF_RISK + "test_a_run_beyond_what_classes_leave_has_no_curve",
    ),
    edit(
        "the risk of classes without their delta",
        RISK + "with_classes",
        "selection.delta + unlikely",
        "unlikely",
        OF_RISK + "test_a_choice_of_classes_is_in_the_curve_whatever_was_chosen[node-null]",
    ),
    edit(
        "the risk of classes without a reader that may be chosen",
        RISK + "with_classes",
        "spent + reader",
        "spent",
        OF_RISK + "test_a_choice_of_classes_is_in_the_curve_whatever_was_chosen[node-null]",
    ),
    edit(
        "an edge beside has the risk of one utility",
        BUDGET + "BudgetedRun.trade_off_beside",
        "TradeOff(mu=float(np.hypot(moved * self.training_mu, mu)), choice=choice)",
        "TradeOff(mu=float(np.hypot(moved * self.training_mu, mu)), choice=self.choice)",
        OF_RISK + "test_a_curve_has_the_epsilon_that_is_stated_under_every_relation[True]",
    ),
    edit(
        "a replaced record beside has the risk of a null one",
        BUDGET + "BudgetedRun.trade_off_beside",
        "moved * self.training_mu",
        "self.training_mu",
        OF_RISK + "test_a_curve_has_the_epsilon_that_is_stated_under_every_relation[False]",
    ),
    edit(
        "numbers of a risk are rounded down",
        RISK + "rounded_up",
        "math.ceil(value * digits)",
        "math.floor(value * digits)",
        OF_RISK + "test_numbers_of_known_budgets",
    ),
    edit(
        "an advantage that was asked for is passed",
        RISK + "epsilon_for",
        "-CLOSE * advantage <= excess(place) <= 0",
        "-CLOSE * advantage <= excess(place) <= CLOSE",
        KEPT.format("0.6-node-remove"),
    ),
    edit(
        "half of an advantage that was asked for",
        RISK + "epsilon_for",
        "-CLOSE * advantage <= excess(place) <= 0",
        "excess(place) <= 0",
        KEPT.format("0.01-node-remove"),
    ),
    edit(
        "no release is weak",
        RISK + "weakness",
        "advantage < HARDLY_ANYBODY",
        "True",
        WEAK,
    ),
    edit(
        "only a certain attacker is warned of",
        RISK + "weakness",
        "advantage < HARDLY_ANYBODY",
        "advantage < 0.95",
        OF_RISK + "test_a_warning_begins_at_nine_tenths[0.9-True]",
    ),
    edit(
        "a weak release is called private",
        "dpgraph.own_graph.model:status_of",
        "weakness(advantage or 0.0) or PRIVATE",
        "PRIVATE",
        WEAK,
    ),
    edit(
        "a weak release is affordable, and that is all",
        FIT + "afford",
        "f', but that {weak}'",
        "''",
        WEAK,
    ),
    edit(
        "two budgets are taken",
        BUDGET + "check_budget",
        "(epsilon is None) == (advantage is None)",
        "epsilon is None and advantage is None",
        OF_RISK + "test_a_budget_is_stated_once_and_within_limits[both]",
    ),
    edit(
        "of few features a small mean is taken off",
        "dpgraph.families.votes.rows:RowMean.direction",
        "LARGE_MEAN * self.rows ** 2",
        "0.0",
        OF_FIT + "test_three_features_of_either_sign_are_learnt_from",
    ),
    edit(
        "a field of a card that no list has",
        CARD + "_risk",
        "dict(zip(RISK, found))",
        "dict(zip((*RISK, 'more'), (*found, 1)))",
        OF_RELEASE + "test_every_field_that_is_listed_is_that_of_a_release_and_the_rest_of_the_list_is_the_code_s",
    ),
    edit(
        "a public field of a model reads a label",
        FIT + "model_of",
        "own.directed",
        "bool(own.labels[7] >= 0)",
        OF_RELEASE + "test_neighbours_release_the_same_but_for_declared_noise[null, stated]",
    ),
    edit(
        "a public field of a model follows from noisy counts",
        FIT + "model_of",
        "own.features is None",
        "len(own.classes) == 2",
        OF_RELEASE + "test_what_is_listed_as_public_does_not_follow_from_noisy_counts[null]",
    ),
    edit(
        "a line of the screen that counts labels",
        FIT + "fit",
        "say(afforded)",
        "say(f'{int((own.labels >= 0).sum())} labels')",
        OF_RELEASE + "test_neighbours_release_the_same_but_for_declared_noise[null, stated]",
    ),
    edit(
        "an output that cannot be made is found after data are read",
        "dpgraph.cli.graph:fit",
        "check_out(out)",
        "None",
        OF_FIT + "test_an_output_that_cannot_be_made_is_named_before_data_are_read[fit-below a file]",
    ),
    edit(
        "a folder that may not be written is found after training",
        "dpgraph.core.files:check_out",
        'os.rmdir(tempfile.mkdtemp(prefix=f".{path.name}." if folder else None, dir=above))',
        "pass",
        OF_FIT + "test_an_output_that_cannot_be_made_is_named_before_data_are_read[compare-read only]",
    ),
)
