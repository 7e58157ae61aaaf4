"""`dpgraph epsilon`, `noise` and `plan`: what they print, and their one-line errors with status 2."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from dpgraph.cli import main
from dpgraph.privacy.accountants.evaluate import MODES, names

TREES = ["--affected-roots", "4", "--q", "0.1", "--steps", "20", "--delta", "1e-5"]


def test_epsilon_as_json_has_both_modes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["epsilon", "double_mixture", *TREES, "--sigma-over-clip", "12", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"] == {"affected_roots": 4, "q": 0.1, "steps": 20, "sigma_over_clip": 12}
    assert found["rigorous"]["epsilon"] > 0
    assert found["published"]["epsilon"] is None


def test_both_modes_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    flags = [
        "--checks",
        "10000",
        "--answers",
        "2200",
        "--sigma-threshold",
        "150",
        "--sigma-votes",
        "100",
        "--delta",
        "1e-5",
    ]
    assert main(["epsilon", "pate_confident_gnmax", *flags]) == 0
    text = capsys.readouterr().out
    assert "claimed epsilon: 4.9" in text
    assert "proved epsilon: 4.07744 at delta 1e-05" in text
    assert "assumes: public caps on checks and answers stop the run" in text
    assert (
        main(["epsilon", "moments", "--q", "1", "--noise-multiplier", "26", "--steps", "2000", "--delta", "1e-5"]) == 0
    )
    text = capsys.readouterr().out
    assert "claimed epsilon: 9.7548" in text
    assert "proved epsilon: none: " in text


def test_noise_steps_and_rate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["noise", "double_mixture", *TREES, "--epsilon", "2", "--json"]) == 0
    solved = json.loads(capsys.readouterr().out)
    assert solved["solved"] == "sigma_over_clip"
    assert 1.99 < solved["epsilon"] <= 2
    for unknown, name in (("steps", "steps"), ("rate", "q")):
        flags = [*TREES, "--sigma-over-clip", "12", "--epsilon", "2", "--solve", unknown]
        assert main(["noise", "double_mixture", *flags]) == 0
        assert capsys.readouterr().out.startswith(f"{name} ")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["epsilon", "double_mixture", *TREES], "error: double-mixture: expected the parameter --sigma-over-clip"),
        (
            ["epsilon", "double_mixture", *TREES, "--sigma-over-clip", "x"],
            "error: --sigma-over-clip=x: expected a finite number >= 1e-06",
        ),
        (
            ["epsilon", "double_mixture", *TREES, "--sigma-over-clip", "9", "--sampling", "without replacement"],
            "error: --sampling=without replacement: expected poisson: ",
        ),
        (["epsilon", "gausian", "--delta", "1e-5"], "error: mechanism=gausian: expected one of "),
        (
            ["epsilon", "moments", "--delta", "1e-5", "--stpes", "3"],
            "error: --stpes: no such option and no parameter ",
        ),
        (["epsilon", "moments", "--mode", "rigorous", "--delta", "1e-5"], "error: moments: nothing is guaranteed: "),
        (
            ["noise", "moments", "--delta", "1e-5", "--epsilon", "-1", "--q", "1", "--steps", "2"],
            "error: --epsilon=-1.0",
        ),
        (
            ["plan", "--num-train", "100", "--hops", "1", "--max-degree", "0", "--epsilon", "1", "--max-steps", "5"],
            "error: --max-degree=0: expected an integer >= 1",
        ),
    ],
)
def test_mistakes_are_one_line_and_status_2(
    arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(line)
    assert printed.err.count("\n") == 1


def test_every_accountant_of_the_reference_file_is_a_mechanism_of_the_command_line() -> None:
    with Path(__file__).with_name("reference_values.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["accountant"] for row in rows} <= set(names())
    assert {row["mode"] for row in rows} <= set(MODES)


def test_every_parameter_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "mechanisms", "--json"]) == 0
    listed = [
        row["parameter"] for row in json.loads(capsys.readouterr().out) if row["mechanism"] == "residual-clipping"
    ]
    assert {"--q-self", "--neighbour-to-self-clip", "--batches", "--num-train"} <= set(listed)
