"""Every accountant against the table of reference values, and the checker itself."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from dpgraph.audits.accounted import prv_epsilon
from dpgraph.core.errors import UserError
from dpgraph.families.pagerank.accountant import appr_training
from dpgraph.families.pagerank.epsilon import theorem7_epsilon
from dpgraph.families.tuples.epsilon import coupled_rdp
from dpgraph.privacy.accountants.evaluate import check_accounting, check_row, evaluate
from dpgraph.privacy.accountants.gaussian import gaussian_delta, gaussian_epsilon
from dpgraph.privacy.accountants.renyi import theorem1_rdp

REFERENCE = Path(__file__).with_name("reference_values.csv")
with REFERENCE.open(newline="") as file:
    ROWS = {row["id"]: row for row in csv.DictReader(file)}
SLOW = {"R144", "R145", "R146", "R147", "R148", "R151"}  # R143 stands for them; `check_accounting` runs all


@pytest.mark.parametrize("name", [name for name in ROWS if name not in SLOW])
def test_reference_value(name: str) -> None:
    passed, line = check_row(ROWS[name], {"prv": prv_epsilon})
    assert passed, line


def test_a_cross_check_is_computed_by_the_other_library() -> None:
    """And both libraries agree within two percent on it, as they should on the plain Poisson-subsampled Gaussian."""
    row = ROWS["R036"]
    passed, line = check_row(row, {"prv": lambda parameters, delta: 99.0})
    assert not passed
    assert " 99," in line
    assert not check_row(row)[0]  # no widened tolerance: without the library there is no answer
    parameters = {"q": 0.01, "noise_multiplier": 4, "steps": 10000}
    other = prv_epsilon(parameters, 1e-5)
    assert evaluate("poisson_gaussian", "rigorous", parameters, 1e-5) == pytest.approx(other, rel=0.02)


def test_a_wrong_value_fails() -> None:
    row = {**ROWS["R003"], "expected": str(float(ROWS["R003"]["expected"]) * 1.001)}
    passed, line = check_row(row)
    assert not passed
    assert "FAILED" in line


def test_a_whole_table(tmp_path: Path) -> None:
    good, bad, odd = ROWS["R003"], {**ROWS["R002"], "expected": "1.0"}, {**ROWS["R003"], "accountant": "none such"}
    path = tmp_path / "table.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(good))
        writer.writeheader()
        writer.writerows([good, bad, odd])
    passed, failed, lines = check_accounting(path)
    assert (passed, failed, len(lines)) == (1, 2, 3)
    with pytest.raises(UserError, match="expected a CSV file"):
        check_accounting(tmp_path / "missing.csv")
    path.write_text("id,accountant\n")
    with pytest.raises(UserError, match="expected the columns"):
        check_accounting(path)


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("moments", "proved", {}, 1e-5), "^mode=proved"),
        (
            ("moments", "rigorous", {}, 1e-5),
            r"^accountant=moments \(rigorous, epsilon\): nothing is guaranteed: .*2 C",
        ),
        (("momentous", "published", {}, 1e-5), r"^accountant=momentous \(published, epsilon\): expected one of"),
        (("moments", "published", {"q": 1}, 1e-5), "^moments: expected the parameter noise_multiplier$"),
        (("poisson_gaussian", "rigorous", {"relation": "edge"}, 1e-5), "^relation=edge"),
        (("moments", "published", {"q": 1, "rate": 1}, 1e-5), "^moments: unknown parameter rate: expected some of"),
        (("moments", "published", {"q": 1.5}, 1e-5), "^q=1.5: expected a finite number >= 1e-09 and <= 1$"),
        (("moments", "published", {"steps": 2.5}, 1e-5), r"^steps=2.5: expected an integer >= 1 and <= 1e\+06$"),
        (("moments", "published", {"steps": True}, 1e-5), "^steps=True: expected an integer >= 1 "),
        (("moments", "published", {}, 0.0), r"^delta=0.0: expected a number in \(0, 1\)$"),
        (("residual_clipping", "rigorous", {"batches": 1}, 1e-5), "^batches=1: expected 2"),
    ],
)
def test_refusals(arguments: tuple, line: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(UserError, match=line):
        evaluate(*arguments)


def test_gaussian_round_trip() -> None:
    for mu in (0.05, 1.0, 7.0):
        assert gaussian_delta(mu=mu, epsilon=gaussian_epsilon(mu=mu, delta=1e-6)) == pytest.approx(1e-6, rel=1e-6)
    assert gaussian_epsilon(mu=0.0, delta=1e-6) == 0.0


def test_theorem_1_by_hand() -> None:
    """N = 3 roots, R = 2 affected, m = 1, alpha = 2: rho is 0 with 1/3 and 1 with 2/3."""
    noise = 1.5
    expected = math.log(1 / 3 + 2 / 3 * math.exp(2 * 0.25 / (2 * noise**2)))
    assert theorem1_rdp(num_roots=3, batch_size=1, affected_roots=2, noise_multiplier=noise, orders=(2.0,))[
        0
    ] == pytest.approx(expected, rel=1e-12)


def test_relational_moments_by_hand() -> None:
    """alpha = 2 has a closed form: E_Q (P/Q)^2 = (1 - g)^2 + 2 g (1 - g) + g^2 e^(1/s^2) for weights 1 - g and g."""
    relations, nodes, degree, negatives, rate, noise = 40, 200, 3, 2, 0.05, 0.8
    total = 0.0
    for size in range(relations + 1):
        weight = math.comb(relations, size) * rate**size * (1 - rate) ** (relations - size)
        g = 1 - (1 - rate) ** degree * (1 - size * negatives / nodes)
        total += weight * (1 - g**2 + g**2 * math.exp(1 / noise**2))
    rdp = coupled_rdp(
        nodes=nodes, relations=relations, max_degree=degree, negatives=negatives, rate=rate, noise=noise, orders=(2.0,)
    )
    assert rdp[0] == pytest.approx(math.log(total), rel=1e-10)


def test_standard_clipping_costs_more_than_the_coupled_bound() -> None:
    arguments = {"nodes": 1e5, "relations": 5e5, "max_degree": 5, "negatives": 4, "rate": 1e-4, "noise": 1.5}
    arguments["orders"] = (2.0, 4.0)
    assert np.all(coupled_rdp(**arguments, standard_clipping=True) > coupled_rdp(**arguments))


def test_private_pagerank() -> None:
    """M = 70, mu = .5, q = .25, T = 400, delta = 1e-3: about 8 in all at noise 7.42 C with column support 1."""
    noise = math.sqrt(140) / 0.5
    assert appr_training(
        rows=70, sigma_over_clip=noise, column_support=1, q=0.25, noise_multiplier=7.42, steps=400, delta=1e-3
    ) == pytest.approx(8, rel=0.01)
    with_laplace = theorem7_epsilon(rows=70, top_k=4, eps_gumbel=0.02, row_delta=1e-5, eps_laplace=0.02)
    assert with_laplace > theorem7_epsilon(rows=70, top_k=4, eps_gumbel=0.02, row_delta=1e-5) > 0


@pytest.mark.filterwarnings("error")
def test_theorem_1_at_extreme_noise() -> None:
    """Tiny noise overflows nothing; huge noise keeps its digits: gamma is about alpha E(rho / R)^2 / (2 lambda^2)."""
    assert np.all(
        np.isfinite(
            theorem1_rdp(num_roots=20, batch_size=18, affected_roots=15, noise_multiplier=1e-3, orders=(2.0, 9.9))
        )
    )
    second_moment = sum(w * (i / 2) ** 2 for i, w in ((0, 1 / 3), (1, 2 / 3)))
    assert theorem1_rdp(num_roots=3, batch_size=1, affected_roots=2, noise_multiplier=1e7, orders=(2.0,))[
        0
    ] == pytest.approx(2 * second_moment / 2e14, rel=1e-6)


def test_theorem_c1_and_theorem_8_by_name() -> None:
    """C.1 by its per-step divergence; Theorem 8 is the moments accountant at B / N and sigma / tau, times q'."""
    relational = {
        "nodes": 1e4, "relations": 5e3, "max_degree": 5, "negatives": 4, "q": 1e-3, "sigma_over_sensitivity": 1.5,
    }  # fmt: skip
    standard = {**relational, "standard_clipping": True}
    rdp = evaluate("relational_coupled", "published", {**standard, "order": 4}, 0, "rdp_per_step")
    assert (
        rdp
        == coupled_rdp(
            nodes=1e4,
            relations=5e3,
            max_degree=5,
            negatives=4,
            rate=1e-3,
            noise=1.5,
            orders=(4.0,),
            standard_clipping=True,
        )[0]
    )
    cheap, dear = (
        evaluate("relational_coupled", "published", {**p, "steps": 50}, 1e-6) for p in (relational, standard)
    )
    assert cheap < dear
    sgd = evaluate("moments", "published", {"q": 0.02, "noise_multiplier": 3.0, "steps": 400}, 1e-4)
    whole = {
        "num_train": 3000, "batch_size": 60, "noise_multiplier": 6.0, "column_norm": 2.0, "steps": 400,
        "eps_pagerank": 1,
    }  # fmt: skip
    assert evaluate("appr_training_theorem8", "published", whole, 1e-4) == pytest.approx(1 + sgd)
    assert evaluate("appr_training_theorem8", "published", {**whole, "sampled_share": 0.09}, 1e-4) == pytest.approx(
        0.09 * (1 + sgd)
    )


def test_interpolated_batch_sizes_change_nothing() -> None:
    """Above 192 sizes moments are interpolated; here 1200 of them, against every size written out at alpha = 2."""
    nodes, relations, degree, negatives, rate, noise = 50_000, 20_000, 3, 4, 0.5, 2.0
    sizes = np.arange(relations + 1)
    g = 1 - (1 - rate) ** degree * (1 - np.minimum(sizes * negatives / nodes, 1))
    expected = math.log(binom.pmf(sizes, relations, rate) @ (1 - g**2 + g**2 * math.exp(1 / noise**2)))
    rdp = coupled_rdp(
        nodes=nodes, relations=relations, max_degree=degree, negatives=negatives, rate=rate, noise=noise, orders=(2.0,)
    )[0]
    assert rdp == pytest.approx(expected, rel=1e-9)
