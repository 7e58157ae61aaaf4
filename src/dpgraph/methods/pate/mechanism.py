"""The mechanism of PATE, from a cell."""

from __future__ import annotations

from dpgraph.errors import invalid
from dpgraph.methods.asked import Asked
from dpgraph.privacy.mechanisms.gnmax import ConfidentGnmax


def confident_gnmax(asked: Asked) -> ConfidentGnmax:
    """Protected are the teachers' records alone, and all other images are public; delta is set for all images."""
    if asked.steps is None:
        raise invalid("steps", "max", "a number: a student's steps cost nothing")
    privacy = asked.privacy
    return ConfidentGnmax(
        **asked.common(asked.num_train),
        max_checks=privacy.max_checks,
        max_answers=privacy.max_answers,
        check_ratio=privacy.check_ratio,
    )
