"""Means of hidden states: with a made-up model everywhere, with a real BertModel where transformers is installed."""

import json

import numpy as np
import pytest
import torch

from dpgraph.core.errors import DataUnavailable, UserError
from dpgraph.data.text.bert import META, ORDER, chunk_path, column_means
from dpgraph.engine.models import text_encoder
from dpgraph.engine.models.text_encoder import TokenizedTexts, batches, encode, load, main

WIDTH, VOCABULARY = 5, 50
TABLE = torch.from_numpy(np.random.default_rng(0).standard_normal((VOCABULARY, WIDTH)).astype(np.float32))


def states(ids, attention):
    """A token's state is its own vector plus the mean over the text's: it sees the other tokens, not the padding."""
    own, mask = TABLE[ids], attention.unsqueeze(2)
    return own + (own * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)


def texts(count=40, longest=30):
    random = np.random.default_rng(1)
    ids = [random.integers(1, VOCABULARY, size).tolist() for size in random.integers(1, longest, count)]
    return TokenizedTexts(ids, [[place not in (0, len(row) - 1) for place in range(len(row))] for row in ids], 0)


def expected(tokenized):
    rows = []
    for ids, counted in zip(tokenized.ids, tokenized.counted):
        vectors = TABLE[torch.tensor(ids)]
        hidden = vectors + vectors.mean(0)
        rows.append(hidden[torch.tensor(counted)].mean(0) if any(counted) else torch.zeros(WIDTH))
    return torch.stack(rows).numpy()


def read(folder):
    order = np.load(folder / ORDER)
    chunks, number = [], 0
    while sum(map(len, chunks)) < len(order):
        chunks.append(np.load(chunk_path(folder, number)))
        number += 1
    result = np.empty((len(order), chunks[0].shape[1]), dtype=np.float32)
    result[order] = np.concatenate(chunks)
    return result, number


@pytest.mark.parametrize("batch_tokens", [1, 37, 4096])
def test_means_over_the_counted_tokens_whatever_the_batch(tmp_path, batch_tokens):
    tokenized = texts()
    encode(tokenized, states, tmp_path, batch_tokens=batch_tokens)
    np.testing.assert_allclose(read(tmp_path)[0], expected(tokenized), rtol=1e-5, atol=1e-6)


def test_batches_are_consecutive_and_bounded():
    lengths = np.array([100, 40, 30, 9, 9, 3, 1])
    parts = list(batches(lengths, 90))
    assert [(part.start, part.stop) for part in parts][:3] == [(0, 1), (1, 3), (3, 13)]
    for part in parts[1:]:
        assert lengths[part].max() * len(lengths[part]) <= 90


def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(text_encoder, "CHUNK_TOKENS", 100)
    tokenized, calls = texts(), []
    encode(tokenized, states, tmp_path / "whole", batch_tokens=40)

    def dying(ids, attention):
        calls.append(len(ids))
        if len(calls) == 9:
            raise KeyboardInterrupt
        return states(ids, attention)

    with pytest.raises(KeyboardInterrupt):
        encode(tokenized, dying, tmp_path / "resumed", batch_tokens=40)
    there = sorted(path.name for path in (tmp_path / "resumed").glob("chunk-*.npy"))
    assert 1 <= len(there) < read(tmp_path / "whole")[1]
    times = {name: (tmp_path / "resumed" / name).stat().st_mtime_ns for name in there}
    encode(tokenized, states, tmp_path / "resumed", batch_tokens=40)
    assert {name: (tmp_path / "resumed" / name).stat().st_mtime_ns for name in there} == times
    names = sorted(path.name for path in (tmp_path / "whole").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "resumed").iterdir())
    for name in names:
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "resumed" / name).read_bytes()


def test_impossible_batch(tmp_path):
    with pytest.raises(UserError, match="batch_tokens=0: expected an integer >= 1"):
        encode(texts(), states, tmp_path, batch_tokens=0)


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh", "##a", "##b", "pes", "ma", "##cka"]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    transformers = pytest.importorskip("transformers", reason="package transformers (extra text) is not installed")
    folder = tmp_path_factory.mktemp("tiny-bert")
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(WORDS) + "\n")
    transformers.BertTokenizer(str(vocabulary), model_max_length=16).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=16,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)
    return folder


COLUMNS = {"one": ["pes macka", "a b", ""], "two": ["a", "a b " * 20, " "], "three": ["", "pes", ""]}


def test_a_real_model_in_its_own_process(checkpoint, tmp_path):
    """Against the library called by hand, text by text; special tokens are not in the means unless requested."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(checkpoint), AutoModel.from_pretrained(checkpoint).eval()

    def by_hand(text, special_tokens):
        ids = tokenizer(text, truncation=True, max_length=16, return_tensors="pt")
        with torch.no_grad():
            hidden = model(**ids).last_hidden_state[0]
        return (hidden if special_tokens else hidden[1:-1]).mean(0).numpy()

    for special in (False, True):
        means, meta = column_means(COLUMNS, checkpoint, tmp_path / "work", special)
        for row, cells in enumerate(zip(*COLUMNS.values())):
            filled = [by_hand(text.strip(), special) for text in cells if text.strip()]
            np.testing.assert_allclose(means[row], np.mean(filled, axis=0) if filled else np.zeros(8), atol=1e-5)
        assert (meta["truncated_texts"], meta["special_tokens_in_means"]) == (1, special)
        again, _ = column_means(COLUMNS, checkpoint, tmp_path / "again", special)
        assert np.array_equal(means, again)


def test_a_checkpoint_that_lacks_weights_is_unavailable(checkpoint, tmp_path):
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "partial"
    folder.mkdir()
    for path in checkpoint.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    weights = load_file(folder / "model.safetensors")
    weights = {name: value for name, value in weights.items() if "layer.1." not in name}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(DataUnavailable, match=r"\d+ weights of the model are missing"):
        load(folder, torch.device("cpu"))
    (folder / "model.safetensors").write_bytes(b"damaged")
    with pytest.raises(DataUnavailable, match="no checkpoint that transformers can read") as error:
        load(folder, torch.device("cpu"))
    assert "\n" not in str(error.value)


def test_command_line(checkpoint, tmp_path, capsys):
    import pandas as pd

    pd.DataFrame({"text": ["pes", "macka a"]}).to_parquet(tmp_path / "texts.parquet")
    arguments = ["--texts", str(tmp_path / "texts.parquet"), "--out", str(tmp_path / "out"), "--device", "cpu"]
    (tmp_path / "out").mkdir()
    assert main([*arguments, "--checkpoint", str(checkpoint)]) == 0
    assert json.loads((tmp_path / "out" / META).read_text())["distinct_texts"] == 2
    assert main([*arguments, "--checkpoint", str(tmp_path / "nowhere")]) == 3
    assert capsys.readouterr().out == f"{tmp_path / 'nowhere'}: no such folder: expected a checkpoint of transformers\n"
    assert main([*arguments, "--checkpoint", str(checkpoint), "--batch-tokens", "0"]) == 2
