"""The mechanism of PATE, from a cell."""

from __future__ import annotations

from dpgraph.errors import invalid
from dpgraph.methods.asked import Asked
from dpgraph.privacy.mechanisms.gnmax import ConfidentGnmax


def confident_gnmax(asked: Asked) -> ConfidentGnmax:
    """Protected are the teachers' records alone: all other images are public."""
    if asked.steps is None:
        raise invalid("steps", "max", "a number: a student's steps cost nothing")
    privacy, common = asked.privacy, asked.common(asked.num_train)
    if privacy.delta is None:
        common["delta"] = asked.default_delta(asked.num_train)
    return ConfidentGnmax(
        **{**common, "num_protected": None},
        max_checks=privacy.max_checks,
        max_answers=privacy.max_answers,
        check_ratio=privacy.check_ratio,
    )
