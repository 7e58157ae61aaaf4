"""Pre-trained transformers as towers: LoRA adapters on the attention and dense layers (Hu et al. 2022), the rest
frozen.

BERT and Llama families, from a folder or Hugging Face's cache, never from the network (`data/text/encoders.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from dpgraph.core.errors import DataUnavailable, UserError
from dpgraph.data.text.encoders import encoder_folder
from dpgraph.families.tuples.towers import Tower

ADAPTED = ("query", "key", "value", "dense", "q_proj", "k_proj", "v_proj", "o_proj")  # the paper's, by layer names
ADAPTER = "default"  # peft's name
# of one pass; rows of more than a processor's cache holds take a third more time there
PASS_TOKENS = {"cpu": 1 << 9, "cuda": 1 << 14}


class TextTower(Tower):
    """The tower of texts: `ids` (N, L) are their tokens, of which the first `lengths` (N,) count."""

    ids: Tensor
    lengths: Tensor

    def __init__(
        self,
        encoder: nn.Module,
        ids: Tensor,
        lengths: Tensor,
        pooling: str,
        unit: bool,
        counted: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__(adapters_of(encoder), len(ids))
        self.counted = dict(counted or {})
        self.frozen = [encoder]  # in a list: its weights are no parameters of this module
        self.register_buffer("ids", ids, persistent=False)
        self.register_buffer("lengths", lengths, persistent=False)
        self.pooling, self.unit = pooling, unit

    def _apply(self, fn: Any, recurse: bool = True) -> TextTower:
        self.frozen[0]._apply(fn, recurse)
        super()._apply(fn, recurse)
        return self

    def order(self, positions: Tensor) -> Tensor:
        return torch.argsort(self.lengths[positions], stable=True)

    def sizes(self, positions: Tensor) -> Tensor:
        return self.lengths[positions]

    @property
    def numbers(self) -> int:
        return PASS_TOKENS["cuda" if self.ids.is_cuda else "cpu"]

    def forward(self, positions: Tensor) -> Tensor:
        lengths = self.lengths[positions]
        ids = self.ids[positions, : int(lengths.max())]
        mask = torch.arange(ids.shape[1], device=ids.device) < lengths[:, None]
        hidden = self.frozen[0](input_ids=ids, attention_mask=mask.long()).last_hidden_state
        if self.pooling == "mean":
            weights = mask.to(hidden.dtype).unsqueeze(2)
            states = (hidden * weights).sum(1) / weights.sum(1)
        else:
            place = torch.zeros_like(lengths) if self.pooling == "first" else lengths - 1
            states = hidden[torch.arange(len(hidden), device=hidden.device), place]
        return nn.functional.normalize(states, dim=-1) if self.unit else states


def adapters_of(encoder: nn.Module) -> list[nn.Linear]:
    """Return the two linear maps of every adapter in the order of the layers; no other layer is trained."""
    return [
        module
        for name, module in encoder.named_modules()
        if isinstance(module, nn.Linear) and (f"lora_A.{ADAPTER}" in name or f"lora_B.{ADAPTER}" in name)
    ]


def with_adapters(encoder: nn.Module, rank: int, alpha: float, generator: torch.Generator) -> nn.Module:
    """Add LoRA adapters to the layers of `ADAPTED` that the model has: A uniform in +-1 / sqrt(inputs), B zero.

    Dropout is off everywhere, so that a gradient is a function of its tuple.

    Raises:
        UserError: Without the package peft, or for a model without such layers.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ImportError:
        raise UserError("encoder: expected the package peft (pip install 'dpgraph[text]')") from None
    if getattr(encoder, "pooler", None) is not None:
        encoder.pooler = None  # type: ignore[assignment]  # no state comes from it: its adapters would be noise
    there = {name.rsplit(".", 1)[-1] for name, module in encoder.named_modules() if isinstance(module, nn.Linear)}
    chosen = [name for name in ADAPTED if name in there]
    if not chosen:
        raise UserError(f"encoder: has no layers named {', '.join(ADAPTED)}: expected a BERT or Llama model")
    with torch.random.fork_rng(devices=[]):  # peft draws numbers that are replaced
        scaled = {"r": rank, "lora_alpha": alpha}  # declared as integers, but any number is right
        config = LoraConfig(**scaled, lora_dropout=0.0, bias="none", target_modules=chosen)  # type: ignore[arg-type]
        adapted = get_peft_model(encoder, config)  # type: ignore[arg-type]
    with torch.no_grad():
        for layer in adapters_of(adapted):
            if layer.weight.any():  # an A: peft leaves every B at zero
                layer.weight.uniform_(-(layer.in_features**-0.5), layer.in_features**-0.5, generator=generator)
    return adapted.eval()


class Loaded(NamedTuple):
    """Tokens of texts with the model that reads them."""

    ids: Tensor  # (N, L) tokens
    lengths: Tensor  # (N,)
    encoder: nn.Module
    counted: dict[str, int]  # texts, and how many of them are empty or cut


def text_tower(texts: list[str], settings: Any, generator: torch.Generator) -> TextTower:
    """Return the encoder of `settings` on `texts`, cut at `max_tokens`. Raise UserError if it is missing."""
    found = loaded(texts, settings.encoder, settings.max_tokens)
    adapted = with_adapters(found.encoder, settings.rank, settings.alpha, generator)
    return TextTower(adapted, found.ids, found.lengths, settings.pooling, settings.unit_states, found.counted)


def loaded(texts: list[str], encoder: str, max_tokens: int) -> Loaded:
    """Load tokens and model. A text without tokens gets one, so that it has a state.

    Raises:
        UserError: In one line, for missing texts, packages, tokenizer, model or weights, for texts that the model
            reads, and for tokens that it does not know.
    """
    if not any(texts):
        raise UserError(f"encoder={encoder}: the data set has no texts: expected one with texts, or the encoder mlp")
    try:
        from transformers import AutoModel, AutoTokenizer
        from transformers import logging as transformers_logging
    except ImportError:
        raise UserError(f"encoder={encoder}: expected the package transformers (pip install 'dpgraph[text]')") from None
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    try:
        folder = encoder_folder(encoder)
    except DataUnavailable as error:
        raise UserError(str(error)) from None
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the library raises many kinds
        raise UserError(f"encoder={encoder}: no tokenizer that can be read ({_short(error)})") from None
    try:
        model, report = AutoModel.from_pretrained(
            folder, local_files_only=True, use_safetensors=True, output_loading_info=True, dtype=torch.float32
        )
    except Exception as error:
        raise UserError(f"encoder={encoder}: no model that can be read ({_short(error)})") from None
    if missing := [name for name in report["missing_keys"] if "pooler" not in name]:
        raise UserError(f"encoder={encoder}: {len(missing)} weights of the model are missing, {missing[0]} among them")
    positions = getattr(getattr(model, "config", None), "max_position_embeddings", max_tokens)
    longest = min(positions, getattr(tokenizer, "model_max_length", positions))
    if max_tokens > longest:
        raise UserError(f"max_tokens={max_tokens}: expected at most {longest}, the longest input of encoder={encoder}")
    tokens = _tokens(tokenizer, texts, max_tokens)
    full = [text for text, row in zip(texts, tokens, strict=True) if len(row) == max_tokens]
    counted = {
        "texts": len(texts),
        "empty_texts": sum(not text for text in texts),
        "cut_texts": sum(len(row) > max_tokens for row in _tokens(tokenizer, full, None)),
    }
    fallback = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id or 0
    rows = [torch.tensor(row or [fallback]) for row in tokens]
    ids = nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=fallback)
    known, largest = _vocabulary(model), int(ids.max())
    if 0 < known <= largest:
        raise UserError(
            f"encoder={encoder}: its tokenizer gives token {largest}, its model knows {known}: expected those of one"
        )
    return Loaded(ids, torch.tensor([len(row) for row in rows]), model, counted)


def _tokens(tokenizer: Any, texts: list[str], max_tokens: int | None) -> list[list[int]]:
    """Return the tokens of each text, cut at `max_tokens`; None: whole."""
    if not texts:
        return []
    rows = tokenizer(
        texts, truncation=max_tokens is not None, max_length=max_tokens, return_attention_mask=False, verbose=False
    )
    return list(rows["input_ids"])


def _vocabulary(model: nn.Module) -> int:
    """Return how many tokens the model has a vector for in its first embedding; 0 without any."""
    return next((module.num_embeddings for module in model.modules() if isinstance(module, nn.Embedding)), 0)


def _short(error: Exception) -> str:
    return " ".join(str(error).split())[:150] or type(error).__name__
