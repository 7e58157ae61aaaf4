"""A cell's summary is that of the record beside it, wherever a process was killed and whoever changed the record."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpgraph.config.record import CellRecord, SeedRecord
from dpgraph.config.summary import RESULT, SUMMARY, CellSummary, stored_summary, summary_of, write_record, write_summary


def record_of(status="ok", seconds=(1.0, 2.5), reason="", asked=(0, 1), seed_status="ok"):
    seeds = tuple(SeedRecord(seed=seed, status=seed_status, seconds=value) for seed, value in enumerate(seconds))
    return CellRecord(cell={"method": "mlp", "seeds": list(asked)}, status=status, reason=reason, seeds=seeds)


def test_what_is_in_it(tmp_path):
    write_record(tmp_path, record_of())
    expected = CellSummary(status="ok", seconds=3.5, seeds=(0, 1), failed_seeds=0)
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


def test_killed_before_the_summary_is_written_the_record_is_read(tmp_path, monkeypatch):
    write_record(tmp_path, record_of("ok", (1.0,)))
    with monkeypatch.context() as killed:
        killed.setattr("dpgraph.config.summary.write_summary", lambda *_: None)
        write_record(tmp_path, record_of("ok", (2.0,)))
    assert stored_summary(tmp_path) is None
    assert summary_of(tmp_path).seconds == 2.0


def test_a_record_that_was_changed_later_is_read_itself(tmp_path):
    write_record(tmp_path, record_of())
    path = tmp_path / RESULT
    before = path.stat()
    text = path.read_text()
    path.write_text(text.replace('"seconds": 2.5', '"seconds": 7.5'))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))
    assert summary_of(tmp_path).seconds == 8.5
    write_summary(tmp_path, CellRecord.model_validate_json(path.read_text()))
    os.utime(tmp_path / SUMMARY, ns=(before.st_atime_ns, before.st_mtime_ns + 10**9))
    assert stored_summary(tmp_path).seconds == 8.5


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
