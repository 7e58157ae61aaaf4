"""What is assumed is typed once: named accountants show the symbols of the texts that mechanisms show with numbers."""

from __future__ import annotations

import ast
from pathlib import Path

import dpgraph.privacy
from dpgraph.families.trees.accountant import double_mixture, residual_clipping
from dpgraph.families.trees.mechanism import PoissonTrees, ResidualTrees
from dpgraph.privacy.accountants.evaluate import guarantee

PRIVACY = Path(dpgraph.privacy.__file__).parent
RUN = {"num_roots": 1000, "steps": 3, "delta": 1e-4, "noise_multiplier": 4.0, "sampling_rate": 0.1, "hops": 1,
       "max_degree": 2, "list_cap": 3}  # fmt: skip


def test_a_mechanism_says_in_numbers_what_its_accountant_says_in_symbols() -> None:
    asked = {"affected_roots": 6, "q": 0.1, "sigma_over_clip": 4.0, "steps": 3, "num_train": 1000}
    named, ran = guarantee("double_mixture", "rigorous", asked, 1e-4), PoissonTrees(**RUN).rigorous()
    assert (named.epsilon, named.relation) == (ran.epsilon, ran.relation)
    assert (named.sampling, ran.sampling) == ("Poisson, rate q", "Poisson, rate 0.1")
    assert (named.assumptions[0], ran.assumptions[0]) == (
        "stable sampler: at most R roots change", "stable sampler: at most 6 roots change",
    )  # fmt: skip
    assert set(double_mixture.statement.filled({"R": 6}).assumptions) <= set(ran.assumptions)


def test_numbers_stand_where_the_symbols_were() -> None:
    ran = ResidualTrees(**RUN, neighbour_rate=0.2, neighbour_clip=0.5).rigorous()
    assert ran.sampling == "two independent Poisson batches, rates 0.1 (self terms) and 0.2 (neighbour terms)"
    assert "C_n / C_s = 0.5 is public" in ran.assumptions
    assert "C_n / C_s is public" in residual_clipping.statement.filled().assumptions


def sentences(*places: str) -> set[str]:
    """Texts of five words or more, but for docstrings and for ranges in messages ("a number in (0, 1)")."""
    texts_there: set[str] = set()
    for path in (file for place in places for file in sorted(PRIVACY.glob(place))):
        tree = ast.parse(path.read_text())
        docs = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
        texts = (one.value for one in ast.walk(tree) if isinstance(one, ast.Constant) and id(one) not in docs)
        texts_there |= {text for text in texts if isinstance(text, str) and len(text.split()) >= 5}
    return {text for text in texts_there if not text.startswith(("a ", "an "))}


def test_no_sentence_is_typed_in_two_places() -> None:
    shared, named, run = (sentences(place) for place in ("statements.py", "accountants/*.py", "mechanisms/*.py"))
    assert shared
    assert not shared & named
    assert not shared & run
    assert not named & run
