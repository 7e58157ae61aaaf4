"""A graph that shows whether the predictions of others give a record away.

A canary has no label. Its record holds the words of class 1, or none, by a fair coin. Only its friends list
it. The outcome of the coin is their label: a friend's prediction guesses the coin, and test accuracy counts right
guesses. A canary's list stays as it is where its record has no words: it is read for its own prediction alone. All
other nodes have a class, words that tell of it, neighbours of the same class, and no canary among these: a model
depends on a coin only through what a method reads of nodes without a label.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from dpgraph.config.frozen import Frozen
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.records import NO_SPLIT, TEST, TRAIN, VALIDATION

WORDS = 6  # in every record; as many tell of each class, and twice as many of none
ALL_WORDS = 4 * WORDS
OWN_CLASS, OTHER_CLASS = 0.4, 0.2  # chances that a word of a labelled record tells of a class; else of none
FIRST_CLASS = 0.6  # share of labelled records: a record without words counts to the class of no canary
RING = 3  # neighbours on either side, of the ring of a class


class Canaries(Frozen):
    """The numbers of nodes of each kind."""

    name: str = Field(description="Key of the random generators")
    canaries: Annotated[int, Field(ge=2, description="Records that are there or not")]
    friends: Annotated[int, Field(ge=1, description="Of each canary")]
    train: Annotated[int, Field(ge=20, description="Training nodes")]
    validation: Annotated[int, Field(ge=2)]


def generate(model: Canaries) -> RawGraph:
    """Make the graph: labelled nodes, then canaries, then the friends of each. It depends on the parameters alone."""
    labelled, friends = model.train + model.validation, model.canaries * model.friends
    present = numpy_generator(model.name, "coins").random(model.canaries) < 0.5
    classes = (numpy_generator(model.name, "classes").random(labelled) >= FIRST_CLASS).astype(np.int64)
    canaries = labelled + np.arange(model.canaries)
    centres = np.repeat(canaries, model.friends)
    rings = [_ring(np.flatnonzero(classes == one)) for one in (0, 1)]
    source = np.concatenate([*(ring[0] for ring in rings), centres])
    target = np.concatenate([*(ring[1] for ring in rings), labelled + model.canaries + np.arange(friends)])
    features = np.zeros((labelled + model.canaries + friends, ALL_WORDS), dtype=np.float32)
    features[:labelled] = _labelled_words(model, classes)
    features[canaries[present], WORDS : 2 * WORDS] = 1
    plain = numpy_generator(model.name, "friends").random((friends, 2 * WORDS)).argsort(axis=1)[:, :WORDS]
    np.put_along_axis(features[labelled + model.canaries :, 2 * WORDS :], plain, 1.0, axis=1)
    kinds = (model.train, model.validation, model.canaries, friends)
    return RawGraph(
        source,
        target,
        features,
        np.concatenate([classes, np.full(model.canaries, -1), np.repeat(present, model.friends).astype(np.int64)]),
        np.repeat(np.array([TRAIN, VALIDATION, NO_SPLIT, TEST], dtype=np.uint8), kinds),
        directed=False,
        meta={"generated": model.model_dump(mode="json")},
    )


def _ring(nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.tile(nodes, RING), np.concatenate([np.roll(nodes, step) for step in range(1, RING + 1)])


def _labelled_words(model: Canaries, classes: np.ndarray) -> np.ndarray:
    """Return (labelled, ALL_WORDS) 1 where one of WORDS draws gave the word."""
    random = numpy_generator(model.name, "words")
    kind = random.random((len(classes), WORDS))
    word = random.integers(0, WORDS, (len(classes), WORDS))
    own, other = classes[:, None] * WORDS + word, (1 - classes[:, None]) * WORDS + word
    none = 2 * WORDS + random.integers(0, 2 * WORDS, (len(classes), WORDS))
    columns = np.where(kind < OWN_CLASS, own, np.where(kind < OWN_CLASS + OTHER_CLASS, other, none))
    features = np.zeros((len(classes), ALL_WORDS), dtype=np.float32)
    np.put_along_axis(features, columns, 1.0, axis=1)
    return features
