"""The way from a stranger's files to folders: who may read what, and what is refused."""

import csv
import json
import re
import shlex
from dataclasses import replace
from pathlib import Path

import networkx
import numpy as np
import pytest
import scipy.sparse as sp

from dpgraph.cli import main
from dpgraph.cli.graph import PublicOptions
from dpgraph.cli.graph_options import listed
from dpgraph.core.errors import UserError
from dpgraph.core.progress import progress
from dpgraph.engine.training import loop
from dpgraph.families.votes.epsilon import released_errors
from dpgraph.families.votes.mechanism import READERS, BucketReader
from dpgraph.families.votes.rules import always_votes, own_records, votes
from dpgraph.own_graph import secret
from dpgraph.own_graph.arrays import from_arrays
from dpgraph.own_graph.budget import PublicNumbers, budgeted
from dpgraph.own_graph.fit import fit
from dpgraph.own_graph.model import load
from dpgraph.problems.base import Size

ROOT = Path(__file__).resolve().parents[2]
MARKER = 12345.678901
CLASSES = ["0", "1", "2"]
NAMES = ["chess", "hiking", "music"]


def small(seed=0, size=200, directed=False):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, size)
    ends = rng.integers(0, size, (2, 8 * size))
    ends = ends[:, (labels[ends[0]] == labels[ends[1]]) | (rng.random(8 * size) < 0.2)]
    features = np.eye(3)[labels] + 0.3 * rng.random((size, 3))
    return from_arrays(ends, labels, features, classes=CLASSES, directed=directed)


def write_csv(folder, size=60, marker=None, split=False):
    own = small(size=size)
    with (folder / "nodes.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "label", "a", "b", "c", *(["split"] if split else [])])
        for i in range(size):
            row = list(own.features[i])
            if i == 7 and marker is not None:
                row = [marker, 0, 0]
            part = ["test" if i % 4 == 0 else "train"] if split else []
            writer.writerow([f"n{i}", "" if i % 5 == 0 else NAMES[own.labels[i]], *row, *part])
    with (folder / "edges.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["source", "target"])
        writer.writerows((f"n{u}", f"n{v}") for u, v in zip(own.source, own.target))
    return ["--edges", str(folder / "edges.csv"), "--nodes", str(folder / "nodes.csv"), "--classes", ",".join(NAMES)]


def test_a_release_holds_no_row_of_the_data(tmp_path):
    data = write_csv(tmp_path, marker=MARKER)
    assert main(["fit", *data, "--epsilon", "4", "--out", str(tmp_path / "out")]) == 0
    files = [path for path in (tmp_path / "out/release").rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"model.safetensors", "model.json", "card.json", "card.md", "tradeoff.png"}
    marks = [np.float32(MARKER).tobytes(), np.float64(MARKER).tobytes(), b"12345.67", b"homophily", b"accuracy"]
    for path in files:
        assert not any(mark in path.read_bytes() for mark in marks), path
    card = json.loads((tmp_path / "out/release/card.json").read_text())
    assert card["status"] == "private"
    assert card["epsilon"] <= 4
    assert (card["relation"], card["scope"]) == ("node-null", "joint")
    assert "not private" in (tmp_path / "out/curator/checks.json").read_text()
    assert len((tmp_path / "out/owners/predictions.csv").read_text().splitlines()) == 61


def test_a_known_seed_gives_the_same_numbers_and_no_release(tmp_path):
    data = write_csv(tmp_path)
    for name in ("one", "two"):
        assert main(["fit", *data, "--epsilon", "4", "--seed", "3", "--out", str(tmp_path / name)]) == 0
    assert not (tmp_path / "one/release").exists()
    card = json.loads((tmp_path / "one/not-private/card.json").read_text())
    assert card["status"] == "not private: seed known"
    assert card["epsilon"] is None
    one, two = (tmp_path / f"{name}/not-private/model.safetensors" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_the_card_of_a_known_seed_promises_nothing(tmp_path):
    secret, known = (fit(small(), 4.0, seed=seed, out=tmp_path / str(seed)).card for seed in (None, 1))
    assert any("drawn in secret" in text for text in secret["assumptions"])
    assert not any("drawn in secret" in text for text in known["assumptions"])
    assert "anyone who has it can take the noise off" in known["assumptions"][0]
    texts = [(tmp_path / name / "card.md").read_text() for name in ("None/release", "1/not-private")]
    for said in ("all of it charged", "tradeoff.png"):
        assert said in texts[0]
        assert said not in texts[1]


def test_the_card_has_the_command_and_no_name_of_a_file(tmp_path):
    data = write_csv(tmp_path)
    asked = "--words 2 --signed --mean-degree 12.5 --delta 0.001 --labelled 40 --no-audit --directed"
    assert main(["fit", *data, "--epsilon", "4", *asked.split(), "--out", str(tmp_path / "out")]) == 0
    command = json.loads((tmp_path / "out/release/card.json").read_text())["command"]
    assert set(asked.split()) <= set(command.split())
    assert "csv" not in command
    assert "--seed" not in command


def test_two_releases_differ_and_predictions_are_good_where_noise_is_small():
    own = small(size=600)
    first, second = fit(own, 50.0), fit(own, 50.0)
    assert (first.model.weight != second.model.weight).all()
    held = own.roles != 0
    assert (first.predictions.argmax(1) == own.labels)[held].mean() > 0.9


def test_released_buckets_have_the_noise_that_was_accounted_for():
    """What votes add to the last coordinate depends on lists alone, so two releases differ by their noise there."""
    own = small(size=2000)
    first, second = fit(own, 2.0), fit(own, 2.0)
    gap = first.model.buckets[:, -1] - second.model.buckets[:, -1]
    mechanism = first.card["mechanism"]
    accounted = mechanism["votes_ratio"] * mechanism["noise_multiplier"] * np.sqrt(1 - 1 / 3 + 0.3**2)
    assert np.isclose(first.model.header.std, accounted)
    assert 0.93 < gap.std() / (np.sqrt(2) * accounted) < 1.07
    grid = 2.0**30
    assert (first.model.buckets * grid == np.rint(first.model.buckets * grid)).all()


def test_all_noise_is_what_was_accounted_for_and_a_little_more(monkeypatch):
    """The mean of the rows, each step's weight and bias, and the buckets, in this order and nothing else."""
    drawn, add = [], secret.noised
    monkeypatch.setattr(secret, "noised", lambda values, std, grid, counter: (
        drawn.append((values.shape, std)) or add(values, std, grid, counter)))  # fmt: skip
    fitted = fit(small(), 2.0)
    mechanism = fitted.card["mechanism"]
    steps, noise = mechanism["steps"], mechanism["noise_multiplier"]
    clip, norm = 10 * np.sqrt(1 - 1 / 3), np.sqrt(1 - 1 / 3 + 0.3**2)
    kept = len(fitted.model.mean.kept)
    wanted = [((3,), mechanism["mean_ratio"] * noise), *[((3, kept), noise * clip), ((3,), noise * clip)] * steps]
    wanted.append(((200, 4), mechanism["votes_ratio"] * noise * norm))
    assert [shape for shape, _ in drawn] == [shape for shape, _ in wanted]
    assert np.allclose([std for _, std in drawn], [std * (1 + 2**-10) for _, std in wanted], rtol=1e-6)


def test_the_released_mean_of_the_rows_has_its_noise_and_says_how_records_are_read(tmp_path):
    """Two releases of the same data differ by their noise; rows, also of new nodes, follow from what was released."""
    wide = from_arrays(*words(), classes=CLASSES)
    first, second = (fit(wide, 2.0, method="own", words=10.0) for _ in range(2))
    ratio = (first.model.row_sum - second.model.row_sum).std() / (np.sqrt(2) * first.model.header.mean_std)
    assert 0.85 < ratio < 1.15
    mechanism = first.card["mechanism"]
    assert first.model.header.mean_std == pytest.approx(mechanism["mean_ratio"] * mechanism["noise_multiplier"])
    assert 0 < len(first.model.mean.kept) < 400
    first.model.save(tmp_path)
    loaded = load(tmp_path)
    assert np.array_equal(loaded.row_sum, first.model.row_sum)
    # old nodes that come as new ones are told what they were told: mean, averaged iterates and scale agree
    assert np.allclose(loaded.predict(wide.features), first.predictions, atol=1e-6)
    assert np.allclose(loaded.predict(wide.features[:1]), first.predictions[:1], atol=1e-6)
    moved = replace(loaded, row_sum=np.zeros_like(loaded.row_sum), weight=np.zeros((3, 400)))
    assert not np.allclose(moved.predict(wide.features), first.predictions, atol=1e-3)
    assert "row_sum.csv" in {path.name for path in loaded.write_csv(tmp_path / "tables")}
    head = (tmp_path / "tables/parameters.csv").read_text().splitlines()[0].split(",")
    assert len(head) == len(loaded.mean.kept) + 2


def test_features_that_may_be_negative_are_all_kept():
    """A sum near zero says nothing: without those below the noise, half of what is to be learnt is lost."""
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 1500)
    features = 0.6 * rng.normal(size=(3, 12))[labels] + rng.normal(size=(1500, 12))
    own = from_arrays(np.zeros((2, 0), int), labels, features - features.mean(axis=0), classes=CLASSES)
    right = {}
    for stated in (None, 6.0):
        fitted = fit(own, 20.0, method="own", words=stated)
        right[stated] = (fitted.predictions.argmax(1) == labels)[own.roles != 0].mean()
        assert (fitted.model.weight.shape[1] == 12) == (stated is None)
    assert right[None] > right[6.0] + 0.04


def test_three_features_of_either_sign_are_learnt_from(tmp_path):
    """Of so few features the direction of a small mean is a third of what there is to learn."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, 1500)
    means = 3 * (np.eye(3) - 1 / 3)
    features = (means + 0.3 * means[0])[labels] + rng.normal(size=(1500, 3))
    own = from_arrays(np.zeros((2, 0), int), labels, features, classes=CLASSES)
    fitted = fit(own, 4.0, method="own", out=tmp_path / "out")
    held = own.roles != 0
    assert (fitted.predictions.argmax(1) == labels)[held].mean() > 0.85
    assert np.allclose(load(tmp_path / "out").predict(features), fitted.predictions, atol=1e-6)


@pytest.mark.parametrize(
    ("stated", "kept", "said"),
    [
        ({}, True, "features that are numbers of any kind"),
        ({"words": 9.0}, False, "counts as features, 9 of a mean record not 0 (--words)"),
        ({"words": 9.0, "signed": True}, True, "features of either sign, 9 of a mean record not 0 (--words, --signed)"),
        ({"signed": False}, False, "features that are never negative, most of them not 0 (--no-signed)"),
    ],
)
def test_whether_features_may_be_negative_is_declared(stated, kept, said):
    fitted = fit(from_arrays(*words(), classes=CLASSES), 2.0, method="own", **stated)
    assert fitted.model.header.signed is kept
    assert (len(fitted.model.mean.kept) == 400) is kept
    assert any(said in text for text in fitted.card["assumptions"])
    assert ("which features are kept" in fitted.card["releases"][0]) is not kept


def test_signs_are_an_option_or_what_the_registry_declares():
    def signed(dataset=None, option=None):
        return PublicOptions(signed=option).stated(dataset)["signed"]

    assert [signed(option=option) for option in (None, True, False)] == [None, True, False]
    assert signed("ogbn-arxiv") is True
    assert signed("ogbn-arxiv", False) is False
    assert signed("cora-ml") is None
    public = dict(nodes=90, labelled=30, classes=2, features=4)
    assert [PublicNumbers(**public, **one).may_be_negative for one in ({}, {"words": 2.0})] == [True, False]


def test_a_card_names_as_counted_what_was_taken_from_the_registry_only(tmp_path, monkeypatch):
    said = "the registry's {}: counted on the same files"
    both, one, none = ({}, {"mean_degree": 4.0}, {"mean_degree": 4.0, "words": 50.0})
    found = [PublicOptions(**given).uncovered("cora-ml") for given in (both, one, none)]
    assert found == [(said.format("mean degree and words of a record"),), (said.format("words of a record"),), ()]
    assert PublicOptions().uncovered() == ()
    monkeypatch.setattr(PublicOptions, "uncovered", lambda _, dataset: (f"what {dataset} states",))
    data = ["--dataset", "demo-sbm", "--epsilon", "4", "--no-audit"]
    assert main(["fit", *data, "--out", str(tmp_path / "out")]) == 0
    assert "what demo-sbm states" in json.loads((tmp_path / "out/release/card.json").read_text())["not_covered"]


def words(size=900, features=400):
    """(edges, labels, counts): a dense bag of words with a large common part, as in reviews."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, size)
    chances = np.where(np.arange(features) % 2, 0.5 / (1 + np.arange(features)), 0.0)
    counts = rng.random((size, features)) < chances + 0.02 * (np.arange(features) % 3 == labels[:, None])
    return rng.integers(0, size, (2, 10)), labels, counts.astype(np.float32)


def test_settings_are_those_of_the_benchmark_s_public_rule():
    """One rule of N, C, mean degree, words, signs and epsilon; the step is longer where few roots have a label."""
    for numbers, epsilon in (
        (PublicNumbers(15000, 10500, 6, mean_degree=84.0, features=260), 4.0),
        (PublicNumbers(15000, 10500, 6, mean_degree=84.0, features=260, signed=False), 4.0),
        (PublicNumbers(15000, 10500, 6, mean_degree=84.0, features=260, words=90.0, signed=True), 4.0),
        (PublicNumbers(3000, 2100, 7, mean_degree=5.4, features=2900), 1.0),
        (PublicNumbers(5000, 3000, 6, mean_degree=84.0, features=300, words=4.3), 1.0),
        (PublicNumbers(3000, 2100, 3, mean_degree=3.0, features=2900), 1.0),  # few votes would add up
    ):
        entries = round(numbers.mean_degree * numbers.nodes)
        signed = numbers.words is None if numbers.signed is None else numbers.signed
        size = Size(numbers.nodes, entries, numbers.features, numbers.classes, numbers.labelled,
                    numbers.words or numbers.features, signed=signed)  # fmt: skip
        wanted = {"auto": votes(size, epsilon), "own": own_records(size, epsilon), "votes": always_votes(size, epsilon)}
        for kind, setting in wanted.items():
            cell = budgeted(kind, numbers, epsilon=epsilon).cell
            longer = setting["training"].pop("learning_rate") * numbers.nodes / numbers.labelled
            assert cell.training.learning_rate == pytest.approx(longer)
            for part in ("training", "privacy"):
                assert setting[part].items() <= getattr(cell, part).model_dump().items()
    assert not budgeted("auto", numbers, epsilon=1.0).votes
    assert budgeted("votes", numbers, epsilon=1.0).votes
    beyond = [
        {"words": 0.0},
        {"mean_degree": np.nan},
        {"words": np.inf},
        {"mean_degree": 1e308},
        {"degree_bound": 10**13},
    ]
    for wrong in beyond:
        with pytest.raises(UserError, match=next(iter(wrong)).replace("_", "-")):
            PublicNumbers(3000, 2100, 7, **wrong)


@pytest.mark.parametrize("choice", [False, True])
def test_every_part_of_a_release_is_charged(choice):
    """Steps, mean, votes and choice composed by dp-accounting's privacy loss distributions."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    numbers = PublicNumbers(4000, 4000, 4, mean_degree=30.0, features=700)
    what = budgeted("votes", numbers, epsilon=4.0 if choice else 1.0, all_outputs=not choice)
    mechanism = what.mechanism
    assert (what.choice > 0) == choice
    steps, noise = mechanism.closed()
    together = pld.from_gaussian_mechanism(noise / np.sqrt(steps), value_discretization_interval=1e-3)
    for ratio in (mechanism.mean_ratio, mechanism.votes_ratio):
        together = together.compose(pld.from_gaussian_mechanism(ratio * noise, value_discretization_interval=1e-3))
    if choice:
        responses = pld.from_randomized_response(2 / (1 + np.exp(what.choice)), 2, value_discretization_interval=1e-3)
        together = together.compose(responses)
    for delta in (mechanism.delta, 1e-3):
        assert what.epsilon_at(delta) == pytest.approx(together.get_epsilon_for_delta(delta), abs=0.01)
    assert what.epsilon == pytest.approx(what.epsilon_at(mechanism.delta))
    # the curve of the card: for the test of threshold t, delta(t) is what the errors say
    first, second = released_errors(mu=what.mu, choice=what.choice, thresholds=np.array([what.epsilon]))
    assert 1 - second[0] - np.exp(what.epsilon) * first[0] == pytest.approx(mechanism.delta, rel=1e-3)


def test_a_reader_that_was_chosen_is_paid_for_released_and_used(tmp_path):
    own = small(size=2500)
    fitted = fit(own, 4.0, method="votes", out=tmp_path / "out")
    assert fitted.card["choice_epsilon"] == 0.2
    header = load(tmp_path / "out").header
    assert BucketReader(header.shrinkage, header.strength) in READERS
    card = (tmp_path / "out/release/card.md").read_text()
    assert "and a choice at ε = 0.2" in card
    assert "mean of the rows of all nodes" in card
    none = fit(own, 4.0, scope="all-outputs").card
    assert none["choice_epsilon"] == 0  # it would change no row
    assert not any("exponential mechanism" in text for text in none["releases"])


def test_held_out_labels_change_nothing(tmp_path):
    own = small(size=2500)
    held = own.roles != 0
    other = replace(own, labels=np.where(held, (own.labels + 1) % 3, own.labels))
    for name, one in (("one", own), ("two", other)):
        fit(one, 4.0, seed=1, out=tmp_path / name)
    for name in ("not-private/model.safetensors", "not-private/model.json", "owners/predictions.csv"):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()


def test_progress_is_in_the_user_s_words(tmp_path, monkeypatch):
    named = []
    monkeypatch.setattr(loop, "progress", lambda name, total: named.append(name) or progress(name, total))
    assert main(["fit", *write_csv(tmp_path), "--epsilon", "4", "--no-audit", "--out", str(tmp_path / "out")]) == 0
    (name,) = named
    assert re.fullmatch(r"training on \S*nodes.csv, epsilon 4", name)


def test_all_outputs_are_a_function_of_the_release_alone(tmp_path):
    fitted = fit(small(), 20.0, scope="all-outputs", out=tmp_path / "out")
    assert not (tmp_path / "out/owners").exists()
    assert (tmp_path / "out/release/predictions.csv").is_file()
    assert fitted.card["scope"] == "all outputs"
    assert np.array_equal(load(tmp_path / "out").outputs(), fitted.predictions)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"scope": "all-outputs", "method": "own"}, "no epsilon"),
        ({"relation": "node-removed"}, "did you mean node-remove"),
        ({"method": "voter"}, "did you mean votes"),
        ({"epsilon": -1.0}, "--epsilon"),
        ({"epsilon": 1e-12}, "--epsilon=1e-12: expected a number from 1e-09 to 1e+06"),
        ({"epsilon": 1e200}, "--epsilon=1e+200: expected a number from 1e-09 to 1e+06"),
        ({"delta": 0.5}, "--delta"),
    ],
)
def test_what_has_no_epsilon_is_refused(options, named):
    with pytest.raises(UserError, match=re.escape(named)):
        fit(small(), **{"epsilon": 1.0, **options})


@pytest.mark.parametrize("kind", ["below a file", "a folder", "a link to nowhere", "read only", "too long a name"])
@pytest.mark.parametrize("command", ["fit", "compare", "export", "predict"])
def test_an_output_that_cannot_be_made_is_named_before_data_are_read(command, kind, tmp_path, capsys):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    places = {"below a file": "file/a/out", "a folder": "folder", "a link to nowhere": "link", "read only": "/proc/x"}
    out = tmp_path / places.get(kind, "x" * 300)  # /proc: its rights would let root write there
    none = str(tmp_path / "none")
    data = {"export": [none], "predict": [none, "--nodes", none]}.get(
        command, ["--edges", none, "--nodes", none, "--epsilon", "4"]
    )
    if (command, kind) == ("predict", "a link to nowhere"):  # a file may be written there
        return
    assert main([command, *data, "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert "--out" in said
    assert "a file that can be written: " in said if command == "predict" else "a folder that " in said
    assert not [path for path in tmp_path.rglob(".*")]


def test_predictions_go_to_a_folder_that_is_made(tmp_path):
    names = fit(small(size=40), 4.0, out=tmp_path / "mine").model.header.names
    rows = [["id", *names], *([f"new {place}", *[place] * len(names)] for place in range(3))]
    (tmp_path / "new.csv").write_text("".join(",".join(map(str, row)) + "\n" for row in rows))
    out = tmp_path / "a/b.csv"
    assert main(["predict", str(tmp_path / "mine"), "--nodes", str(tmp_path / "new.csv"), "--out", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 4


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("kind", ["no edges", "ten nodes", "hub", "no features"])
def test_hostile_graphs_give_a_model(kind, directed):
    rng = np.random.default_rng(0)
    size = 10 if kind == "ten nodes" else 80
    edges = {"no edges": np.zeros((2, 0), int), "hub": np.stack([np.zeros(size, int), np.arange(size)])}.get(
        kind, rng.integers(0, size, (2, 200))
    )
    features = None if kind == "no features" else rng.random((size, 2))
    own = from_arrays(edges, np.arange(size) % 2, features, classes=["0", "1"], directed=directed)
    fitted = fit(own, 1.0)
    assert np.isfinite(fitted.predictions).all()
    relations = {one["relation"] for one in fitted.card["beside"]}
    assert ("edge" in relations) == (kind not in ("no features", "ten nodes"))


def test_one_class_and_no_labels_are_refused():
    with pytest.raises(UserError, match="classes=0: expected at least 2"):
        from_arrays(np.zeros((2, 0), int), np.zeros(20, int))
    for classes in (None, ["0", "1"]):
        with pytest.raises(UserError, match=r"no node has a label|labels -1 mean none"):
            from_arrays(np.zeros((2, 0), int), np.full(20, -1), classes=classes)


def test_objects_of_other_libraries_are_the_same_graph():
    from torch import from_numpy
    from torch_geometric.data import Data

    own = small(size=50)
    ends = np.stack([own.source, own.target])
    matrix = sp.coo_matrix((np.ones(len(own.source)), ends), shape=(50, 50))
    graph = networkx.Graph()
    graph.add_nodes_from((i, {"label": int(own.labels[i]), "x": own.features[i]}) for i in range(50))
    graph.add_edges_from(ends.T.tolist())
    data = Data(x=from_numpy(own.features), y=from_numpy(own.labels), edge_index=from_numpy(ends))
    given = [
        fit(own, 4.0, seed=0),
        fit(matrix, 4.0, seed=0, labels=own.labels, features=own.features, classes=CLASSES),
        fit(graph, 4.0, seed=0, classes=CLASSES),
        fit(data, 4.0, seed=0, classes=CLASSES),
        fit(ends, 4.0, seed=0, labels=own.labels, features=own.features, classes=CLASSES),
    ]
    for one in given[1:]:
        assert np.array_equal(one.predictions, given[0].predictions)


def test_a_model_whose_json_is_cut_is_named_with_the_line(tmp_path):
    fit(small(size=40), 4.0).model.save(tmp_path)
    path = tmp_path / "model.json"
    path.write_text(path.read_text()[:300])
    with pytest.raises(
        UserError, match=r"^\S*/model.json: not valid JSON: EOF while parsing .* at line \d+ column \d+$"
    ):
        load(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "flipped", "header", "no file", "mean"])
def test_load_refuses_damaged_folders(damage, tmp_path):
    fitted = fit(small(size=40), 4.0, words=2.0)
    fitted.model.save(tmp_path)
    loaded = load(tmp_path)
    assert np.array_equal(loaded.weight, fitted.model.weight)
    path = tmp_path / "model.safetensors"
    data = path.read_bytes()
    if damage == "no file":
        path.unlink()
    elif damage == "mean":  # whole, but of other features than the parameters
        replace(fitted.model, row_sum=np.array([1e3, -1e3, -1e3])).save(tmp_path)
    elif damage == "header":
        (tmp_path / "model.json").write_text("{}")
    else:
        path.write_bytes(data[:-1] if damage == "cut" else data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(UserError):
        load(tmp_path)


def test_a_failed_run_leaves_no_folder(tmp_path, monkeypatch, capsys):
    def fails(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("dpgraph.own_graph.card.draw_curve", fails)
    with pytest.raises(KeyboardInterrupt):
        fit(small(size=40), 4.0, out=tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["dpgraph.releases.jsonl"]
    assert main(["fit", *write_csv(tmp_path), "--epsilon", "4", "--out", str(tmp_path / "out")]) == 130
    assert "no folder was written" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert not list(tmp_path.glob(".out*"))


def test_the_documented_commands_work(tmp_path, monkeypatch, capsys):
    write_csv(tmp_path, split=True)
    (tmp_path / "new.csv").write_text("id,a,b,c\nnew1,1,0,0\nnew2,0,1,0\n")
    (tmp_path / "new-edges.csv").write_text("source,target\nnew1,n1\nnew1,n2\n")
    monkeypatch.chdir(tmp_path)
    pages = [(ROOT / name).read_text() for name in ("README.md", "docs/reference/own-graph.md")]
    commands = [
        line for page in pages for line in page.splitlines() if re.match(r"dpgraph (fit|predict) .*--out", line)
    ]
    assert len(commands) >= 4
    for command in dict.fromkeys(commands):
        words = shlex.split(command, comments=True)[1:]
        out = tmp_path / words[words.index("--out") + 1]
        if words[0] == "fit" and out.exists():
            continue
        assert main(words) == 0, command
    assert len((tmp_path / "new-predictions.csv").read_text().splitlines()) == 3


def test_class_list_is_read_as_a_csv_row(tmp_path, capsys):
    assert listed('"rot, hell",blau') == listed(' "rot, hell" , blau ') == ["rot, hell", "blau"]
    data = write_csv(tmp_path)
    for wrong, said in (("chess,hiking,", "['chess', 'hiking', '']"), ("", "''"), ("chess,,music", "'', 'music'")):
        data[-1] = wrong
        assert main(["fit", *data, "--epsilon", "4", "--out", str(tmp_path / "out")]) == 2
        assert said in (found := capsys.readouterr().err)
        assert "none that is empty" in found
