"""What a validation score reads, of every private method, and whether a search over it has an epsilon."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from dpgraph.audits.graphs import directed_graph, without_node
from dpgraph.config.cell import Cell
from dpgraph.config.experiment import Search
from dpgraph.config.streams import trial_seeds
from dpgraph.data.graph import Graph
from dpgraph.data.records import TRAIN, VALIDATION
from dpgraph.engine.methods.spec import Public, ReadBy, ScoreReads
from dpgraph.families.registry import spec, specs
from dpgraph.families.votes.audit import MASS, NORM, prepared_votes
from dpgraph.families.votes.mechanism import BucketReader
from dpgraph.planning.plan import Entry
from dpgraph.planning.resolve import calibrate, mechanism_for
from dpgraph.privacy.accountants import tuning
from dpgraph.privacy.relation import Relation
from dpgraph.reporting.views.search.cost import objections, tuning_cost
from tests.contract.cells import CELLS, PRIVATE, changed

SEARCH = Search(strategy="random", trials=5, distribution="geometric", space={"training.learning_rate": (0.1, 0.2)})
EDGES = "validation scores read training records along edges (setting transductive)"
NO_EPSILON = "a single run has no proved epsilon"
READS = "validation scores read labels of "
# By method and variant, the first words of the refusals in the settings transductive and disjoint; empty: it is paid.
# Cells of images and of relations have one setting.
EXPECTED: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "dp-gnn rigorous": ((EDGES,), ()),
    "dp-gnn rigorous-fixed-size": ((EDGES,), ()),
    "dp-gnn published": ((NO_EPSILON, EDGES), (NO_EPSILON,)),
    "dp-mlp rigorous": ((), ()),
    "dp-mlp node-remove": ((), ()),
    "dp-mlp rigorous-fixed-size": ((), ()),
    "dp-mlp published": ((NO_EPSILON,), (NO_EPSILON,)),
    "dp-mlp published-text": ((NO_EPSILON,), (NO_EPSILON,)),
    "dp-residual rigorous": ((EDGES,), ()),
    "dp-lots rigorous": ((), ()),
    "dp-lots components": ((), ()),
    "dp-lots published": ((), ()),
    "dp-lots released": ((NO_EPSILON,), (NO_EPSILON,)),
    "dp-appr rigorous": ((EDGES,), ()),
    "dp-appr published": ((EDGES,), ()),
    "dp-subgraph rigorous": ((EDGES,), ()),
    "dp-subgraph cut": ((EDGES,), ()),
    "dp-subgraph published": ((EDGES, READS), (READS,)),
    "dp-subgraph per-node": ((EDGES, READS), (READS,)),
    "dp-subgraph released": ((NO_EPSILON, EDGES, READS), (NO_EPSILON, READS)),
    "dp-pure-noise published": ((EDGES, READS), (READS,)),
    "dp-pure-noise per-node": ((EDGES, READS), (READS,)),
    "dp-gap rigorous": ((READS,), (READS,)),
    "dp-gap node-remove": ((READS,), (READS,)),
    "dp-gap published": ((READS,), (READS,)),
    "dp-gap edge": ((), ()),
    "dp-progap rigorous": ((READS,), (READS,)),
    "dp-progap node-remove": ((READS,), (READS,)),
    "dp-progap published": ((READS,), (READS,)),
    "dp-progap edge": ((), ()),
    "dp-edge-votes rigorous": ((), ()),
    "dp-dgc rigorous": ((READS,), (READS,)),
    "dp-dgc published": ((READS,), (READS,)),
    "dp-votes rigorous": (("validation scores read own lists", READS),) * 2,
    "dp-votes rigorous, one hop": ((READS,), (READS,)),
    "dp-votes rigorous, no votes": ((), ()),
    "dp-votes rigorous, raw graph": (("validation scores read training records along edges",), ()),
    "dp-votes node-remove-capped": ((READS,), (READS,)),
    "dp-votes node-remove-strangers": (("validation scores read own lists", READS),) * 2,
    "dp-votes node-remove-capped-strangers": (("validation scores read own lists", READS),) * 2,
    "dp-node-pate rigorous": ((READS,), (READS,)),
    "dp-units class": ((READS,), (READS,)),
    "dp-units subclass": ((READS,), (READS,)),
    "dp-units kmeans": ((NO_EPSILON, READS), (NO_EPSILON, READS)),
    "dp-units record": ((), ()),
    "dp-pate rigorous": ((), ()),
    "dp-pate published": ((), ()),
    "dp-relation-head rigorous": ((READS,), (READS,)),
    "dp-relation-head standard": ((NO_EPSILON, READS), (NO_EPSILON, READS)),
    "dp-relation-head published": ((NO_EPSILON, READS), (NO_EPSILON, READS)),
    "dp-relation-head released": ((NO_EPSILON, READS), (NO_EPSILON, READS)),
    "dp-relation-encoder rigorous": ((READS,), (READS,)),
    "dp-relation-encoder standard": ((NO_EPSILON, READS), (NO_EPSILON, READS)),
    "dp-relation-encoder published": ((NO_EPSILON, READS), (NO_EPSILON, READS)),
    "dp-relation-encoder released": ((NO_EPSILON, READS), (NO_EPSILON, READS)),
}


def kind(cell: Cell) -> str:
    """Return method and variant, and what else of the settings changes what a score reads."""
    told: Any = cell.privacy
    special = ""
    if cell.method == "dp-votes":
        special = (
            ", raw graph"
            if told.raw_inference
            else ", no votes"
            if not told.votes_share
            else ", one hop"
            if told.one_hop
            else ""
        )
    return f"{cell.method} {told.variant}{special}"


def entries(cell: Cell, trials: int = 3, seeds: int = 1) -> list[Entry]:
    """Return independent trials of one cell; what heads their rows is not read."""
    unread: Any = None
    return [
        Entry("p/a", "m", unread, "t", unread, 6.0, cell.model_copy(update={"seeds": trial_seeds(number, seeds)}))
        for number in range(trials)
    ]


def reasons(cell: Cell, search: Search = SEARCH, seeds: int = 1) -> list[str]:
    return objections(search, entries(cell, seeds=seeds))


def in_setting(name: str, setting: str) -> Cell:
    own = spec(CELLS[name].method).problems == ("node-classification",) or CELLS[name].task.dataset == "toy"
    return changed(name, task={"setting": setting}) if own else CELLS[name]


@pytest.mark.parametrize("place", [0, 1], ids=["transductive", "disjoint"])
@pytest.mark.parametrize("name", PRIVATE)
def test_every_private_cell_is_paid_or_refused_as_declared(name: str, place: int) -> None:
    """Why the score of each paid one is a function of the release and of data that are equal on both sides.

    The protected one, v, is none of the public validation nodes V in all of these (Theorem 31), or the relation changes
    no record.

    dp-gnn, dp-residual, dp-subgraph rigorous and cut, dp-appr with inference steps (disjoint): no path leads from V to
    another part, so predictions of V are functions of the parameters and of V's features and edges; training reads no
    node of V. Transductive, a list of V may hold v: refused.
    dp-mlp, dp-lots, dp-appr without inference steps, dp-votes without votes and mean: a prediction reads the parameters
    and the node's own features, and training reads training nodes alone, so edges matter in no setting.
    dp-gap and dp-progap, edge variants: features and labels are the same on both sides; a prediction reads them and
    released sums, no list.
    dp-units record, dp-pate: one training image changes; images of V and their classes do not.
    """
    found = reasons(in_setting(name, ("transductive", "disjoint")[place]))
    expected = EXPECTED[kind(CELLS[name])][place]
    assert len(found) == len(expected), found
    assert all(reason.startswith(words) for reason, words in zip(found, expected, strict=True)), found


def test_every_variant_of_every_private_method_declares_what_a_score_reads() -> None:
    """No variant has another one's declaration by default, and no row of the table is left over."""
    seen = set()
    for name in PRIVATE:
        cell = CELLS[name]
        reads = spec(cell.method).variant(cell).score(cell)
        assert isinstance(reads, ScoreReads)
        assert reads.records
        assert bool(reads.protected) == (reads.public is Public.NO)
        seen.add(kind(cell))
    named = {f"{one.name} {variant}" for one in specs().values() for variant in one.variants}
    assert {text.partition(",")[0] for text in seen} == named
    assert seen == set(EXPECTED)


@pytest.mark.parametrize("name", PRIVATE)
def test_declared_reads_agree_with_the_scope_of_predictions(name: str) -> None:
    """Raw records of others are read by scores exactly where the mechanism's scope leaves predictions out."""
    cell = CELLS[name]
    known = spec(cell.method)
    others = known.variant(cell).score(cell).records & {ReadBy.RAW_GRAPH, ReadBy.CANDIDATES}
    assert bool(others) == (known.inference(cell) == "the raw graph")


@pytest.mark.parametrize("name", PRIVATE)
def test_a_relation_that_protects_more_than_training_data_is_never_paid(name: str) -> None:
    """Any graph, a class with its validation images, entities: neighbours differ in what judges."""
    cell = in_setting(name, "disjoint")
    relation = spec(cell.method).variant(cell).mechanism.relation
    everybody = (Relation.GRAPH, Relation.CLASS, Relation.SUBCLASS, Relation.ENTITY, Relation.NONE)
    if relation in everybody:
        assert reasons(cell)


def test_seeds_with_splits_of_their_own_have_no_public_validation_nodes() -> None:
    """A node that judges in one seed trains in another one, so no node but few is outside of all validation parts."""
    cell = changed("dp-mlp-0-rigorous", task={"split": "random-60-15-25"})
    assert reasons(cell) == []
    said = "the seeds have 3 splits: validation nodes of one are training nodes of another"
    assert reasons(cell, seeds=3) == [said]
    assert reasons(changed("dp-mlp-0-rigorous"), seeds=3) == []
    assert reasons(changed("dp-gap-edge", task={"split": "random-60-15-25"}), seeds=3) == []


def test_what_one_value_of_a_setting_reads_counts_for_all_trials() -> None:
    """A law over settings has to hold for each that may be drawn, and trials without hops say nothing of the others."""
    cell = changed("dp-appr-random-rigorous", pagerank={"inference_steps": 0})
    search = SEARCH.model_copy(update={"space": {"pagerank.inference_steps": (0, 2)}})
    assert reasons(cell) == []
    assert EDGES in reasons(cell, search)


# ---- the example of a false epsilon ----------------------------------------------------------------------------------

LEAVES, HUB, OTHER = 400, 0, 401
STRENGTH = Search(strategy="random", trials=5, distribution="geometric", space={"privacy.strength": (0, 8)})
STRANGERS = {"variant": "node-remove-strangers", "degree_bound": LEAVES, "taper": 1.0}


def hubs() -> tuple[Graph, np.ndarray]:
    """Two hubs of 400 leaves each, and own predictions of all nodes, which no edge changes.

    Leaves of the first are of class 0, which their own records do not tell; a quarter of them judge. Of the other one's
    leaves 320 train, of class 0, and 80 judge, of class 1, as their own records say.
    """
    size = 2 * LEAVES + 2
    ids = np.arange(size)
    first, second = (ids > HUB) & (ids < OTHER), ids > OTHER
    judge = (first & (ids % 4 == 0)) | (second & (ids > OTHER + 320))
    labels = np.where(second & judge, 1, 0)
    chances = np.where((second & judge)[:, None], [0.1, 0.8, 0.1], [0.15, 0.7, 0.15])
    ends = np.array([*((HUB, leaf) for leaf in ids[first]), *((OTHER, leaf) for leaf in ids[second])])
    both = np.concatenate([ends, ends[:, ::-1]])
    split = np.where(judge, VALIDATION, TRAIN)
    return directed_graph(both[:, 0], both[:, 1], np.ones((size, 2)), labels, split, 3), chances


def right(graph: Graph, chances: np.ndarray, strength: float, noise: float, seed: int) -> int:
    """Count right predictions of validation nodes, from buckets with noise of so many votes' norm."""
    step = prepared_votes(graph, 0, **STRANGERS)
    ballots = step.ballots()
    cast = ballots.ballots(step.labels_that_vote, chances, MASS)
    std = noise * NORM
    released = ballots.buckets(cast)
    released = released + std * np.random.default_rng(seed).standard_normal(released.shape)
    read = ballots.read(released, cast, MASS, std, 1.0)
    predicted = ballots.scores(chances, read, BucketReader(1.0, strength)).argmax(axis=1)
    judges = np.asarray(graph.split) == VALIDATION
    return int((predicted == np.asarray(graph.labels))[judges].sum())


@pytest.mark.parametrize("noise", [0.02, 0.2, 1.0, 3.0])
def test_a_training_node_that_leaves_moves_the_winner_of_a_search_over_votes(noise: float) -> None:
    """Under node-remove no finite epsilon holds of a search over strength: the winner is sure on either side."""
    graph, chances = hubs()
    assert graph.split[HUB] == TRAIN
    wins = [
        [right(one, chances, 8, noise, seed) > right(one, chances, 0, noise, seed) for seed in range(10)]
        for one in (graph, without_node(graph, HUB))
    ]
    assert np.mean(wins, axis=1).tolist() == [1.0, 0.0]


def test_a_search_over_votes_is_refused() -> None:
    cell = changed("dp-votes-node-remove-strangers", privacy={"noise_multiplier": 2.0, "epsilon": None})
    mechanism = mechanism_for(cell, 400, 802).model_dump(mode="json")
    cost = tuning_cost(STRENGTH, entries(cell), mechanism)
    assert math.isnan(cost.epsilon)
    assert cost.reason == (
        "tuning not accounted: validation scores read own lists, which a node that leaves changes; validation scores "
        "read labels of validation nodes, whose records and edges the run reads and protects"
    )
    assert "\n" not in cost.reason


def test_a_recorded_run_without_an_epsilon_is_not_accounted() -> None:
    """At the paper's delta the mechanism of a variant that proves something still proves nothing."""
    cell = changed("dp-lots-0-published", privacy={"noise_multiplier": 2.0, "epsilon": None, "delta": 0.5})
    mechanism = mechanism_for(cell, 100).model_dump(mode="json")
    cost = tuning_cost(SEARCH, entries(cell), mechanism)
    assert math.isnan(cost.epsilon)
    assert cost.reason.startswith(f"tuning not accounted: {NO_EPSILON}: delta = 0.5 is not a number < 1 / num_roots")


def test_a_variant_named_as_a_papers_may_be_paid() -> None:
    """What counts is whether a single run has a proof, not what its variant is called."""
    cell = changed("dp-lots-0-published", privacy={"noise_multiplier": 8.0, "epsilon": None})
    run = mechanism_for(cell, 100, 200)
    cost = tuning_cost(SEARCH, entries(cell), run.model_dump(mode="json"))
    single = run.rigorous().epsilon
    assert cost.reason == ""
    assert single is not None
    assert single < cost.epsilon < 4 * single


PAID = [name for name in PRIVATE if not EXPECTED[kind(CELLS[name])][1]]


@pytest.mark.parametrize("name", PAID)
def test_divergences_that_a_search_composes_state_no_less_than_a_run(name: str) -> None:
    """Renyi divergences are looser than privacy-loss distributions: a lower epsilon would be a forgotten part."""
    if name.startswith("dp-appr") and CELLS[name].pagerank.epsilon_share is not None:
        run: Any = calibrate(CELLS[name], 300, num_protected=900).mechanism
    else:
        run = mechanism_for(changed(name, privacy={"noise_multiplier": 4.0, "epsilon": None}), 300, 900)
    single = run.rigorous().epsilon
    if single is None:
        pytest.skip("nothing is proved at these settings")
    by_divergences = tuning._CurveAccountant(tuning.ORDERS)
    by_divergences.compose(tuning._Curve(run.rdp(tuning.ORDERS)))
    assert single <= 1.001 * float(by_divergences.get_epsilon(run.delta)) < 2 * single + 0.1
