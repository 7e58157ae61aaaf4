"""A cell's summary is that of the record beside it, wherever a process was killed and whoever changed the record."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpgraph.experiments.record import CellRecord, SeedRecord
from dpgraph.experiments.summary import (
    RESULT,
    SUMMARY,
    CellSummary,
    stored_summary,
    summary_of,
    write_record,
    write_summary,
)


def record_of(status="ok", seconds=(1.0, 2.5), reason="", asked=(0, 1), seed_status="ok"):
    seeds = tuple(SeedRecord(seed=seed, status=seed_status, seconds=value) for seed, value in enumerate(seconds))
    return CellRecord(cell={"method": "mlp", "seeds": list(asked)}, status=status, reason=reason, seeds=seeds)


def test_what_is_in_it(tmp_path):
    write_record(tmp_path, record_of())
    size = (tmp_path / RESULT).stat().st_size
    expected = CellSummary(status="ok", seconds=3.5, seeds=(0, 1), failed_seeds=0, record_bytes=size)
    assert stored_summary(tmp_path) == summary_of(tmp_path) == expected
    assert CellRecord.model_validate_json((tmp_path / RESULT).read_text()) == record_of()
    write_record(tmp_path, record_of("failed", (1.0,), "diverged", seed_status="failed"))
    found = stored_summary(tmp_path)
    assert (found.status, found.reason, found.seconds, found.failed_seeds) == ("failed", "diverged", 1.0, 1)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    status=st.sampled_from(["ok", "failed", "not run"]),
    seconds=st.lists(st.floats(0, 1e9), max_size=4),
    reason=st.text(max_size=20),
    asked=st.lists(st.integers(0, 10**6), max_size=4),
)
def test_with_and_without_the_file_it_is_the_same(tmp_path, status, seconds, reason, asked):
    write_record(tmp_path, record_of(status, seconds, reason, asked))
    stored = stored_summary(tmp_path)
    assert stored is not None
    (tmp_path / SUMMARY).unlink()
    assert stored_summary(tmp_path) is None
    assert summary_of(tmp_path) == stored
    (tmp_path / SUMMARY).write_text("{")
    assert summary_of(tmp_path) == stored


@pytest.mark.parametrize("calls", [0, 1, 2])
def test_killed_between_any_two_steps_it_is_that_of_the_record(tmp_path, monkeypatch, calls):
    """Two records of one size, so that only the order of the steps can tell them apart."""
    write_record(tmp_path, record_of("ok", (1.0,)))
    replace, done = os.replace, []

    def killed(source, target):
        if len(done) == calls:
            raise KeyboardInterrupt
        replace(source, target)
        done.append(target.name)

    monkeypatch.setattr("dpgraph.files.os.replace", killed)
    if calls < 2:
        with pytest.raises(KeyboardInterrupt):
            write_record(tmp_path, record_of("ok", (2.0,)))
    else:
        write_record(tmp_path, record_of("ok", (2.0,)))
    assert done == [RESULT, SUMMARY][:calls]
    assert summary_of(tmp_path).seconds == json.loads((tmp_path / RESULT).read_text())["seeds"][0]["seconds"]
    assert summary_of(tmp_path).seconds == (1.0 if calls == 0 else 2.0)
    assert (stored_summary(tmp_path) is None) == (calls < 2)


@pytest.mark.parametrize("full", [RESULT, SUMMARY])
def test_where_the_disk_takes_no_more_both_stay_as_they_were(tmp_path, monkeypatch, full):
    write_record(tmp_path, record_of())
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    write = Path.write_text

    def written(path, *arguments, **named):
        if f".{Path(full).stem}." in path.name:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(path, *arguments, **named)

    monkeypatch.setattr(Path, "write_text", written)
    with pytest.raises(OSError, match="No space left") as error:
        write_record(tmp_path, record_of("failed"))
    assert error.value.filename == str(tmp_path / full)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_record_that_was_changed_later_is_read_itself(tmp_path):
    write_record(tmp_path, record_of())
    path = tmp_path / RESULT
    before = path.stat()
    text = path.read_text()
    path.write_text(text.replace('"seconds": 2.5', '"seconds": 7.5'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))
    assert summary_of(tmp_path).seconds == 8.5
    path.write_text(text.replace('"seconds": 2.5', '"seconds": 10.5'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # copied with its time, of another size
    assert summary_of(tmp_path).seconds == 11.5
    write_summary(tmp_path, CellRecord.model_validate_json(path.read_text()))
    assert stored_summary(tmp_path).seconds == 11.5


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '"a"', '{"status": "ok", "reason": "", "seeds": [1]}'])
def test_a_damaged_record_is_an_error(tmp_path, content):
    (tmp_path / RESULT).write_text(content)
    with pytest.raises(ValueError, match=r".+"):
        summary_of(tmp_path)


def test_without_a_record_there_is_nothing(tmp_path):
    write_record(tmp_path, record_of())
    (tmp_path / RESULT).unlink()
    with pytest.raises(FileNotFoundError):
        summary_of(tmp_path)
