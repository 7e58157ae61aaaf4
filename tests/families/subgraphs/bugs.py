"""Readings of a paper that pass for one another, and runs that stop where nobody charges for it."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit

TREES = "dpgraph.families.trees.published:"
SUBGRAPHS = "dpgraph.families.subgraphs.mechanism:"
PARTS = "dpgraph.families.subgraphs.prepared:"
OF_MECHANISMS = "tests/privacy/test_mechanisms.py::"
OF_SUBGRAPHS = "tests/families/subgraphs/test_mechanism.py::"
OF_SPLITS = "tests/families/subgraphs/test_splits.py::"
STOPPED = OF_SUBGRAPHS + "test_a_run_that_stops_on_validation_labels_proves_nothing[MaskedSubgraphs]"

BUGS = (
    edit(
        "the text's noise at the code's accountant",
        TREES + "PrintedRecords.theorem_1",
        "return True",
        "return self.hops > 0",
        OF_MECHANISMS + "test_dp_mlp_has_two_readings_of_its_noise",
    ),
    edit(
        "the text's noise for trees",
        TREES + "PrintedRecords._check",
        "if self.hops:\n    raise invalid('hops', self.hops, '0: records are read without their neighbours')",
        "",
        OF_MECHANISMS + "test_the_noise_of_the_text_is_of_records_alone",
    ),
    edit(
        "a stopped run keeps its epsilon",
        SUBGRAPHS + "GraphSplits._rigorous",
        "self.stops_early",
        "False",
        STOPPED,
    ),
    edit(
        "a stopped run pays for a search by its Renyi divergence",
        SUBGRAPHS + "GraphSplits._gaussian_rdp",
        "self.stops_early",
        "False",
        STOPPED,
    ),
    edit(
        "the paper's epsilon does not say that labels are read",
        SUBGRAPHS + "GraphSplits._moments",
        "self.stops_early",
        "False",
        STOPPED,
    ),
    edit(
        "proved parts may stop",
        SUBGRAPHS + "GraphSplits._check",
        "self.stops_early and not self.may_stop",
        "False",
        OF_SUBGRAPHS + "test_a_proved_mechanism_may_not_stop_on_validation_labels",
    ),
    edit(
        "proved parts may be asked to stop",
        "dpgraph.families.subgraphs.spec:DpSubgraphCell._stops",
        "patience is not None and not VARIANTS[variant].mechanism.may_stop",
        "False",
        OF_SPLITS + "test_patience_is_refused_where_something_is_proved[rigorous]",
    ),
    edit(
        "a run may stop although its mechanism does not say so",
        PARTS + "PreparedParts.stops",
        "not isinstance(self.mechanism, mechanisms.GraphSplits) or not self.mechanism.stops_early",
        "False",
        OF_SPLITS + "test_no_run_stops_whose_mechanism_does_not_say_so",
    ),
    edit(
        "a stopped run is checked as if it had made all its steps",
        PARTS + "PreparedParts.check",
        "self.mechanism.with_steps(stopped)",
        "self.mechanism",
        OF_SPLITS + "test_a_private_run_stops_and_is_accounted_for[published]",
    ),
)
