import gzip
import sys

import numpy as np
import pytest

from dpgraph.data.readers import pokec, pokec_fasttext
from dpgraph.data.text.fasttext import mean_vectors, token_counts
from dpgraph.errors import UserError
from tests.data.test_pokec import toy_profiles
from tests.data.test_pokec import write as write_pokec

VECTORS = {"žltý": [1.0, 2.0, 0.0], "Pes": [0.0, -1.0, 4.0], ".": [3.0, 3.0, 3.0], "unused": [9.0, 9.0, 9.0]}
DOCUMENTS = ["žltý Pes. pes", "", "nič", "Pes Pes žltý", "?!"]


def vec(vectors=VECTORS, header=None):
    lines = [header or f"{len(vectors)} 3", *(f"{word} {' '.join(map(str, row))}" for word, row in vectors.items())]
    return ("\n".join(lines) + "\n").encode()


def test_tokens_are_words_and_punctuation_in_their_own_case():
    words, counts = token_counts(["Ahoj, svet! Ahoj_2", "svet"])
    assert dict(zip(words, counts.toarray()[0].tolist())) == {"Ahoj": 1, ",": 1, "svet": 1, "!": 1, "Ahoj_2": 1}


@pytest.mark.parametrize("zipped", [True, False])
def test_means_over_the_tokens_that_have_a_vector(tmp_path, zipped):
    path = tmp_path / "vectors"
    path.write_bytes(gzip.compress(vec()) if zipped else vec())
    means, meta = mean_vectors(DOCUMENTS, path)
    a, b, dot = (np.array(VECTORS[word]) for word in ("žltý", "Pes", "."))
    assert means.dtype == np.float32
    assert np.allclose(means, [(a + b + dot) / 3, np.zeros(3), np.zeros(3), (a + 2 * b) / 3, np.zeros(3)])
    assert (meta["tokens"], meta["tokens_with_vector"]) == (7, 3)
    assert "left out" in meta["vectors"]


def test_a_row_depends_on_its_document_only(tmp_path):
    path = tmp_path / "vectors"
    path.write_bytes(vec())
    before, _ = mean_vectors(DOCUMENTS, path)
    after, _ = mean_vectors([*DOCUMENTS[:2], "Pes unused", *DOCUMENTS[3:]], path)
    changed = np.arange(5) == 2
    assert np.array_equal(before[~changed], after[~changed])
    assert after[2].tolist() == [4.5, 4.0, 6.5]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (vec(header="word 3"), "first line is not the numbers"),
        (b"", "first line is not the numbers"),
        (vec(header="5 3"), "4 words instead of 5"),
        (vec({**VECTORS, "Pes": [1.0, 2.0]}), "line 3 has 2 numbers instead of 3"),
        (vec({**VECTORS, "Pes": ["x", "y", "z"]}), "could not convert"),
        (gzip.compress(vec(), mtime=0)[:-12], "expected a readable file"),
        (None, "no such file"),
    ],
)
def test_damage_is_one_line(tmp_path, content, message):
    path = tmp_path / "cc.sk.300.vec"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=rf"cc\.sk\.300\.vec: .*{message}") as error:
        mean_vectors(DOCUMENTS, path)
    assert "\n" not in str(error.value)


def test_a_binary_model_without_gensim(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models.fasttext", None)
    path = tmp_path / "model.bin"
    path.write_bytes(b"\xba\x16\x4f\x2f" + bytes(100))
    with pytest.raises(UserError, match=r"expected the package gensim to read it \(pip install 'dpgraph\[text\]'\)"):
        mean_vectors(DOCUMENTS, path)


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    """A small model with subwords, written by gensim in fastText's own format."""
    fasttext = pytest.importorskip("gensim.models.fasttext", reason="package gensim (extra text) is not installed")
    sentences = [["žltý", "pes", "beží"], ["pes", "spí", "."], ["mačka", "spí", "dlho"]] * 5
    model = fasttext.FastText(sentences, vector_size=6, min_count=1, bucket=500, epochs=1, workers=1, seed=1)
    path = tmp_path_factory.mktemp("model") / "model.bin"
    fasttext.save_facebook_model(model, str(path))
    return path, model.wv


def test_binary_model_gives_unknown_words_a_vector(binary, tmp_path):
    path, vectors = binary
    means, meta = mean_vectors(["pes spí", "psík", "", "pes ."], path)
    expected = [
        (vectors["pes"] + vectors["spí"]) / 2,
        vectors["psík"],
        np.zeros(6),
        (vectors["pes"] + vectors["."]) / 2,
    ]
    assert np.allclose(means, expected, atol=1e-6)
    assert np.linalg.norm(means[1]) > 0
    assert "subwords" in meta["vectors"]
    zipped = tmp_path / "model.bin.gz"
    zipped.write_bytes(gzip.compress(path.read_bytes()))
    assert np.array_equal(mean_vectors(["pes spí", "psík", "", "pes ."], zipped)[0], means)


def test_damaged_binary_model(binary, tmp_path):
    path = tmp_path / "cut.bin"
    path.write_bytes(binary[0].read_bytes()[:2000])
    with pytest.raises(UserError, match=r"cut\.bin: ") as error:
        mean_vectors(["pes"], path)
    assert "\n" not in str(error.value)


def test_reader(tmp_path):
    write_pokec(tmp_path, toy_profiles(), [(111, 200)])
    (tmp_path / "toy.vec").write_bytes(b"2 2\nslovo 1 0\nmacka 0 8\n")
    raw = pokec_fasttext.read(tmp_path, per_class=10, label_column_in_text=False, vectors="toy.vec")
    assert raw.data_dependent == (pokec.SELECTION, pokec.STRATA)
    assert raw.features.shape == (20, 2)
    assert set(raw.features[:, 0]) <= {0.0, 1.0}
    assert not raw.features[:, 1].any()
    assert raw.texts is not None
    leaky = pokec_fasttext.read(tmp_path, per_class=10, label_column_in_text=True, vectors="toy.vec")
    assert leaky.features[:, 1].any()
