"""Texts to vectors by a pre-trained transformer (Devlin et al., 2019), as a process of its own that can be resumed.

`python -m dpgraph.engine.models.text_encoder --texts texts.parquet --checkpoint FOLDER --out FOLDER`. Prints no text,
only its error in one line: exit status 3 if there is no such checkpoint, 2 for another mistake of the user.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from dpgraph.core.errors import DataUnavailable, UserError, invalid
from dpgraph.core.files import atomic_path, write_json
from dpgraph.core.progress import progress
from dpgraph.data.text.bert import META, ORDER, UNAVAILABLE, chunk_path

BATCH_TOKENS = 4096  # of a batch, padding included
CHUNK_TOKENS = 1 << 16  # about, of a file: what a killed run loses at most
States = Callable[[Tensor, Tensor], Tensor]  # ids (b, L), attention mask (b, L) -> last hidden layer (b, L, d)


@dataclass(frozen=True)
class TokenizedTexts:
    """Word pieces of texts, cut at the model's longest input."""

    ids: list[list[int]]
    counted: list[list[bool]]  # tokens that the mean is over
    truncated: int


def encode(
    tokenized: TokenizedTexts,
    states: States,
    out: Path,
    device: str | torch.device = "cpu",
    batch_tokens: int = BATCH_TOKENS,
) -> None:
    """Write the means (n, d) float32 of the hidden states over the counted tokens of each text, as `out`/chunk-*.npy.

    Texts are taken by descending length, the order in `out`/order.npy, so that batches hold little padding and the time
    left is not overstated. Every `CHUNK_TOKENS` tokens are a file, written atomically: a killed run goes on after the
    last one and ends with the same bytes. A text without counted tokens is zeros.
    """
    if batch_tokens < 1:
        raise invalid("batch_tokens", batch_tokens, "an integer >= 1")
    lengths = np.array([len(ids) for ids in tokenized.ids])
    order = np.argsort(-lengths, kind="stable")
    with atomic_path(out / ORDER) as temporary:
        np.save(temporary, order)
    piece = np.cumsum(lengths[order]) // CHUNK_TOKENS
    chunks = np.split(order, np.flatnonzero(np.diff(piece)) + 1)
    todo = [(chunk, chunk_path(out, number)) for number, chunk in enumerate(chunks)]
    todo = [(chunk, path) for chunk, path in todo if not path.exists()]
    with progress("encode texts", int(sum(lengths[chunk].sum() for chunk, _ in todo)), "token") as bar:
        for chunk, path in todo:
            parts = []
            for batch in batches(lengths[chunk], batch_tokens):
                parts.append(_means(tokenized, chunk[batch], states, device))
                bar.update(int(lengths[chunk[batch]].sum()))
            with atomic_path(path) as temporary:
                np.save(temporary, np.concatenate(parts))


def batches(lengths: np.ndarray, batch_tokens: int) -> Iterator[slice]:
    """Yield consecutive texts whose padded tokens are at most `batch_tokens`, or one text."""
    start = 0
    while start < len(lengths):
        stop = start + max(1, batch_tokens // max(int(lengths[start]), 1))
        yield slice(start, stop)
        start = stop


@torch.inference_mode()
def _means(tokenized: TokenizedTexts, texts: np.ndarray, states: States, device: str | torch.device) -> np.ndarray:
    longest = max(1, len(tokenized.ids[texts[0]]))
    ids = torch.zeros(len(texts), longest, dtype=torch.int64)
    attention, counted = torch.zeros_like(ids), torch.zeros(len(texts), longest)
    for row, text in enumerate(texts):
        size = len(tokenized.ids[text])
        ids[row, :size] = torch.tensor(tokenized.ids[text], dtype=torch.int64)
        attention[row, :size] = 1
        counted[row, :size] = torch.tensor(tokenized.counted[text], dtype=torch.float32)
    counted = counted.to(device).unsqueeze(2)
    total = (states(ids.to(device), attention.to(device)).float() * counted).sum(1)
    return (total / counted.sum(1).clamp_min(1)).cpu().numpy()


def load(checkpoint: Path, device: torch.device) -> tuple[Callable[[Sequence[str], bool], TokenizedTexts], States]:
    """Load tokenizer and model from a local folder, never from the network.

    Raises DataUnavailable where transformers finds no whole checkpoint, UserError where there is no transformers.
    """
    try:
        from transformers import AutoModel, AutoTokenizer
        from transformers import logging as transformers_logging
    except ImportError:
        raise UserError(
            f"{checkpoint}: expected the package transformers to read it (pip install 'dpgraph[text]')"
        ) from None
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    if not checkpoint.is_dir():
        raise DataUnavailable(f"{checkpoint}: no such folder: expected a checkpoint of transformers")
    try:
        tokenizer = AutoTokenizer.from_pretrained(checkpoint, local_files_only=True)
        model, report = AutoModel.from_pretrained(
            checkpoint, local_files_only=True, use_safetensors=True, output_loading_info=True, dtype=torch.float32
        )
    except Exception as error:  # the library raises many kinds for a file that is missing or damaged
        reason = " ".join(str(error).split())[:200]
        raise DataUnavailable(f"{checkpoint}: no checkpoint that transformers can read ({reason})") from None
    # a weight that is not in the file would be drawn at random; the pooler is not used here
    if missing := [name for name in report["missing_keys"] if "pooler" not in name]:
        raise DataUnavailable(f"{checkpoint}: {len(missing)} weights of the model are missing, {missing[0]} among them")
    model = model.to(device).eval()
    longest = min(tokenizer.model_max_length, model.config.max_position_embeddings)

    def tokenize(texts: Sequence[str], special_tokens: bool) -> TokenizedTexts:
        whole = tokenizer(list(texts), return_special_tokens_mask=True, return_attention_mask=False, verbose=False)
        cut = tokenizer(
            list(texts), truncation=True, max_length=longest, return_special_tokens_mask=True, verbose=False
        )  # fmt: skip
        counted = [[special_tokens or not special for special in row] for row in cut["special_tokens_mask"]]
        truncated = sum(
            len(long) > len(short) for long, short in zip(whole["input_ids"], cut["input_ids"], strict=True)
        )
        return TokenizedTexts(cut["input_ids"], counted, truncated)

    def states(ids: Tensor, attention: Tensor) -> Tensor:
        return model(input_ids=ids, attention_mask=attention).last_hidden_state  # type: ignore[no-any-return]

    return tokenize, states


def main(arguments: Sequence[str] | None = None) -> int:
    """Encode texts from the command line and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m dpgraph.engine.models.text_encoder")
    parser.add_argument("--texts", type=Path, required=True, help="parquet file with a column text")
    parser.add_argument("--checkpoint", type=Path, required=True, help="folder of a transformers model")
    parser.add_argument("--out", type=Path, required=True, help="folder for the vectors")
    parser.add_argument("--special-tokens", action="store_true", help="means over special tokens, too")
    parser.add_argument("--batch-tokens", type=int, default=BATCH_TOKENS)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S", stream=sys.stderr)
    logging.getLogger("httpx").setLevel(logging.ERROR)
    available = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(options.device.replace("auto", available))
    try:
        tokenize, states = load(options.checkpoint, device)
        texts = pd.read_parquet(options.texts)["text"].tolist()
        tokenized = tokenize(texts, options.special_tokens)
        encode(tokenized, states, options.out, device, options.batch_tokens)
        write_json(
            options.out / META,
            {
                "checkpoint": _name(options.checkpoint),
                "special_tokens_in_means": options.special_tokens,
                "distinct_texts": len(texts),
                "truncated_texts": tokenized.truncated,
            },
        )
    except DataUnavailable as error:
        print(error)
        return UNAVAILABLE
    except UserError as error:
        print(error)
        return 2
    return 0


def _name(checkpoint: Path) -> str:
    """Return the checkpoint's own name, or its architecture."""
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    return str(config.get("_name_or_path") or ", ".join(config.get("architectures") or ["unknown"]))


if __name__ == "__main__":
    sys.exit(main())
