"""Cases of audits: each private method brings its own, and what they say is what its mechanism says of itself."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dpgraph.audits.cases import (
    ALL_KINDS,
    KINDS,
    NODE_TEACHER_KINDS,
    TEACHER_KINDS,
    TUPLE_KINDS,
    UNIT_KINDS,
    Settings,
    kinds,
    mechanism_of,
    multiplier,
)
from dpgraph.core.errors import UserError
from dpgraph.families.registry import specs


def test_every_private_method_brings_a_case_for_each_variant() -> None:
    # attacked by families/aggregates/audit.py and families/aggregates/embedding_audit.py
    rest = {name: kind for name, kind in ALL_KINDS.items() if kind.reads in ("sums", "lists")}
    others = {**TUPLE_KINDS, **TEACHER_KINDS, **NODE_TEACHER_KINDS, **UNIT_KINDS, **rest}
    assert kinds(specs().values()) == {**KINDS, **others}
    assert {kind.method for kind in ALL_KINDS.values()} == {name for name, one in specs().items() if one.private}


@pytest.mark.parametrize("name", [name for name, one in specs().items() if one.private])
def test_a_private_method_without_a_case_is_refused(name: str) -> None:
    one = specs()[name]
    with pytest.raises(UserError, match=rf"^attacks=none: expected a case for each variant of {name}: "):
        kinds([replace(one, attacks=())])
    unknown = replace(one.attacks[0], variant="unheard-of")
    with pytest.raises(UserError, match=r"^attacks=.*unheard-of"):
        kinds([replace(one, attacks=(*one.attacks, unknown))])


@pytest.mark.parametrize("name", KINDS)
def test_a_case_agrees_with_the_mechanism(name: str) -> None:
    """Written twice on purpose: `accounted` and `facts` compare the same with what runs."""
    kind, settings = KINDS[name], Settings()
    mechanism = mechanism_of(kind, settings, 40)
    assert mechanism.shape.batches is kind.batches
    assert kind.silent or mechanism.shape.clipped is kind.clipping
    assert mechanism.noise_std_over_clip == pytest.approx(settings.noise)
    assert multiplier(kind, settings, 40) == mechanism.noise_multiplier
    assert mechanism.relation is kind.relation
