import gzip
import sys

import numpy as np
import pytest

from dpgraph.core.errors import UserError
from dpgraph.data.readers import pokec, pokec_fasttext
from dpgraph.data.text import fasttext
from dpgraph.data.text.fasttext import mean_vectors, token_counts
from tests.data.test_pokec import toy_profiles
from tests.data.test_pokec import write as write_pokec


def test_tokens_are_words_and_punctuation_in_their_own_case():
    words, counts = token_counts(["Ahoj, svet! Ahoj_2", "svet"])
    assert dict(zip(words, counts.toarray()[0].tolist())) == {"Ahoj": 1, ",": 1, "svet": 1, "!": 1, "Ahoj_2": 1}


def test_a_binary_model_without_gensim(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "gensim.models.fasttext", None)
    path = tmp_path / "model.bin"
    path.write_bytes(b"\xba\x16\x4f\x2f" + bytes(100))
    with pytest.raises(UserError, match=r"expected the package gensim to read it \(pip install 'dpgraph\[text\]'\)"):
        mean_vectors(["pes"], path)


@pytest.fixture(scope="module")
def binary(tmp_path_factory):
    """A small model with subwords, written by gensim in fastText's own format."""
    gensim = pytest.importorskip("gensim.models.fasttext", reason="package gensim (extra text) is not installed")
    sentences = [["žltý", "pes", "beží"], ["pes", "spí", "."], ["mačka", "spí", "dlho"]] * 5
    model = gensim.FastText(sentences, vector_size=6, min_count=1, bucket=500, epochs=1, workers=1, seed=1)
    path = tmp_path_factory.mktemp("model") / "model.bin"
    gensim.save_facebook_model(model, str(path))
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


def test_reader(tmp_path, monkeypatch):
    def vectors(path, words):
        return np.array([[word == "slovo", 8 * (word == "macka")] for word in words], dtype=np.float32)

    monkeypatch.setattr(fasttext, "_from_binary", vectors)
    write_pokec(tmp_path, toy_profiles(), [(111, 200)])
    raw = pokec_fasttext.read(tmp_path, per_class=10, label_column_in_text=False, vectors="toy.bin")
    assert raw.data_dependent == (pokec.SELECTION, pokec.STRATA)
    assert raw.features.shape == (20, 2)
    assert raw.features[:, 0].all()
    assert not raw.features[:, 1].any()
    assert raw.texts is not None
    leaky = pokec_fasttext.read(tmp_path, per_class=10, label_column_in_text=True, vectors="toy.bin")
    assert leaky.features[:, 1].any()


def test_another_file_is_one_line(tmp_path):
    pytest.importorskip("gensim.models.fasttext", reason="package gensim (extra text) is not installed")
    (tmp_path / "cc.sk.300.bin").write_bytes(b"2 2\nslovo 1 0\n")
    with pytest.raises(UserError, match=r"cc\.sk\.300\.bin: .*magic number is another one"):
        mean_vectors(["pes"], tmp_path / "cc.sk.300.bin")
