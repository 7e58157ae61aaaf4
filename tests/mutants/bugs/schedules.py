"""Learning rates that do not follow their schedule."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit

OPTIMIZERS, OF_TUPLES = "dpgraph.engine.training.optimizers:", "tests/families/tuples/test_tuples.py::"

BUGS = (
    edit(
        "the first step of a warm-up moves",
        OPTIMIZERS + "WarmedUpStep.share",
        "return done / self.warm_up",
        "return (done + 1) / self.warm_up",
        OF_TUPLES + "test_the_learning_rate_rises_and_falls_linearly",
    ),
    edit(
        "a resumed run warms up again",
        OPTIMIZERS + "WarmedUpStep.start_at",
        "self.done = step",
        "self.done = 0",
        OF_TUPLES + "test_a_killed_run_goes_on_bit_by_bit",
    ),
)
