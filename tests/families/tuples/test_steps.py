"""Clipped sums over tuples against gradients formed one by one under autograd, in float64."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from dpgraph.core.errors import UserError
from dpgraph.engine.training.precision import products_in
from dpgraph.families.tuples.heads import Head, HeadModel
from dpgraph.families.tuples.sampling import largest_counts
from dpgraph.families.tuples.steps import TupleLoss, clip_factors
from dpgraph.families.tuples.towers import TowerModel, pass_counts, perceptron

LOSS = TupleLoss(0.3)
ENTITIES, FEATURES = 30, 7
HEADS = ["diagonal", "symmetric"]


def batch_of(count=9, negatives=3):
    """Tuples that share entities, one of them with its head as its tail's negative and one entity twice."""
    random = np.random.Generator(np.random.PCG64(3))
    batch = random.integers(0, ENTITIES, size=(count, 2 + negatives))
    batch[1, 3], batch[2, 2], batch[4] = batch[1, 0], batch[2, 1], batch[3]
    return torch.from_numpy(batch)


def one_by_one(parameters, scores, loss, batch):
    """(b, P) the gradient of each tuple alone."""
    found = []
    for one in batch:
        gradients = torch.autograd.grad(loss(scores(one[None])).sum(), parameters, allow_unused=True)
        found.append(
            torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in zip(gradients, parameters)])
        )
    return torch.stack(found)


def check_sums(model, scores, loss, batch):
    """Norms, plain sums and sums clipped to limits of each tuple, to 1e-10."""
    parameters = list(model.network.parameters())
    oracle = one_by_one(parameters, scores, loss, batch)
    norms = oracle.norm(dim=1)
    assert norms.max() > 1e-3
    limits = norms.detach() * torch.linspace(0.3, 1.6, len(batch), dtype=torch.float64)
    for allowed in (torch.full_like(limits, torch.inf), limits, torch.full_like(limits, float(norms.median()))):
        found = model.clipped(batch, allowed)
        assert torch.allclose(found.norms, norms, rtol=1e-10, atol=1e-12)
        expected = (oracle * torch.clamp((allowed / norms).nan_to_num(1), max=1)[:, None]).sum(dim=0)
        got = torch.cat([part.flatten() for part in found.sums])
        assert torch.allclose(got, expected, rtol=1e-10, atol=1e-10)
    none = model.clipped(batch[:0], limits[:0])
    assert not any(part.any() for part in none.sums)


def test_slopes_are_derivatives():
    scores = torch.randn(6, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0), requires_grad=True)
    (expected,) = torch.autograd.grad(LOSS(scores).sum(), scores)
    assert torch.allclose(LOSS.slopes(scores.detach()), expected, atol=1e-14)
    by_hand = -scores[0, 0] / 0.3 + torch.logsumexp(scores[0] / 0.3, 0)
    assert LOSS(scores)[0].item() == pytest.approx(float(by_hand))


@pytest.mark.parametrize("name", HEADS)
def test_heads_equal_autograd(name):
    generator = torch.Generator().manual_seed(1)
    head = Head(name, FEATURES).double()
    with torch.no_grad():
        head.weight.add_(0.3 * torch.randn(head.weight.shape, dtype=torch.float64, generator=generator))
    vectors = torch.randn(ENTITIES, FEATURES, dtype=torch.float64, generator=generator)

    def scores(batch):
        heads, others, w = vectors[batch[:, 0]], vectors[batch[:, 1:]], head.weight
        if name == "diagonal":
            return torch.einsum("bd,d,bkd->bk", heads, w, others)
        return torch.einsum("bd,de,bke->bk", heads, (w + w.T) / 2, others)

    model = HeadModel(head, vectors, LOSS)
    check_sums(model, scores, LOSS, batch_of())
    left, right = model.states().unbind(1)
    batch = batch_of()
    mine = torch.einsum("bd,bkd->bk", left[batch[:, 0]], right[batch[:, 1:]])
    assert torch.allclose(mine, scores(batch), atol=1e-12)


def test_heads_start_as_the_vectors_themselves():
    """Zero-shot: scores before any step are inner products."""
    vectors = torch.nn.functional.normalize(torch.randn(9, 5, generator=torch.Generator().manual_seed(2)), dim=1)
    for name in HEADS:
        states = HeadModel(Head(name, 5), vectors, LOSS).states()
        assert torch.allclose(states[:, 0] @ states[:, 1].T, vectors @ vectors.T, atol=1e-6)


def scores_of(tower):
    def scores(batch):
        states = tower(batch.reshape(-1)).view(*batch.shape, -1)
        return torch.einsum("bd,bkd->bk", states[:, 0], states[:, 1:])

    return scores


@pytest.mark.parametrize("chunk", [1, 60, 10**6])
def test_a_perceptron_equals_autograd_whatever_the_chunks(chunk):
    features = np.random.Generator(np.random.PCG64(4)).normal(size=(ENTITIES, FEATURES)).astype(np.float32)
    tower = perceptron(features, 5, True, torch.Generator().manual_seed(5)).double()
    check_sums(TowerModel(tower, LOSS, chunk), scores_of(tower), LOSS, batch_of())


def tiny_encoder(family):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("peft")
    shared = {
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "vocab_size": 40,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        if family == "bert":
            return transformers.BertModel(transformers.BertConfig(**shared, max_position_embeddings=16))
        return transformers.LlamaModel(transformers.LlamaConfig(**shared, num_key_value_heads=1))


def tiny_tower(family, pooling, rank=2):
    from dpgraph.families.tuples.text_tower import TextTower, with_adapters

    adapted = with_adapters(tiny_encoder(family), rank, 4.0, torch.Generator().manual_seed(7))
    random = np.random.Generator(np.random.PCG64(8))
    lengths = torch.from_numpy(random.integers(1, 9, size=ENTITIES))
    ids = torch.from_numpy(random.integers(3, 40, size=(ENTITIES, 8)))
    tower = TextTower(adapted, ids, lengths, pooling, unit=True).double()
    with torch.no_grad():
        for parameter in tower.parameters():  # as after some steps: B is no longer zero
            parameter.add_(
                0.3 * torch.randn(parameter.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(9))
            )
    return tower


@pytest.mark.parametrize(
    ("family", "pooling", "chunk"), [("bert", "mean", 1), ("bert", "first", 200), ("llama", "last", 90)]
)
def test_adapters_of_transformers_equal_autograd(family, pooling, chunk):
    """BERT with bidirectional attention and padding; Llama with rotary positions, grouped keys and causal attention."""
    tower = tiny_tower(family, pooling)
    layers = 4 if family == "llama" else 6  # q, k, v, o; query, key, value and three dense ones
    assert len(tower.trained) == 2 * 2 * layers  # two blocks, two maps each
    assert sum(p.requires_grad for p in tower.frozen[0].parameters()) == len(list(tower.parameters()))
    check_sums(TowerModel(tower, LOSS, chunk), scores_of(tower), LOSS, batch_of())


def test_padding_and_company_do_not_move_a_text():
    tower = tiny_tower("bert", "mean")
    together = TowerModel(tower, LOSS, 80).states()
    alone = torch.cat([tower(torch.tensor([one])) for one in range(ENTITIES)])
    assert torch.allclose(together, alone, atol=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("kind", ["head", "perceptron"])
def test_sums_on_a_gpu_are_those_on_the_processor(kind):
    def found(device):
        generator = torch.Generator().manual_seed(2)
        if kind == "head":
            vectors = torch.randn(ENTITIES, FEATURES, dtype=torch.float64, generator=generator).to(device)
            model = HeadModel(Head("symmetric", FEATURES).double().to(device), vectors, LOSS)
        else:
            features = np.random.Generator(np.random.PCG64(4)).normal(size=(ENTITIES, FEATURES)).astype(np.float32)
            model = TowerModel(perceptron(features, 5, True, generator).double().to(device), LOSS, 60)
        limits = torch.full((9,), 0.3, dtype=torch.float64, device=device)
        return model.clipped(batch_of().to(device), limits), model.states()

    (here, states), (there, of_gpu) = found("cpu"), found("cuda")
    assert torch.allclose(there.norms.cpu(), here.norms, rtol=1e-10)
    assert all(torch.allclose(a.cpu(), b, rtol=1e-10, atol=1e-10) for a, b in zip(there.sums, here.sums))
    assert torch.allclose(of_gpu.cpu(), states, rtol=1e-10)


def test_a_checkpoint_holds_the_adapters_only():
    tower = tiny_tower("bert", "mean")
    assert {id(p) for p in tower.parameters()} == {id(p) for layer in tower.trained for p in layer.parameters()}
    assert set(tower.state_dict()) == {f"trained.{i}.weight" for i in range(len(tower.trained))}


def test_both_ways_to_a_norm_agree():
    """Few rows take Grams, many the matrix itself."""
    generator = torch.Generator().manual_seed(0)
    for rows in (2, 50):
        layer = torch.nn.Linear(6, 5).double()
        inputs = torch.randn(3, rows, 6, dtype=torch.float64, generator=generator)
        slopes = torch.randn(3, rows, 5, dtype=torch.float64, generator=generator)
        matrices = torch.einsum("bti,bto->boi", inputs, slopes)
        expected = matrices.square().sum((1, 2)) + slopes.sum(1).square().sum(1)
        assert torch.allclose(TowerModel._squares(layer, inputs, slopes), expected, rtol=1e-12)


def rounded(values):
    """Towards nearest, to bf16."""
    return values.bfloat16().to(values.dtype)


@pytest.mark.parametrize("cancelling", [False, True])
def test_no_contribution_of_rounded_operands_is_beyond_its_limit(monkeypatch, cancelling):
    """Products of bf16 operands, as processors with such instructions form them; rows that cancel are the hardest."""
    features = np.random.Generator(np.random.PCG64(4)).normal(size=(ENTITIES, 40)).astype(np.float32)
    if cancelling:  # nearly one text: the slopes of a softmax sum to zero
        features = features[:1] + 1e-2 * features
    tower = perceptron(features, 12, False, torch.Generator().manual_seed(5))
    model, limit = TowerModel(tower, LOSS), 1e-3
    original = TowerModel._sum
    monkeypatch.setattr(TowerModel, "_sum", lambda self, *of: original(self, *of[:2], *map(rounded, of[2:])))
    lengths = []
    with products_in("bf16"):
        for one in batch_of(40):
            sums = model.clipped(one[None], torch.full((1,), limit)).sums
            lengths.append(torch.cat([part.double().flatten() for part in sums]).norm().item())
    assert 0.5 * limit * (not cancelling) < max(lengths) <= limit


@pytest.mark.parametrize("name", HEADS)
def test_norms_of_heads_allow_for_rounded_operands(name):
    generator = torch.Generator().manual_seed(1)
    vectors = torch.nn.functional.normalize(torch.randn(ENTITIES, FEATURES, generator=generator), dim=1)
    model = HeadModel(Head(name, FEATURES), vectors, LOSS)
    limits = torch.ones(9)
    exact = model.clipped(batch_of(), limits).norms
    with products_in("bf16"):
        assert (model.clipped(batch_of(), limits).norms >= exact * (1 + 3 * 2**-8)).all()


def test_passes_hold_what_they_may():
    sizes = torch.tensor([1, 1, 1, 2, 2, 5, 9, 30])
    assert pass_counts(sizes, 10) == [5, 1, 1, 1]
    for numbers in (1, 7, 40, 1000):
        counts = pass_counts(sizes, numbers)
        assert sum(counts) == len(sizes)
        assert all(len(part) == 1 or len(part) * int(part.max()) <= numbers for part in sizes.split(counts))
    assert pass_counts(sizes[:0], 10) == []


def test_no_factor_lets_a_tuple_beyond_its_limit():
    norms = torch.tensor([0.0, 0.5, 1.0, 7.0, 1e30, torch.inf, torch.nan])
    scaled = clip_factors(norms, torch.ones(7)) * norms.nan_to_num(0, posinf=0)
    assert (scaled <= 1).all()
    assert clip_factors(norms, torch.ones(7)).tolist()[:3] == [1, 1, 1]
    assert clip_factors(norms, torch.ones(7)).tolist()[5:] == [0, 0]


def check_lost(model, batch, named):
    """What the batch adds is what it adds without the tuples whose gradients are not finite, all of them `named`."""
    limits = torch.ones(len(batch))
    found = model.clipped(batch, limits)
    lost = ~torch.isfinite(found.norms)
    assert lost.any()
    assert not (lost & ~named).any()
    alone = model.clipped(batch[~lost], limits[~lost])
    assert any(one.any() for one in alone.sums)
    for one, other in zip(found.sums, alone.sums, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


@pytest.mark.parametrize("broken", [torch.inf, torch.nan, 1e30])
def test_a_tuple_whose_gradient_is_not_finite_adds_nothing(broken):
    """0 times infinity is not 0: such a tuple would make the whole sum NaN, and one entity would move it without bound.

    Numbers of 1e30 are finite, their squares are not.
    """
    generator = torch.Generator().manual_seed(8)
    vectors = torch.nn.functional.normalize(torch.randn(ENTITIES, FEATURES, generator=generator), dim=1)
    vectors[7] = broken * torch.linspace(-1, 1, FEATURES)
    batch = batch_of()
    named = (batch == 7).any(dim=1)
    assert 0 < named.sum() < len(batch)
    for name in HEADS:
        check_lost(HeadModel(Head(name, FEATURES), vectors, LOSS), batch, named)
    tower = perceptron(vectors.numpy(), 5, False, generator)
    for numbers in (1, 10**6) if broken != 1e30 else ():  # its units saturate
        check_lost(TowerModel(tower, LOSS, numbers), batch, named)


def test_counts_of_the_paper_by_hand():
    """|B+(u)| + |B-(u)|: a tuple counts once for an entity, in the positive edge or among the negatives."""
    batch = torch.tensor([[0, 1, 5, 6], [0, 2, 7, 8], [3, 4, 0, 9], [3, 4, 3, 3]])
    assert largest_counts(batch).tolist() == [3, 3, 3, 2]
    assert largest_counts(batch[:0]).tolist() == []
    random = torch.from_numpy(np.random.Generator(np.random.PCG64(0)).integers(0, 12, size=(20, 5)))
    counts = [sum(entity in one for one in random.tolist()) for entity in range(12)]
    assert largest_counts(random).tolist() == [max(counts[entity] for entity in one) for one in random.tolist()]


def test_what_is_missing_is_one_line(tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    from dpgraph.families.tuples.text_tower import text_tower

    def ask(name, texts=("a text",)):
        settings = SimpleNamespace(encoder=name, pooling="mean", unit_states=True, rank=2, alpha=1.0, max_tokens=8)
        with pytest.raises(UserError) as found:
            text_tower(list(texts), settings, torch.Generator())
        assert "\n" not in str(found.value)
        return str(found.value)

    assert "the data set has no texts" in ask("x", texts=("", ""))
    assert "expected a folder, a name in" in ask("nobody/knows-this")
    (tmp_path / "config.json").write_text("{}")
    assert "no tokenizer that can be read" in ask(str(tmp_path))
