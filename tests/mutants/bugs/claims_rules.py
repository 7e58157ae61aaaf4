"""Verdicts on claims that read as more than they show."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit

PARTS = "dpgraph.reporting.claims.parts:"
TABLE = "dpgraph.reporting.claims.table:"
RANKING = "dpgraph.reporting.ranking:"
COVERAGE = "dpgraph.reporting.coverage:"
OF_RULES = "tests/reporting/claims/test_rules.py::"
OF_CLAIMS = "tests/reporting/claims/test_claims.py::"
OF_COVERAGE = "tests/reporting/test_coverage.py::"
OF_NAMES = "tests/reporting/leaderboard/test_names.py::"

BUGS = (
    edit(
        "a substitute's data are taken for the paper's own",
        "dpgraph.config.claim:OwnResults.covers",
        "part.items() <= task.items()",
        "part.keys() <= task.keys()",
        OF_RULES + "test_what_is_not_named_is_a_substitute",
    ),
    edit(
        "another mechanism is taken for the paper's own",
        "dpgraph.config.claim:OwnResults.covers",
        'f"{cell.method}{variant}"',
        'pattern if pattern.startswith(cell.method) else ""',
        OF_RULES + "test_what_is_not_named_is_a_substitute",
    ),
    edit(
        "substitutes decide a paper's claim",
        TABLE + "_compared",
        "if own is not None: ...",
        "if False: ...",
        OF_RULES + "test_substitutes_decide_nothing_and_are_said_beside",
    ),
    edit(
        "two data sets of four are the whole sentence",
        TABLE + "_compared",
        "if own and left: ...",
        "if False: ...",
        OF_RULES + "test_a_sentence_on_all_data_sets_is_not_run_on_two_of_four",
    ),
    edit(
        "what is above the margin counts as a larger effect",
        "dpgraph.reporting.claims.contrasts:Above.p_larger",
        "max(self.effect, self.margin + found)",
        "self.margin",
        OF_CLAIMS + "test_a_weak_test_reproduces_an_effect_that_it_finds_half_of_the_time[value1-underpowered]",
    ),
    edit(
        "a larger effect is one that its test hardly finds",
        "dpgraph.reporting.claims.contrasts:Above.p_larger",
        "max(self.effect, self.margin + found)",
        "self.effect",
        OF_CLAIMS + "test_a_weak_test_reproduces_an_effect_that_it_finds_half_of_the_time[value2-underpowered]",
    ),
    edit(
        "a printed effect need not be exceeded",
        "dpgraph.reporting.claims.contrasts:Above.p_larger",
        "max(self.effect, self.margin + found)",
        "self.margin + found",
        OF_CLAIMS + "test_a_printed_effect_must_be_exceeded_too",
    ),
    edit(
        "one comparison that is larger stands for all of its part",
        "dpgraph.reporting.claims.verdicts:_result",
        "max(one.p_larger for one in testable)",
        "min(one.p_larger for one in testable)",
        OF_CLAIMS + "test_a_larger_effect_is_one_of_every_comparison_and_part_in_one_whole_way",
    ),
    edit(
        "the larger of two effects is picked without a correction",
        "dpgraph.reporting.claims.verdicts:Comparison.p_larger",
        "len(self.ways) * max(one.p_larger(level) for one in way)",
        "max(one.p_larger(level) for one in way)",
        OF_CLAIMS + "test_a_larger_effect_is_one_of_every_comparison_and_part_in_one_whole_way",
    ),
    edit(
        "a larger effect of what the usual test does not show",
        "dpgraph.reporting.claims.verdicts:_result",
        "p_for < LEVEL",
        "True",
        OF_CLAIMS + "test_a_larger_effect_needs_the_usual_test_and_five_seeds",
    ),
    edit(
        "a premise that fails is passed over",
        PARTS + "PartResult.holds",
        "return PREMISE_FAILS",
        "return REPRODUCED",
        OF_RULES + "test_a_premise_comes_first_and_says_its_numbers",
    ),
    edit(
        "a premise that could not have been shown fails",
        PARTS + "PartResult.holds",
        "self.power >= SURE or self.p_against < LEVEL",
        "True",
        OF_RULES + "test_a_premise_comes_first_and_says_its_numbers",
    ),
    edit(
        "an open premise lets the claim through",
        PARTS + "judged",
        "(INCONCLUSIVE, premises)",
        "(INCONCLUSIVE, ())",
        OF_RULES + "test_a_premise_comes_first_and_says_its_numbers",
    ),
    edit(
        "cells of one graph are unpaired where another has more seeds",
        "dpgraph.reporting.claims.contrasts:contrast",
        "tuple(samples[name].index)",
        "name",
        "tests/reporting/claims/test_contrasts.py::test_cells_of_one_graph_stay_paired_where_another_has_more_seeds",
    ),
    edit(
        "a point is the effect of every unit",
        "dpgraph.reporting.claims.contrasts:Above.effect",
        "self.margin + self.contrast.point",
        "self.margin + 1.0",
        "tests/reporting/claims/test_power.py::test_the_effect_is_a_hundredth_of_the_range",
    ),
    edit(
        "a small network is taken for the paper's own",
        "dpgraph.config.claim:OwnResults.covers",
        "told[path] not in values",
        "False",
        OF_RULES + "test_what_is_not_named_is_a_substitute",
    ),
    edit(
        "a premise without rows holds",
        PARTS + "PartResult.holds",
        "NOT_RUN if self.missing or not self.tested else INCONCLUSIVE",
        "REPRODUCED",
        OF_RULES + "test_a_premise_comes_first_and_says_its_numbers",
    ),
    edit(
        "parts are tested without Holm's correction",
        PARTS + "judged",
        "holm(np.array([one.p_against if one.tested else 1.0 for one in parts]))",
        "np.array([one.p_against if one.tested else 1.0 for one in parts])",
        OF_RULES + "test_the_size_of_a_contradiction_is_at_most_five_percent[0.0-4]",
    ),
    edit(
        "parts without rows do not count in Holm's correction",
        PARTS + "judged",
        "one.p_against if one.tested else 1.0",
        "one.p_against",
        OF_RULES + "test_holms_correction_is_over_all_parts_run_or_not",
    ),
    edit(
        "a claim is reproduced where one part is",
        PARTS + "judged",
        "all(one.verdict == REPRODUCED for one in parts)",
        "any(one.verdict == REPRODUCED for one in parts)",
        OF_RULES + "test_a_conjunction_is_as_its_parts",
    ),
    edit(
        "four seeds give a verdict",
        PARTS + "PartResult.decided",
        "self.n < FEWEST",
        "self.n < 2",
        OF_RULES + "test_four_seeds_give_no_verdict",
    ),
    edit(
        "readings that differ have one verdict",
        PARTS + "over_readings",
        "len(decided) > 1",
        "len(decided) > 3",
        OF_RULES + "test_readings_that_differ_are_said_to",
    ),
    edit(
        "a part is taken from the suite that agrees most",
        "dpgraph.reporting.claims.page:_strongest",
        "one[1].n",
        "one[1].power",
        OF_RULES + "test_each_part_is_taken_from_the_suite_with_most_seeds",
    ),
    edit(
        "a failed premise counts as power without a word",
        "dpgraph.reporting.claims.page:strong_enough",
        "_is_strong(row, False)",
        "_is_strong(row, True)",
        "tests/reporting/claims/test_claims.py::test_claims_that_only_a_failed_premise_makes_strong_are_named",
    ),
    edit(
        "a table is complete with one seed a cell",
        COVERAGE + "_fewest",
        "seeds >= FEWEST",
        "seeds >= 1",
        OF_COVERAGE + "test_a_cell_counts_with_five_seeds_that_ended_well",
    ),
    edit(
        "a failed run completes a table",
        COVERAGE + "_seeds_by_cell",
        'rows["final"] & (rows["status"] == "ok")',
        'rows["final"]',
        OF_COVERAGE + "test_a_cell_counts_with_five_seeds_that_ended_well",
    ),
    edit(
        "any metric of a cell completes a figure",
        COVERAGE + "_fewest",
        "rows.get(metrics[name], none)",
        "rows.iloc[:, -1]",
        OF_COVERAGE + "test_a_cell_counts_with_seeds_of_the_metric_that_is_shown",
    ),
    edit(
        "one mechanism has a name in each file",
        RANKING + "label_of",
        'getattr(cell.privacy, "neighbour_clip_ratio", None) != 0',
        "True",
        OF_NAMES + "test_one_mechanism_has_one_name_in_all_files",
    ),
    edit(
        "a row below the floor of its relation is ranked as if it were worth its epsilon",
        RANKING + "below_floor",
        "not _shown_above(by_seed[place], by_seed[best])",
        "_shown_above(by_seed[place], by_seed[best])",
        OF_NAMES + "test_a_row_at_edge_level_below_an_mlp_says_so[edge-84.7-public-True]",
    ),
    edit(
        "a row whose mean is above its floor by chance counts as above it",
        RANKING + "_shown_above",
        "(untested or told.p_above(0.0) < LEVEL)",
        "True",
        OF_NAMES + "test_a_floor_that_a_row_is_not_significantly_above_is_named",
    ),
    edit(
        "every relation has the floor of edges",
        RANKING + "below_floor",
        "Relation(relation)",
        "Relation.EDGE",
        OF_NAMES + "test_every_ranking_has_the_floor_of_its_relation[node-null]",
    ),
    edit(
        "a method that reads nothing is ranked",
        RANKING + "with_floors",
        'rows["kind"] != FREE',
        'rows["kind"] != ""',
        OF_NAMES + "test_every_ranking_has_the_floor_of_its_relation[node-null]",
    ),
    edit(
        "a legend has one line more",
        "dpgraph.reporting.drawing.lines:chosen_methods",
        "order[:most]",
        "order[:most + 1]",
        "tests/reporting/drawing/test_lines.py::test_a_legend_has_six_lines_of_what_has_points",
    ),
    edit(
        "variants of one family take the lines of others",
        "dpgraph.reporting.drawing.lines:chosen_methods",
        "others.index.map(families).duplicated()",
        "others.index.duplicated()",
        "tests/reporting/drawing/test_lines.py::test_six_lines_show_the_best_of_each_family_before_its_second_variant",
    ),
    edit(
        "a series without a point is in the legend",
        "dpgraph.reporting.views.privacy_utility:Style.handles",
        '(points["method"] == method).any()',
        "True",
        "tests/reporting/views/test_privacy_utility.py::test_a_series_without_a_point_has_no_legend_entry",
    ),
)
