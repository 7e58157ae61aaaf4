import numpy as np
import pytest

from dpgraph.core.errors import UserError
from dpgraph.data.readers import arxiv_text
from tests.data.test_readers import ogb_files

CONTENT = "3,0,2\r\n\r\n1\r\n"


def text_files(folder, content=CONTENT):
    ogb_files(folder)
    (folder / "raw" / "node-feat.csv.gz").unlink()  # must not be needed
    (folder / arxiv_text.GUESSES).parent.mkdir()
    (folder / arxiv_text.GUESSES).write_bytes(content.encode())


def test_guesses_become_reciprocal_ranks(tmp_path):
    text_files(tmp_path)
    raw = arxiv_text.read(tmp_path, split="time", columns=4)
    assert np.allclose(raw.features, [[1 / 2, 0, 1 / 3, 1], [0, 0, 0, 0], [0, 1, 0, 0]])
    assert raw.features.dtype == np.float32
    assert raw.labels.tolist() == [4, -1, 1]
    assert raw.directed
    assert "not OGB's" in raw.meta["features_variant"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("\r\n0\r\n1\r\n", [[0, 0], [1, 0], [0, 1]]),
        ("1\n0,1\n\n", [[0, 1], [1, 0.5], [0, 0]]),
        ("\n\n\n", [[0, 0]] * 3),
        ("0\n1\n1", [[1, 0], [0, 1], [0, 1]]),
    ],
)
def test_empty_rows_stay_in_their_places(tmp_path, content, expected):
    text_files(tmp_path, content)
    assert arxiv_text.read(tmp_path, split="time", columns=2).features.tolist() == expected


def test_a_row_of_features_depends_on_the_same_row_of_the_file_only(tmp_path):
    rows = [",".join(map(str, np.random.default_rng(node).permutation(8)[: node % 6])) for node in range(30)]
    path = tmp_path / "guesses.csv"
    path.write_text("\n".join(rows) + "\n")
    before = arxiv_text.ranked_guesses(path, 8)
    path.write_text("\n".join([*rows[:11], "7,1", *rows[12:]]) + "\n")
    after = arxiv_text.ranked_guesses(path, 8)
    assert np.flatnonzero((before != after).any(axis=1)).tolist() == [11]


def test_features_are_zeroed_for_an_exact_public_share_of_nodes(tmp_path, monkeypatch):
    text_files(tmp_path)
    ones = np.ones((101, 2), dtype=np.float32)
    monkeypatch.setattr(arxiv_text, "ranked_guesses", lambda path, columns: ones.copy())
    monkeypatch.setattr(arxiv_text.ogb, "read", lambda *_, **__: arxiv_text.RawGraph(*empty_graph(101)))

    def features(percent):
        return arxiv_text.read(tmp_path, split="time", columns=2, zeroed_percent=percent).features

    half = features(50)
    assert (half.sum(axis=1) == 0).sum() == 50
    assert ((half == 0) | (half == 1)).all()
    assert np.array_equal(half, features(50))
    assert np.array_equal(features(0), ones)
    assert not features(100).any()
    assert len(np.unique(np.flatnonzero(half.sum(axis=1) == 0) % 2)) == 2  # no stripe, no block
    assert (half[:50].sum(axis=1) == 0).sum() not in (0, 50)


def empty_graph(nodes):
    none = np.zeros(0, dtype=np.int64)
    return none, none, None, np.zeros(nodes, dtype=np.int64), np.zeros(nodes, dtype=np.uint8), True


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0,1\n4\n1\n", r"ids 0\.\.4 instead of 0\.\.3"),
        ("0\n-2\n1\n", r"ids -2\.\.1 instead of 0\.\.3"),
        ("0\n1,1\n1\n", "an id twice in one row"),
        ("0,1,2,3,0,1\n1\n1\n", "a row of more than 5 ids"),
        ("1\n0,1,2,3,0,1\n1\n", r"found damage \(.*saw 6"),
        ("0\nx\n1\n", "expected a readable file"),
        ("0\n1.5\n1\n", "expected a readable file"),
        ("0\n1\n", "rows of features=2: expected 3"),
        ("", "rows of features=0: expected 3"),
    ],
)
def test_damage(tmp_path, content, message):
    text_files(tmp_path, content)
    with pytest.raises(UserError, match=message) as error:
        arxiv_text.read(tmp_path, split="time", columns=4)
    assert "\n" not in str(error.value)


def test_share_out_of_range(tmp_path):
    with pytest.raises(UserError, match=r"^zeroed_percent=101: expected an integer in 0\.\.100$"):
        arxiv_text.read(tmp_path, split="time", columns=4, zeroed_percent=101)


def test_missing_file_is_named(tmp_path):
    ogb_files(tmp_path)
    with pytest.raises(UserError, match=r"gpt_preds/ogbn-arxiv\.csv: no such file"):
        arxiv_text.read(tmp_path, split="time", columns=4)
