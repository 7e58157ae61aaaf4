"""An accountant is declared once: one function with its declaration, in one file, is all that a new one takes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dpgraph.cli import main
from dpgraph.core import outside
from dpgraph.privacy.accountants import evaluate

DOCS = Path(__file__).resolve().parents[2] / "docs/how-to/extend-from-outside.md"
TOY = DOCS.read_text().partition("## An accountant of your own")[2].split("```")[1].removeprefix("python\n")


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the toy accountant, named by `registry:` in config.yaml and nowhere else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(outside.VARIABLE, "")
    (tmp_path / "own").mkdir()
    path = tmp_path / "own/accountant.py"
    path.write_text(TOY)
    (tmp_path / "config.yaml").write_text("registry: [own]\n")
    return path


def test_a_new_accountant_is_listed_evaluated_solved_and_checked(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "mechanisms", "--json"]) == 0
    rows = {row["parameter"]: row for row in json.loads(capsys.readouterr().out) if row["mechanism"] == "toy-laplace"}
    assert set(rows) == {"--scale", "--steps", "--sampling", "--clipping", "--groups", "--num-train"}
    assert rows["--scale"]["meaning"] == "scale of the noise: a finite number >= 0.01 and <= 10000"
    asked = ["toy-laplace", "--steps", "2", "--delta", "1e-6"]
    assert main(["epsilon", *asked, "--scale", "4", "--mode", "rigorous"]) == 0
    shown = capsys.readouterr().out
    assert "proved epsilon: 0.5 at delta 1e-06" in shown
    assert "relation: edge" in shown
    assert "assumes: answers add up" in shown
    assert f"assumes: claimed: {own} is outside of the package" in shown
    assert main(["noise", *asked, "--epsilon", "0.25"]) == 0
    assert capsys.readouterr().out.startswith("scale 8: ")
    assert main(["check", "accounting"]) == 0
    shown = capsys.readouterr().out
    assert "toy_laplace rigorous 0.5, expected 0.5: ok" in shown
    assert " 0 failed" in shown


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--scale", "0", "--steps", "2"], "error: --scale=0: expected a finite number >= 0.01 and <= 10000"),
        (["--scale", "4", "--steps", "2.5"], "error: --steps=2.5: expected an integer >= 1 and <= 1e+06"),
        (["--scale", "4", "--steps", "2", "--clipping", "adaptive"], "error: --clipping=adaptive: expected public: "),
        (
            ["--scale", "4", "--steps", "2", "--num-train", "1000000"],
            "error: --delta=1e-06: expected a number < 1 / --num-train = 1e-06",
        ),
        (["--steps", "2"], "error: toy-laplace: expected the parameter scale"),
    ],
)
def test_what_its_declaration_does_not_allow_is_one_line(
    own: Path, options: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["epsilon", "toy-laplace", "--delta", "1e-6", "--mode", "rigorous", *options]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith(line)
    assert shown.count("\n") == 1


def test_a_wrong_reference_value_fails_the_check(own: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own.write_text(TOY.replace("reference(0.5,", "reference(0.6,"))
    assert main(["check", "accounting"]) == 1
    assert "toy_laplace rigorous 0.5, expected 0.6: FAILED" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('    """Return the', '    # """Return the', "toy_laplace: expected a docstring that states the theorem"),
        ('    references=(reference(0.5, 1e-6, "by hand: 2 * 1 / 4", scale=4, steps=2),),\n', "    references=(),\n",
         "toy_laplace: expected a reference value"),
        ("steps: Steps", "steps: int", "toy_laplace: steps: expected a range"),
        ('noise="scale"', 'noise="sigma"', "toy_laplace: sigma: expected a parameter of the function"),
        ('noise="scale"', 'relations=("scale", {"4": Relation.EDGE})',
         "toy_laplace: scale: expected choices, and a relation for each of them"),
        ("steps: Steps", "epsilon: Steps", "toy_laplace: epsilon: expected another name"),
        ("def toy_laplace(", "def gaussian(", "gaussian: declared twice"),
        ("import Relation", "import Relations", "ImportError"),
    ],
)  # fmt: skip
def test_an_incomplete_declaration_is_one_line_that_names_its_file(
    own: Path, old: str, new: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert old in TOY
    own.write_text(TOY.replace(old, new))
    assert main(["list", "mechanisms"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert str(own) in shown
    assert line in shown
    assert shown.count("\n") == 1


def test_an_answer_of_an_edited_accountant_is_not_kept(
    own: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DPGRAPH_CACHE", str(tmp_path / "cache"))
    asked = ["noise", "toy-laplace", "--steps", "2", "--delta", "1e-6", "--epsilon", "0.25"]
    assert main(asked) == 0
    own.write_text(TOY.replace("return steps / scale", "return 0.5 * steps / scale"))  # the answer would still do
    evaluate._accountants.cache_clear()
    assert main(asked) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("scale 8:")
    assert second.startswith("scale 4:")


def test_declarations_load_no_numerics() -> None:
    """Mechanisms read them, and every job of the workflow reads mechanisms."""
    code = (
        "import sys\nfrom dpgraph.privacy.accountants.evaluate import accountants\nassert len(accountants()) > 20\n"
        "print([name for name in ('torch', 'pandas', 'scipy', 'dp_accounting') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
