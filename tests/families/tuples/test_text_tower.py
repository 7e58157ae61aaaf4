"""Towers over texts, on a tiny transformer in torch alone: no test here needs the optional packages."""

import re
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dpgraph.core.errors import UserError
from dpgraph.families.tuples.steps import TupleLoss
from dpgraph.families.tuples.text_tower import adapters_of, text_tower
from dpgraph.families.tuples.towers import TowerModel
from tests.engine.models.tiny_texts import WIDTH, install
from tests.families.tuples.test_steps import LOSS, batch_of, check_sums, scores_of

RANDOM = np.random.Generator(np.random.PCG64(11))
TEXTS = [" ".join(RANDOM.choice(["graph", "node", "noise", "text", "edge", "ε"], size)) for size in range(1, 29)]
TEXTS += ["", "noise noise graph"]  # thirty: as many as `batch_of` names


def settings(folder, pooling="mean", max_tokens=40, unit=True):
    return SimpleNamespace(
        encoder=str(folder), pooling=pooling, unit_states=unit, rank=2, alpha=4.0, max_tokens=max_tokens
    )


def tower_of(monkeypatch, tmp_path, texts=TEXTS, **changed):
    folder = install(monkeypatch, tmp_path)
    tower = text_tower(list(texts), settings(folder, **changed), torch.Generator().manual_seed(7)).double()
    return tower


def moved(tower):
    """As after some steps: no adapter is zero."""
    with torch.no_grad():
        for number, parameter in enumerate(tower.parameters()):
            generator = torch.Generator().manual_seed(number)
            parameter.add_(0.3 * torch.randn(parameter.shape, dtype=torch.float64, generator=generator))
    return tower


@pytest.mark.parametrize(("pooling", "chunk"), [("mean", 1), ("first", 600), ("last", 10**6)])
def test_clipped_sums_over_texts_equal_autograd(monkeypatch, tmp_path, pooling, chunk):
    tower = moved(tower_of(monkeypatch, tmp_path, pooling=pooling))
    assert len(tower.trained) == 8  # two maps of each of four layers
    check_sums(TowerModel(tower, LOSS, chunk), scores_of(tower), LOSS, batch_of())


def test_padding_and_company_do_not_move_a_text(monkeypatch, tmp_path):
    for pooling in ("mean", "first", "last"):
        tower = moved(tower_of(monkeypatch, tmp_path, pooling=pooling))
        together = TowerModel(tower, LOSS, 80).states()
        alone = torch.cat([tower(torch.tensor([one])) for one in range(len(TEXTS))])
        assert torch.allclose(together, alone, atol=1e-12)
        assert torch.allclose(together.norm(dim=1), torch.ones(len(TEXTS), dtype=torch.float64))


def test_before_a_step_the_tower_is_the_encoder_and_draws_come_from_the_generator(monkeypatch, tmp_path):
    state = torch.random.get_rng_state()
    towers = [tower_of(monkeypatch, tmp_path) for _ in range(2)]
    assert torch.equal(torch.random.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(towers[0].parameters(), towers[1].parameters()))
    firsts = [layer.weight for layer in adapters_of(towers[0].frozen[0])]
    assert sum(bool(weight.any()) for weight in firsts) == 4  # each A; each B is zero
    assert {id(p) for p in towers[0].parameters()} == {id(weight) for weight in firsts}
    with torch.no_grad():
        firsts[0].mul_(5)  # nothing comes through a B of zeros
    assert torch.equal(*(TowerModel(tower, LOSS).states() for tower in towers))


def test_a_checkpoint_holds_no_frozen_weight_and_no_text(monkeypatch, tmp_path):
    tower = tower_of(monkeypatch, tmp_path)
    assert set(tower.state_dict()) == {f"trained.{number}.weight" for number in range(8)}


def test_an_empty_text_has_a_state_and_long_ones_are_cut(monkeypatch, tmp_path):
    tower = tower_of(monkeypatch, tmp_path, max_tokens=3)
    assert tower.lengths.tolist() == [*(min(size, 3) for size in range(1, 29)), 1, 3]
    states = TowerModel(tower, LOSS).states()
    assert states.shape == (30, WIDTH)
    assert torch.isfinite(states).all()
    same = tower_of(monkeypatch, tmp_path, texts=[TEXTS[3], " ".join(TEXTS[3].split()[:3])], max_tokens=3)
    assert torch.equal(*TowerModel(same, LOSS).states())
    assert tower.counted == {"texts": 30, "empty_texts": 1, "cut_texts": 25}  # of 4 to 28 words


def refusal(monkeypatch, folder, texts=("a text",), max_tokens=40, **broken):
    install(monkeypatch, folder, **broken)
    with pytest.raises(UserError) as found:
        text_tower(list(texts), settings(folder, max_tokens=max_tokens), torch.Generator())
    assert "\n" not in str(found.value)
    assert str(found.value).startswith(("encoder=", "max_tokens="))
    return str(found.value)


def test_what_cannot_be_read_is_one_line(monkeypatch, tmp_path):
    assert "no tokenizer that can be read (no tokenizer in " in refusal(monkeypatch, tmp_path, broken="tokenizer")
    assert "no model that can be read (not a checkpoint of anything)" in refusal(monkeypatch, tmp_path, broken="model")
    lost = refusal(monkeypatch, tmp_path, missing=("layer.1.weight", "pooler.dense.weight"))
    assert "1 weights of the model are missing, layer.1.weight among them" in lost
    assert "the data set has no texts: expected one with texts, or the encoder mlp" in refusal(
        monkeypatch, tmp_path, texts=("", "")
    )
    unknown = refusal(monkeypatch, tmp_path, texts=(" ".join(map(str, range(40))),), broken="vocabulary")
    assert re.search(r"gives token \d{2,3}, its model knows 50: expected those of one$", unknown)
    assert refusal(monkeypatch, tmp_path, max_tokens=65).startswith("max_tokens=65: expected at most 64, the longest ")
    install(monkeypatch, tmp_path)
    (tmp_path / "config.json").unlink()
    with pytest.raises(UserError, match=r"has no config\.json: expected a checkpoint of transformers$"):
        text_tower(["a text"], settings(tmp_path), torch.Generator())


@pytest.mark.parametrize("package", ["transformers", "peft"])
def test_without_the_packages_one_line_names_what_to_install(monkeypatch, tmp_path, package):
    install(monkeypatch, tmp_path)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(UserError, match=rf"expected the package {package} \(pip install 'dpgraph\[text\]'\)$"):
        text_tower(["a text"], settings(tmp_path), torch.Generator())


def test_a_model_without_known_layers_is_refused(monkeypatch, tmp_path):
    install(monkeypatch, tmp_path)
    plain = SimpleNamespace(from_pretrained=lambda *_, **__: (torch.nn.Linear(2, 2), {"missing_keys": []}))
    monkeypatch.setattr(sys.modules["transformers"], "AutoModel", plain)
    with pytest.raises(UserError, match=r"has no layers named query, key, .*: expected a BERT or Llama model"):
        text_tower(["a text"], settings(tmp_path), torch.Generator())


def test_no_gradient_of_a_tuple_is_beyond_its_limit(monkeypatch, tmp_path):
    model, limit = TowerModel(moved(tower_of(monkeypatch, tmp_path)), TupleLoss(0.05)), 1e-2
    for one in batch_of(20):
        sums = model.clipped(one[None], torch.full((1,), limit, dtype=torch.float64)).sums
        assert torch.cat([part.flatten() for part in sums]).norm() <= limit * (1 + 1e-12)
