"""Who may read what the commands write, under any umask: what is not for everyone is for its owner alone."""

import os
import stat
from contextlib import contextmanager

import pytest

from dpgraph.cli import main
from dpgraph.own_graph import fit as fitting
from dpgraph.own_graph.fit import fit
from tests.own_graph.test_fit import small, write_csv


@contextmanager
def umask(value):
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder):
    paths = [folder, *folder.rglob("*")]
    return {path.relative_to(folder.parent).as_posix(): stat.S_IMODE(path.stat().st_mode) for path in paths}


def assert_private(folder):
    found = modes(folder)
    assert len(found) > 1
    for name, mode in found.items():
        assert mode == (0o700 if (folder.parent / name).is_dir() else 0o600), name


@pytest.mark.parametrize("mask", [0, 0o022, 0o077])
def test_what_is_not_for_everyone_is_for_its_owner_alone(mask, tmp_path, monkeypatch):
    seen, write = {}, fitting.private_checks

    def checks(own, rows):
        (made,) = tmp_path.glob(".out.*")
        seen[made] = stat.S_IMODE(made.stat().st_mode)
        return write(own, rows)

    monkeypatch.setattr(fitting, "private_checks", checks)
    with umask(mask):
        fit(small(size=60), 4.0, out=tmp_path / "out", audit=False)
    assert list(seen.values()) == [0o700]  # while it is being written
    for name in ("curator", "owners"):
        assert_private(tmp_path / "out" / name)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o755
    release = modes(tmp_path / "out/release")
    assert release.pop("release") == 0o777 & ~mask
    assert set(release.values()) == {0o666 & ~mask}
    assert stat.S_IMODE((tmp_path / "dpgraph.releases.jsonl").stat().st_mode) == 0o600


def test_a_model_of_a_known_seed_is_for_its_owner_alone(tmp_path):
    with umask(0):
        fit(small(size=60), 4.0, seed=1, out=tmp_path / "out")
        assert main(["export", str(tmp_path / "out"), "--out", str(tmp_path / "tables")]) == 0
    assert_private(tmp_path / "out/not-private")
    assert_private(tmp_path / "tables")


def test_predictions_and_a_comparison_are_for_their_owner_alone(tmp_path):
    data = write_csv(tmp_path)
    with umask(0):
        fit(small(size=60), 4.0, out=tmp_path / "mine", audit=False)
        (tmp_path / "new.csv").write_text("id,feature 0,feature 1,feature 2\nx,1,0,0\n")
        out = tmp_path / "rows.csv"
        assert main(["predict", str(tmp_path / "mine"), "--nodes", str(tmp_path / "new.csv"), "--out", str(out)]) == 0
        compared = ["--epsilon", "4", "--methods", "own", "--seeds", "1", "--out", str(tmp_path / "compared")]
        assert main(["compare", *data, *compared]) == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    assert out.read_text().startswith("id,prediction")
    assert_private(tmp_path / "compared")
