"""A transformer of a few hundred weights with its tokenizer, in torch alone, in the places of transformers and peft.

What is proved on it is proved wherever the optional packages are missing: towers over texts, from the texts to clipped
gradients.
"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from zlib import crc32

import torch
from torch import Tensor, nn

VOCABULARY, WIDTH, PAD, LONGEST = 50, 8, 0, 64


class Lora(nn.Module):
    """A frozen linear layer with an adapter, named as peft names them."""

    def __init__(self, inner: nn.Linear, rank: int, alpha: float) -> None:
        super().__init__()
        self.base_layer, self.scale = inner, alpha / rank
        self.lora_A = nn.ModuleDict({"default": nn.Linear(inner.in_features, rank, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(rank, inner.out_features, bias=False)})
        nn.init.zeros_(self.lora_B["default"].weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.base_layer(x) + self.scale * self.lora_B["default"](self.lora_A["default"](x))


class TinyEncoder(nn.Module):
    """One block: attention of one head among a text's tokens, with positions, and a dense layer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.config = SimpleNamespace(max_position_embeddings=LONGEST)
        self.query, self.key, self.value, self.dense = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> SimpleNamespace:
        x = self.tokens(input_ids) + self.positions(torch.arange(input_ids.shape[1], device=input_ids.device))
        scores = self.query(x) @ self.key(x).transpose(1, 2) / WIDTH**0.5
        seen = torch.softmax(scores.masked_fill(attention_mask[:, None] == 0, -torch.inf), dim=2)
        return SimpleNamespace(last_hidden_state=x + torch.tanh(self.dense(seen @ self.value(x))))


def tiny_encoder() -> TinyEncoder:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return TinyEncoder()


class Tokenizer:
    """A token for each word, by a checksum; no text has none unless it is empty."""

    pad_token_id, eos_token_id = PAD, None

    def __init__(self, vocabulary: int = VOCABULARY) -> None:
        self.vocabulary = vocabulary

    def __call__(
        self, texts: list[str], truncation: bool, max_length: int | None, **_: object
    ) -> dict[str, list[list[int]]]:
        words = [[1 + crc32(word.encode()) % (self.vocabulary - 1) for word in text.split()] for text in texts]
        return {"input_ids": [row[:max_length] if truncation else row for row in words]}


def install(monkeypatch, folder: Path, missing: tuple[str, ...] = (), broken: str = "") -> Path:
    """Puts the tiny encoder where transformers and peft are looked for; the folder of its checkpoint.

    `missing`: weights that the checkpoint does not have; `broken`: tokenizer or model, which cannot be read, or
    vocabulary: the tokenizer has more tokens than the model.
    """

    def tokenizer(where, **_):
        if broken == "tokenizer":
            raise OSError(f"no tokenizer\nin {where}")
        return Tokenizer(10 * VOCABULARY if broken == "vocabulary" else VOCABULARY)

    def model(where, **_):
        if broken == "model":
            raise ValueError("not a checkpoint\nof anything")
        return tiny_encoder(), {"missing_keys": list(missing)}

    def adapted(encoder, config):
        for name in config.target_modules:
            setattr(encoder, name, Lora(getattr(encoder, name), config.r, config.lora_alpha))
        for name, parameter in encoder.named_parameters():
            parameter.requires_grad = "lora_" in name
        return encoder

    quiet = SimpleNamespace(set_verbosity_error=lambda: None, disable_progress_bar=lambda: None)
    fakes = {
        "transformers": SimpleNamespace(
            AutoModel=SimpleNamespace(from_pretrained=model),
            AutoTokenizer=SimpleNamespace(from_pretrained=tokenizer),
            logging=quiet,
        ),
        "peft": SimpleNamespace(LoraConfig=SimpleNamespace, get_peft_model=adapted),
    }
    for name, fake in fakes.items():
        monkeypatch.setitem(__import__("sys").modules, name, fake)
    (folder / "config.json").write_text("{}")
    return folder
