"""Readings of a paper that pass for one another, and runs that stop where nobody charges for it."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit

TREES = "dpgraph.privacy.mechanisms.published_trees:"
OF_MECHANISMS = "tests/privacy/test_mechanisms.py::"

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
        "if self.hops:",
        "if False:",
        OF_MECHANISMS + "test_the_noise_of_the_text_is_of_records_alone",
    ),
)
