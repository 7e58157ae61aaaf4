"""Public rules: steps, rates, shares of the budget and readers, from declared numbers of a data set and epsilon.

No record is read, so a rule costs no privacy: nodes, training nodes, classes and mean degree are those that the
registry declares. Where the constants come from is in docs/privacy/votes.md#public-rules.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

from dpgraph.core.errors import invalid
from dpgraph.families.votes.caps import VoteCaps, best_caps
from dpgraph.families.votes.sensitivity import ROW_NORM
from dpgraph.privacy.public_numbers import gaussian_mu, usual_delta
from dpgraph.problems.base import Size

# N mu / sqrt(C): N / C records add up in each of C class sums, whose noise is 1 / mu. Below FEW, records of few words
# have class sums; from MANY on, all have 20 steps; else five, whose rate is this number / PER_RATE within two bounds
FEW, MANY, PER_RATE, LEAST_RATE, MOST_RATE = 500.0, 1500.0, 250.0, 0.5, 2.0
# with nearly as many features as records most words are noise: class sums, up to a larger signal
WORDS_PER_NODE, FEW_FOR_WORDS = 0.75, 600.0
# of counts of many words: steps, the clip norm over the largest gradient's, the rate over that of five steps times that
# quotient, and the share of the mean; where records are few for the noise, and where they are MANY
SHORT_OF_FEW, SHORT_OF_MANY = (8, 0.25, 0.7, 0.05), (12, 0.5, 1.0, 0.03)
# under node-remove: below which signal of votes over noise own records are all that is used, and what a bucket in units
# of its noise weighs next to the own prediction, per unit of signal and at most. Records of few words say little
FEW_WORDS = 20.0
WEAK_RECORDS, STRONG_RECORDS = (1.2, 1.0, 1.5), (4.0, 1 / 6, 1.0)
# under node-remove what training gets is what class sums need, between these shares of the squared mu
ENOUGH, LEAST_TRAINING, MOST_TRAINING = 1000.0, 0.15, 0.5
# the same where two hops are read: kappa and beta, which no data may choose (of few words READER_OF_FEW_WORDS), and
# below which signal of all buckets of a node over their noise own records are all that is used
STRANGER_READER, STRANGERS_NEED = {"shrinkage": 1.0, "strength": 2.0}, {True: 1.2, False: 3.0}
READER = {"shrinkage": 3.0, "strength": 4.0}
READER_OF_FEW_WORDS = {"shrinkage": 3.0, "strength": 8.0}
SHARE_OF_FEW_WORDS = 0.7  # own records have little to learn, so that votes get more
# a reader is learnt from where mean degree times N mu / C is LEARNS on, with this share of the squared mu; else one is
# chosen, with a share of epsilon
LEARNS, READER_SHARE, CHOICE = 1750.0, 0.03, 1 / 20
# where training needs most of the budget, nodes vote if mean degree times C is this or more
FEWEST_VOTES = 30.0
MASS = 0.3
LITTLE_MASS = 0.01  # where no reader needs the coordinate that counts voters
Setting = dict[str, Any]


def own_records(size: Size, epsilon: float | None, paid: float = 0.0) -> Setting:
    """Return the settings of training alone, with 1 - `paid` of the squared mu.

    One step of class sums, or several steps, by the signal. Gradients of counts of many words are clipped well below
    their largest norm, so that nearly right records still count for as much as their noise; no iterates are averaged.

    Args:
        size: Declared numbers of the data set.
        epsilon: Target epsilon.
        paid: Share of the squared mu that votes take.
    """
    mu = _mu(size, epsilon) * math.sqrt(1 - paid)
    signal = size.train_nodes * mu / math.sqrt(size.classes)
    bounded = min(max(signal / PER_RATE, LEAST_RATE), MOST_RATE)
    clipped, averaged = 1.0, 0.0
    if _class_sums(size, signal):
        steps, rate, momentum, mean = 1, 3.6, 0.0, 0.1
    elif not (size.signed or _few_words(size)):
        steps, clipped, times, mean = SHORT_OF_MANY if signal >= MANY else SHORT_OF_FEW
        rate, momentum = times * bounded / clipped, 0.5
    elif signal >= MANY:
        steps, rate, momentum, mean, averaged = 20, 1.0, 0.9, 0.03, 0.5
    else:
        steps, momentum, mean, averaged = 5, 0.5, 0.05, 0.5
        rate = MOST_RATE if _few_words(size) else bounded
    if steps > 1:
        rate = round(min(rate, stable_rate(size, momentum)), 3)
    return {
        "model": {"architecture": "mlp", "hops": 0, "encoder_layers": 0, "decoder_layers": 1},
        "training": {
            "optimizer": "sgd",
            "learning_rate": rate,
            "momentum": momentum,
            "steps": steps,
            "sampling_rate": 1.0,
            "averaged_share": averaged,
        },
        "privacy": {
            # the gradient's largest norm at the first step, where all classes are equally likely
            "clip_norm": round(clipped * ROW_NORM * math.sqrt(1 - 1 / size.classes), 6),
            "votes_share": 0.0,
            "mean_share": round(mean * (1 - paid), 6),
            **({"signed_rows": True} if size.signed else {}),
        },
    }


def stable_rate(size: Size, momentum: float) -> float:
    """Return the largest rate at which gradient descent from zero does not oscillate, for records of few words.

    It is 2 (1 + momentum) over the largest curvature of the loss: 1 / C, for softmax at equal probabilities, times the
    largest eigenvalue of the rows' covariance. That is about ROW_NORM^2 / words if one word is in half of all records.
    """
    if size.words is None:
        return math.inf
    return 2 * (1 + momentum) * size.classes * size.words / ROW_NORM**2


def own_graph_cell(setting: Setting, *, roots: int, labelled: int, privacy: Setting) -> Setting:
    """Return the cell of a user's own graph.

    A sum is divided by the number of all roots, and a root without a label adds 0 to it. So the step is longer where
    few roots have a label.

    Args:
        setting: Settings by a rule.
        roots: Number of roots.
        labelled: Number of roots with a label.
        privacy: Settings that replace those of the rule.
    """
    longer = setting["training"]["learning_rate"] * roots / labelled
    return {
        **setting,
        "task": {"dataset": "own-graph"},
        "method": "dp-votes",
        "training": {**setting["training"], "learning_rate": longer},
        "privacy": {**setting["privacy"], **privacy},
        "seeds": [0],
    }


def votes(size: Size, epsilon: float | None) -> Setting:
    """Return the settings under node-null: own records, votes with a chosen reader, or with a learnt one."""
    if _scarce(size, epsilon) and size.entries / size.nodes * size.classes < FEWEST_VOTES:
        return own_records(size, epsilon)
    return learnt_votes(size, epsilon) if learns(size, epsilon) else always_votes(size, epsilon)


def always_votes(size: Size, epsilon: float | None, *, choice: bool = True) -> Setting:
    """Return the settings under node-null, votes included however few add up.

    Votes get 0.3 of the squared mu where training needs the rest, else 0.5, and more where records say little.

    Args:
        size: Declared numbers of the data set.
        epsilon: Target epsilon.
        choice: Pay for the choice of a reader.
    """
    few = _few_words(size)
    share = SHARE_OF_FEW_WORDS if few else 0.3 if _scarce(size, epsilon) else 0.5
    reader: dict[str, Any] = READER_OF_FEW_WORDS if few else READER
    if choice and epsilon is not None:
        reader = {"choice_epsilon": round(CHOICE * epsilon, 6)}  # instead of a fixed one
    setting = own_records(size, epsilon, share)
    return _merged(setting, votes_share=share, vote_mass=MASS, **reader)


def learnt_votes(size: Size, epsilon: float | None) -> Setting:
    """Return the settings under node-null with a learnt reader, which starts from the fixed one."""
    return _merged(always_votes(size, epsilon, choice=False), reader_share=READER_SHARE)


def learns(size: Size, epsilon: float | None) -> bool:
    """Return True if enough votes of a class add up that a learnt reader is worth its noise."""
    return size.entries / size.nodes * size.train_nodes * _mu(size, epsilon) / size.classes >= LEARNS


def _scarce(size: Size, epsilon: float | None) -> bool:
    """Return True if training needs most of the budget."""
    return size.train_nodes * _mu(size, epsilon) < 1000


def votes_with_caps(size: Size, epsilon: float | None) -> Setting:
    """Return the settings under node-remove without a schema: caps with the largest signal in a mean node's bucket."""
    return _one_way(size, epsilon, None)


def votes_with_schema(size: Size, epsilon: float | None) -> Setting:
    """Return the same settings under a bound on degrees that the registry declares as public."""
    return _one_way(size, epsilon, _declared(size, "votes-with-schema"))


def _declared(size: Size, rule: str) -> int:
    """Return the degree bound of the data set; raise UserError without one."""
    if size.degree_bound is None:
        raise invalid("public_rule", rule, "a data set whose registry entry assumes a degree_bound")
    return size.degree_bound


def votes_with_caps_for_strangers(size: Size, epsilon: float | None) -> Setting:
    """Return the settings under node-remove in the view of strangers, without a schema.

    Caps are those of `votes_with_caps`; two hops are read.
    """
    mu, training = _mu(size, epsilon), _training(size, epsilon)
    found = best_caps(size, mu, None, training)
    receivers = size.entries / size.nodes * (1 - min(size.train_nodes / size.nodes, 1.0))
    variant = {"variant": "node-remove-capped-strangers"}
    if found.signal * math.sqrt(1 + receivers) < STRANGERS_NEED[_few_words(size)]:
        return _merged(own_records(size, epsilon), **variant)
    setting = _with_caps(size, epsilon, found, training)
    return _merged(setting, **variant, vote_mass=MASS, **_stranger_reader(size))


def votes_with_schema_for_strangers(size: Size, epsilon: float | None) -> Setting:
    """Return the same settings under a declared bound on degrees: all nodes vote."""
    bound = _declared(size, "votes-with-schema-strangers")
    variant = {"variant": "node-remove-strangers", "degree_bound": bound, "taper": 1.0}
    training, degree = _training(size, epsilon), size.entries / size.nodes
    weight = (2 - 2 * math.sqrt(min(degree / bound, 1.0))) / math.sqrt(bound)
    noise = math.sqrt(1 - 1 / size.classes) / (_mu(size, epsilon) * math.sqrt(1 - training))
    if degree * weight * math.sqrt(1 + degree) / noise < STRANGERS_NEED[_few_words(size)]:
        return _merged(own_records(size, epsilon), **variant)
    setting = own_records(size, epsilon, 1 - training)
    share = round(1 - training - setting["privacy"]["mean_share"], 6)
    return _merged(setting, **variant, votes_share=share, vote_mass=MASS, **_stranger_reader(size))


def _stranger_reader(size: Size) -> Setting:
    """Return the public reader of votes for strangers."""
    return READER_OF_FEW_WORDS if _few_words(size) else STRANGER_READER


def _training(size: Size, epsilon: float | None) -> float:
    """Return the share of the squared mu for training and the mean, where nodes vote under node-remove."""
    training = (ENOUGH / (size.train_nodes * _mu(size, epsilon) / math.sqrt(size.classes))) ** 2
    return round(min(max(training, LEAST_TRAINING), MOST_TRAINING), 4)


@lru_cache
def _one_way(size: Size, epsilon: float | None, degree_bound: int | None) -> Setting:
    """Return the settings of one-way votes with caps, or of own records if the signal is too small."""
    mu, training = _mu(size, epsilon), _training(size, epsilon)
    found = best_caps(size, mu, degree_bound, training)
    extra: Setting = {"variant": "node-remove-capped"}
    if degree_bound is not None:
        extra["degree_bound"] = degree_bound
    needed, slope, most = WEAK_RECORDS if _few_words(size) else STRONG_RECORDS
    if found.signal < needed:
        return _merged(own_records(size, epsilon), **extra)
    strength = round(min(slope * found.signal, most), 3)
    return _merged(_with_caps(size, epsilon, found, training), **extra, vote_mass=LITTLE_MASS, strength=strength)


def _with_caps(size: Size, epsilon: float | None, found: VoteCaps, training: float) -> Setting:
    """Return the settings of training and of votes with these caps; votes get what the other shares leave."""
    setting = own_records(size, epsilon, 1 - training)
    share = round(1 - training - found.hub_share, 6)
    hubs = {"hub_share": found.hub_share, "hub_limit": found.hub_limit} if found.hub_share else {}
    return _merged(
        setting,
        votes_share=round(share - setting["privacy"]["mean_share"], 6),
        degrees_share=found.degrees_share,
        cap_margin=found.margin,
        degree_floor=found.floor,
        **hubs,
    )


def _mu(size: Size, epsilon: float | None) -> float:
    """Return mu of the target epsilon at the usual delta; raise UserError without a target."""
    if epsilon is None:
        raise invalid("privacy.epsilon", None, "a target, from which a public rule makes settings")
    return gaussian_mu(epsilon=epsilon, delta=usual_delta(size.nodes))


def _class_sums(size: Size, signal: float) -> bool:
    """Return True if one step from zero, the classes' sums of records, is better than several steps."""
    many = size.words is not None and size.features >= WORDS_PER_NODE * size.nodes
    return (signal < FEW and _few_words(size)) or (signal < FEW_FOR_WORDS and many)


def _few_words(size: Size) -> bool:
    """Return True for bags of few words."""
    return size.words is not None and size.words < FEW_WORDS


def _merged(setting: Setting, **privacy: Any) -> Setting:
    """Return the setting with further settings of its budget."""
    return {**setting, "privacy": {**setting["privacy"], **privacy}}
