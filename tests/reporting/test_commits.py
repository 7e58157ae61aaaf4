"""Results of several commits are of one code only where these differ in a suite's list alone."""

import subprocess

import pytest

from dpgraph.reporting import commits

SUITE = "workflow/suites/some.yaml"


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A checkout whose commits are: a suite, its list changed, code changed as well; and the package's place in it."""

    def git(*asked):
        identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
        done = subprocess.run(["git", *identity, *asked], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def commit(**files):
        for name, text in files.items():
            path = tmp_path / (SUITE if name == "suite" else "src/code.py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        git("add", "."), git("commit", "-q", "-m", "one")
        return git("rev-parse", "--short=12", "HEAD")

    git("init", "-q")
    found = [commit(suite="a", code="a"), commit(suite="b"), commit(code="b")]
    monkeypatch.setattr(commits, "__file__", str(tmp_path / "src" / "commits.py"))
    return found


def test_commits_that_differ_in_the_suite_alone_are_the_latest_of_them(made):
    first, second, _ = made
    assert commits.latest_of([first, second], SUITE) == second
    assert commits.latest_of([second, first], SUITE) == second


def test_commits_that_differ_in_code_are_not_one(made):
    first, second, third = made
    assert commits.latest_of([second, third], SUITE) is None
    assert commits.latest_of([first, second, third], SUITE) is None
    assert commits.latest_of([first, second], "workflow/suites/other.yaml") is None


def test_one_commit_is_itself_and_unknown_ones_are_none(made):
    assert commits.latest_of(["0" * 12], SUITE) == "0" * 12
    assert commits.latest_of([made[0], "0" * 12], SUITE) is None
