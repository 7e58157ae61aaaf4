"""Claims of a paper: their parts, premises and readings, and what is the paper's own (docs/reference/claims.md)."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from dpgraph.config.cell import Cell
from dpgraph.config.claim_tests import Computed, NotTested, OtherTest, Points, SimpleTest
from dpgraph.config.expansion import flat
from dpgraph.config.frozen import Finite


class AllOf(Finite):
    """Several tests that must all hold."""

    kind: Literal["all"] = "all"
    tests: tuple[Annotated[SimpleTest | OtherTest, Field(discriminator="kind")], ...] = Field(min_length=2)


MARGINS = ("margin", "above", "by")  # of kinds that say that something is above it
Premise = Annotated[SimpleTest, Field(discriminator="kind")]


class OwnResults(Finite):
    """A paper's own data and mechanisms; all that is not named here is a substitute, and decides no claim of it."""

    data: tuple[dict[str, str], ...] = Field(min_length=1)
    """Parts of a task: {dataset: cora, split: train-rest}; what is not named may be any"""
    mechanisms: tuple[str, ...] = Field(min_length=1)
    """method, or method/variant for a private one, as the package calls them: dp-gnn/published; * matches any
    characters"""
    settings: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """Values of settings of its networks and attacks by path, where a cell has them: {inversion.steps: [100, 5000]}"""

    def covers(self, cell: Cell) -> bool:
        """Return whether the data, the mechanism and the network of a cell are the paper's own."""
        told = flat(cell.model_dump(mode="json"))
        if any(path in told and told[path] not in values for path, values in self.settings.items()):
            return False
        task = cell.task.model_dump(mode="json")
        variant = "" if cell.privacy is None else f"/{cell.privacy.variant}"
        return any(part.items() <= task.items() for part in self.data) and any(
            fnmatchcase(f"{cell.method}{variant}", pattern) for pattern in self.mechanisms
        )


class Claim(Finite):
    sentence: Annotated[str, Field(min_length=10, max_length=600)] | None = None
    """The paper's own words, shortened by … ; null: a claim of this project, not a paper's"""
    statement: str
    source: str = Field(description="Section, table or figure of the paper")
    own_numbers: str = Field(default="", description="What the paper's own printed numbers say of it")
    premises: tuple[Premise, ...] = ()
    """Premises of the sentence, tested on the same data; `part` says it in words. Where one is not shown at
    5 % the claim has no other verdict than that"""
    readings: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Readings of the paper by name: words of the tests, or their endings ("-published"), each with what stands in its
    place. None: the tests as they are. Each reading has a verdict"""
    asserts: Points | None = None
    """The difference that the statement names, where the paper prints none: what power is about. Larger than the margin
    of the claim's tests"""
    test: Annotated[SimpleTest | AllOf | OtherTest, Field(discriminator="kind")]

    @model_validator(mode="after")
    def _asserts_more_than_margins(self) -> Claim:
        margins = [getattr(part, name) for part in self.parts for name in MARGINS if hasattr(part, name)]
        if self.asserts is not None and not (margins and max(margins) < self.asserts):
            raise ValueError(
                f"asserts={self.asserts:g}: expected more than the margin of the tests, of greater, "
                f"weighted-sum or monotone"
            )
        return self

    @model_validator(mode="after")
    def _premises_are_sentences(self) -> Claim:
        if not all(premise.part for premise in self.premises):
            raise ValueError("premises: expected `part`, the premise in words, in each")
        return self

    @property
    def tests(self) -> tuple[SimpleTest | OtherTest, ...]:
        """Tests of the sentence."""
        return self.test.tests if isinstance(self.test, AllOf) else (self.test,)

    @property
    def parts(self) -> tuple[SimpleTest, ...]:
        """The tests on results; none where the claim is computed or not run."""
        return tuple(one for one in self.tests if not isinstance(one, Computed | NotTested))

    @property
    def by_part(self) -> dict[str, list[SimpleTest | OtherTest]]:
        """Tests by the name of their part."""
        found: dict[str, list[SimpleTest | OtherTest]] = {}
        for one in self.tests:
            found.setdefault(one.part, []).append(one)
        return found

    def read_as(self, reading: str) -> Claim:
        """Return the claim with the words of a reading."""
        changes = self.readings.get(reading, {})
        return Claim.model_validate(_reworded(self.model_dump(mode="json"), changes)) if changes else self

    @property
    def read(self) -> dict[str, Claim]:
        """Return the tests by reading; one without a name where the paper is read in one way."""
        return {name: self.read_as(name) for name in self.readings} or {"": self}


def _reworded(value: Any, changes: Mapping[str, str]) -> Any:
    """Return nested plain data whose texts are changed: those that a key names, and those that end with "-…", a key.

    >>> _reworded({"artefact": "fig5.1-after-q", "methods": ["gm-published"]}, {"-after-q": "", "-published": "-x"})
    {'artefact': 'fig5.1', 'methods': ['gm-x']}
    >>> _reworded(["record", "dp-record"], {"record": "subclass"})
    ['subclass', 'dp-record']
    """
    if isinstance(value, str):
        end = next((one for one in changes if value == one or (one.startswith("-") and value.endswith(one))), "")
        return value.removesuffix(end) + changes[end] if end else value
    if isinstance(value, Mapping):
        kept = ("readings", "sentence", "statement", "source", "own_numbers", "part")
        return {key: part if key in kept else _reworded(part, changes) for key, part in value.items()}
    return [_reworded(part, changes) for part in value] if isinstance(value, list | tuple) else value
