"""The releases file: charged before noise is drawn, one sum over all runs on the same data, and nothing lost."""

import json
import math
import multiprocessing
import os
import stat
from dataclasses import replace

import pytest

from dpgraph.cli import main
from dpgraph.own_graph import fit as fitting
from dpgraph.own_graph import releases
from dpgraph.own_graph.fit import fit
from dpgraph.own_graph.releases import RecordedRelease, record, together
from dpgraph.privacy.accountants.gaussian import gaussian_delta
from dpgraph.privacy.relation import Relation
from tests.own_graph.test_fit import small, write_csv
from tests.own_graph.test_relations import NODE_REMOVE, campus


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def made(number=0, **others):
    given = {"relation": "node-null", "epsilon": 1.0, "delta": 1e-5, "mu": 0.3, "choice": 0.0, "failure": 0.0}
    return RecordedRelease(
        id=f"release-{number}", at="now", folder=None, method="votes", scope="others", **given | others
    )


def run(data, out, *others):
    return main(["fit", *data, "--epsilon", "1", "--no-audit", "--out", str(out), *others])


def test_every_release_of_a_file_is_recorded_and_all_are_charged_together(tmp_path, capsys):
    data = write_csv(tmp_path)
    assert run(data, tmp_path / "one") == 0
    first = capsys.readouterr().out
    assert "with this one, 1 release of these data: together epsilon = " in first
    assert "best of several" not in first
    assert run(data, tmp_path / "elsewhere/two", "--delta", "0.0001") == 0
    second = capsys.readouterr().out
    assert "with this one, 2 releases of these data: together epsilon = " in second
    assert "no epsilon covers a choice of the best of several fits" in second
    for name in ("edges", "nodes"):
        path = tmp_path / f"{name}.csv.releases.jsonl"
        assert [one["folder"] for one in lines(path)] == [str(tmp_path / "one"), str(tmp_path / "elsewhere/two")]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    card = json.loads((tmp_path / "one/release/card.json").read_text())
    found = lines(path)[0]
    assert [found[name] for name in ("epsilon", "delta", "mu", "relation")] == [
        card[name] for name in ("epsilon", "delta", "mu", "relation")
    ]


def test_a_card_says_nothing_of_earlier_releases(tmp_path, monkeypatch):
    """They may have been thrown away: that they were is no public fact."""
    data = write_csv(tmp_path)
    for name in ("one", "two"):
        assert run(data, tmp_path / name) == 0
    one, two = ((tmp_path / name / "release/card.json").read_text() for name in ("one", "two"))
    assert one == two
    assert "any other release of these data adds to it" in one


def test_it_is_charged_before_noise_is_drawn_and_a_run_that_dies_stays_charged(tmp_path, monkeypatch):
    data = write_csv(tmp_path)

    def killed(own, what, seed):
        assert len(lines(tmp_path / "nodes.csv.releases.jsonl")) == 1
        raise KeyboardInterrupt("SIGINT")

    monkeypatch.setattr(fitting, "train", killed)
    assert run(data, tmp_path / "one") != 0
    assert len(lines(tmp_path / "nodes.csv.releases.jsonl")) == 1
    assert not (tmp_path / "one").exists()


def test_a_run_of_a_known_seed_is_not_recorded(tmp_path, capsys):
    data = write_csv(tmp_path)
    assert run(data, tmp_path / "one", "--seed", "1") == 0
    assert not list(tmp_path.glob("*.releases.jsonl"))
    assert "together" not in capsys.readouterr().out


def test_other_data_share_a_file_only_where_they_share_an_input(tmp_path, capsys):
    one, two = (tmp_path / name for name in ("a", "b"))
    for folder in (one, two):
        folder.mkdir()
    data, other = write_csv(one), write_csv(two)
    (two / "linked.csv").symlink_to(one / "nodes.csv")
    shared = ["--edges", str(two / "edges.csv"), "--nodes", str(two / "linked.csv"), *data[4:]]
    for number, (given, count) in enumerate([(data, 1), (other, 1), (shared, 3)]):
        assert run(given, tmp_path / str(number)) == 0
        assert f"with this one, {count} release" in capsys.readouterr().out


def test_objects_are_recorded_beside_what_is_written_or_where_the_user_says(tmp_path):
    said = []
    fit(small(size=60), 1.0, out=tmp_path / "out", audit=False, say=said.append)
    assert len(lines(tmp_path / "dpgraph.releases.jsonl")) == 1
    assert any("count as of the same data" in text for text in said)
    fit(small(size=60), 1.0, releases=tmp_path / "mine", say=said.append)
    assert len(lines(tmp_path / "mine")) == 1
    assert any("with this one, 1 release" in text for text in said)
    said.clear()
    fit(small(size=60), 1.0, say=said.append)
    assert any("recorded in no releases file" in text for text in said)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "line 1"),
        (made().model_dump_json(), "line 1: it does not end"),
        (f"{made().model_dump_json()}\n{made().model_dump_json()}\n", "a release twice"),
        (made().model_dump_json().replace('"epsilon":1.0', '"epsilon":-1.0') + "\n", "line 1: epsilon=-1.0"),
        (made().model_dump_json().replace('"mu":0.3', '"mu":NaN') + "\n", "line 1"),
        (made().model_dump_json().replace('"failure":0.0', '"failure":0.1') + "\n", "line 1: failure=0.1"),
        ("\xff\n", "line 1"),
    ],
)
def test_a_damaged_file_ends_the_run_in_one_line_before_noise_is_drawn(text, reason, tmp_path, capsys, monkeypatch):
    data = write_csv(tmp_path)
    path = tmp_path / "nodes.csv.releases.jsonl"
    path.write_bytes(text.encode("latin-1"))
    monkeypatch.setattr(fitting, "train", lambda *given: pytest.fail("noise was drawn"))
    assert run(data, tmp_path / "one") == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"{path}, {reason}" in error or reason in error
    assert path.read_bytes() == text.encode("latin-1")
    assert not (tmp_path / "edges.csv.releases.jsonl").read_text()


def test_a_file_that_cannot_be_written_ends_the_run(tmp_path, capsys, monkeypatch):
    data = write_csv(tmp_path)
    monkeypatch.setattr(fitting, "train", lambda *given: pytest.fail("noise was drawn"))
    assert run(data, tmp_path / "one", "--releases", str(tmp_path)) == 2
    assert "--releases" in capsys.readouterr().err
    monkeypatch.setattr(os, "fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    assert run(data, tmp_path / "one") == 2
    assert "no space left on device: a release is recorded before" in capsys.readouterr().err


def _append(path, first):
    for number in range(first, first + 20):
        record([path], made(number))


def test_two_processes_lose_no_release(tmp_path):
    path = tmp_path / "shared"
    workers = [multiprocessing.get_context("fork").Process(target=_append, args=(path, 100 * i)) for i in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    assert len({one["id"] for one in lines(path)}) == 80


def test_the_sum_is_that_of_gaussian_mechanisms_choices_and_unlikely_events():
    """By hand: 2 mechanisms of mu 3 and 4 are one of mu 5; each delta of an event is added, and each choice."""
    two = [made(0, mu=0.3), made(1, mu=0.4, delta=2e-5)]
    epsilon, delta = together(two, Relation.NODE_NULL)
    assert delta == 2e-5
    assert math.isclose(float(gaussian_delta(mu=0.5, epsilon=epsilon)), 2e-5, rel_tol=1e-6)
    chosen = [made(0, mu=0.3, choice=0.5), made(1, mu=0.4, choice=0.25, delta=2e-5)]
    more = together(chosen, Relation.NODE_NULL)[0]
    assert epsilon < more <= epsilon + 0.75
    lost = [made(0, mu=0.3, failure=4e-6), made(1, mu=0.4, failure=9e-6)]
    epsilon, delta = together(lost, Relation.NODE_NULL)
    assert math.isclose(delta, 6e-6 + 13e-6)
    assert math.isclose(float(gaussian_delta(mu=0.5, epsilon=epsilon)), 6e-6, rel_tol=1e-6)


def test_what_a_release_states_besides_is_added_and_what_it_does_not_state_has_no_sum():
    beside = {"others": [{"relation": "node-null", "epsilon": 2.0, "delta": 3e-5}], "relation": "edge"}
    alone = together([made(0)], Relation.NODE_NULL)
    epsilon, delta = together([made(0), made(1, **beside), made(2, **beside)], Relation.NODE_NULL)
    assert math.isclose(epsilon, alone[0] + 4)
    assert math.isclose(delta, 1e-5 + 6e-5)
    assert together([made(0), made(1, **beside)], Relation.EDGE) is None
    said = releases.in_words([made(0), made(1, **beside)], Relation.EDGE, 100)[0]
    assert "(node-null); none under edge, which one of them does not state" in said
    apart = [made(0), made(1, relation="edge")]
    assert "no relation is stated by each" in releases.in_words(apart, Relation.EDGE, 100)[0]


def test_a_sum_is_rounded_up_and_one_that_promises_nothing_says_so():
    said = releases.in_words([made(0, mu=None, epsilon=1.00001, delta=1.001e-5)], Relation.NODE_NULL, 100)
    assert "together epsilon = 1.001 at delta = 1.01e-05 (node-null)" in said[0]
    assert len(said) == 1
    large = releases.in_words([made(number, mu=None, delta=6e-3) for number in range(2)], Relation.NODE_NULL, 100)
    assert any(text.startswith("warning: together delta is at least 1 / N = 0.01 under node-null") for text in large)


@pytest.mark.parametrize("relation", ["node-null", "node-remove", "edge"])
def test_one_release_costs_what_its_card_says_and_a_second_one_more(relation, tmp_path):
    asked = {"relation": relation, "audit": False, "releases": tmp_path / "file"}
    asked |= {"mean_degree": 60.0} if relation == NODE_REMOVE["relation"] else {}
    own = campus()
    card = fit(own, 8.0, **asked).card
    fit(own, 8.0, **asked)
    found = [RecordedRelease(**one) for one in lines(tmp_path / "file")]
    for one in (Relation(relation), *(Relation(other["relation"]) for other in card["beside"])):
        epsilon, delta = together(found[:1], one)
        stated = card if one == relation else next(other for other in card["beside"] if other["relation"] == one)
        assert (epsilon, delta) == (stated["epsilon"], stated["delta"])
        assert 1.2 * epsilon < together(found, one)[0] <= 2 * epsilon


def test_without_features_no_edge_is_said_to_be_protected(tmp_path):
    own = small(size=60)
    fit(replace(own, features=None), 4.0, releases=tmp_path / "file")
    assert "edge" not in {one["relation"] for one in lines(tmp_path / "file")[0]["others"]}
    fit(own, 4.0, releases=tmp_path / "with")
    assert "edge" in {one["relation"] for one in lines(tmp_path / "with")[0]["others"]}
