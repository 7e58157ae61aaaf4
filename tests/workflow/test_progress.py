"""The logger plugin: counts and times of its own, and what a run of Snakemake shows on a terminal and in a log."""

from __future__ import annotations

import io
import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
from logging import ERROR, INFO, Formatter, LogRecord
from types import SimpleNamespace

import numpy as np
import pytest
from snakemake.scheduling.job_scheduler import JobScheduler
from snakemake_interface_logger_plugins.common import LogEvent

from dpgraph.core.progress import last_line
from snakemake_logger_plugin_dpgraph import LogHandler
from snakemake_logger_plugin_dpgraph.jobs import ENOUGH, Jobs
from tests.workflow.forked import python

SNAKEFILE = """
rule all:
    input: "end"
rule part:
    output: "{n}.txt"
    log: "{n}.log"
    shell: "[ {wildcards.n} != 2 ] || {{ echo error: two is bad > {log}; exit 1; }}; touch {output}"
rule end:
    input: "1.txt", "2.txt"
    output: "end"
    shell: "touch {output}"
"""


@pytest.fixture
def jobs():
    """Ten of rule `train`, two of `table`, from second 100 on."""
    found = Jobs()
    found.plan({"train": 10, "table": 2, "total": 12})
    for job in range(10):
        found.describe(job, "train", {"bundle": f"b{job}"})
    for job in (10, 11):
        found.describe(job, "table", {"paper": "huang", "artefact": f"t{job}"})
    return found


def test_before_a_job_has_ended_no_time_is_told(jobs):
    assert jobs.line(100) == "0 of 12 jobs (0 %)"
    jobs.start([0, 1], 100)
    assert jobs.line(500) == "0 of 12 jobs (0 %), 2 running (train)"


def test_work_goes_on_at_its_speed():
    found = Jobs(expected={"train": {f"b{job}": 100.0 for job in range(10)}})
    found.plan({"train": 10, "total": 10})
    for job in range(10):
        found.describe(job, "train", {"bundle": f"b{job}"})
    found.start([0, 1], 100)
    found.finish(0, 400)
    found.finish(1, 400)
    found.start([2, 3], 400)
    # eight are left at 300 s each, two at a time, 100 s of two are done
    assert found.seconds_left(500) == pytest.approx((8 * 300 - 2 * 100) / 2)
    assert found.line(500) == "2 of 10 jobs (20 %), 2 running (train), about 18 min left"


def test_no_time_is_left_where_no_job_is():
    found = Jobs()
    found.plan({"train": 2, "total": 2})
    found.start([0], 0)
    found.describe(0, "train", {})
    found.finish(0, 60)
    assert found.line(61).endswith("about 61 s left")
    found.start([1], 61)
    found.describe(1, "train", {})
    assert "left" in found.line(62)
    found.finish(1, 63)  # far sooner than it looked
    assert found.line(63) == "2 of 2 jobs (100 %)"


def test_short_jobs_say_nothing_of_long_ones(jobs):
    jobs.expected = {"train": {f"b{job}": 100.0 for job in range(10)}}
    jobs.start([10], 100)
    jobs.finish(10, 101)
    assert jobs.seconds_left(130) is None  # 3 of 1006 planned seconds
    assert jobs.name(10) == "table huang/t10"


def told_along(expected, taken, at_a_time=2):
    """(second, seconds told, seconds that were left) each ten seconds of a run whose jobs begin in the order given."""
    found = Jobs(expected={"train": expected})
    found.plan({"train": len(expected), "total": len(expected)})
    ends = dict.fromkeys(range(at_a_time), 0.0)
    events = []
    for job, (name, seconds) in enumerate(taken.items()):
        found.describe(job, "train", {"bundle": name})
        place = min(ends, key=ends.get)
        events += [(ends[place], 1, job), (ends[place] + seconds, 0, job)]
        ends[place] += seconds
    said, events = [], sorted(events)
    for now in range(0, int(max(ends.values())), 10):
        while events and events[0][0] <= now:
            when, begins, job = events.pop(0)
            if begins:
                found.start([job], when)
            else:
                found.finish(job, when)
        told = found.seconds_left(now)
        if told is not None:
            said.append((now, told, max(ends.values()) - now))
    return said


@pytest.mark.parametrize("order", ["short first", "long first", "mixed"])
def test_the_time_told_does_not_jump(order):
    """Bundles from 10 to 600 planned seconds, each of which takes 1.2 to 2.2 times as long."""
    random = np.random.default_rng(0)
    planned = dict(enumerate(10 * 60 ** random.random(60)))
    order_of = {"short first": lambda name: planned[name], "long first": lambda name: -planned[name]}
    names = sorted(planned, key=order_of.get(order, lambda name: name))
    expected = {f"b{name}": planned[name] for name in names}
    taken = {f"b{name}": planned[name] * (1.2 + random.random()) for name in names}
    said = told_along(expected, taken)
    whole = said[0][0] + said[0][2]
    assert ENOUGH / 2 < said[0][0] / whole < 3 * ENOUGH  # nothing while little is known
    for now, seconds, left in said:
        assert abs(seconds - left) < 0.25 * whole, now
    ends = np.array([now + seconds for now, seconds, _ in said])
    assert np.abs(ends[6:] - ends[:-6]).max() < 0.1 * whole  # in a minute
    # what was told before: all jobs of a rule alike
    alike = told_along(dict.fromkeys(expected, 1.0), taken)
    if order != "mixed":
        assert max(abs(seconds - left) for _, seconds, left in alike) > 0.4 * whole


def test_what_was_planned_need_not_be_what_runs():
    """One job of another name, and one that fails."""
    found = Jobs(expected={"train": {"a": 10.0, "b": 30.0}})
    found.plan({"train": 4, "total": 4})
    for job, name in enumerate(("a", "b", "other", "c")):
        found.describe(job, "train", {"bundle": name})
    found.start([0], 0)
    found.finish(0, 20)
    assert found.seconds_left(20) == pytest.approx(2 * (80 - 10))
    found.start([1], 20)
    found.fail(1, 80)
    assert found.seconds_left(80) == pytest.approx(2 * (80 - 10 - 30))
    found.start([2, 3], 80)
    assert found.seconds_left(10_000) == 0


def test_jobs_that_ctrl_c_ends_are_no_failures(handler, tmp_path):
    made, stream = handler()
    begin(made)
    log = tmp_path / "cora.log"
    log.write_text("12:00:00 begun\nerror: ended by SIGINT: finished work is kept, run again to resume\n")
    failure(made, [str(log)])
    assert "failed" not in stream.getvalue()
    made.close()
    said = stream.getvalue().splitlines()
    assert said[-2].startswith("stopped: 0 of 2 jobs in ")
    assert said[-2].endswith(" s")
    assert said[-1] == "ended by Ctrl-C: finished work is kept, run again to resume"


def test_jobs_that_sigterm_ends_are_failures_but_after_the_run_s_own(handler, tmp_path):
    made, stream = handler()
    begin(made)
    log = tmp_path / "cora.log"
    log.write_text("error: ended by SIGTERM: finished work is kept, run again to resume\n")
    failure(made, [str(log)])
    assert stream.getvalue().count("failed: train") == 1  # by a cluster's time limit
    tell(made, message="Will exit after finishing currently running jobs (scheduler).")
    failure(made, [str(log)])
    assert stream.getvalue().count("failed: train") == 1
    log.write_text("error: no such graph\n")
    failure(made, [str(log)])
    assert stream.getvalue().count("failed: train") == 2


def test_snakemake_s_word_of_ctrl_c_counts_for_jobs_without_a_log(handler):
    made, stream = handler()
    begin(made)
    tell(made, message="Terminating processes on user request, this might take some time.")
    failure(made, [])
    for event in (LogEvent.ERROR, None):
        tell(made, event, "WorkflowError:\nAt least one job did not complete successfully.", ERROR)
    made.close()
    assert "failed" not in stream.getvalue()
    assert "WorkflowError" not in stream.getvalue()


def test_a_failed_job_that_is_tried_again_is_no_failure(jobs):
    jobs.start([0], 100)
    jobs.fail(0, 110)
    assert "1 failed" in jobs.line(110)
    jobs.start([0], 111)
    assert jobs.line(112) == "0 of 12 jobs (0 %), 1 running (train)"
    jobs.finish(0, 120)
    assert (len(jobs.finished), len(jobs.failed)) == (1, 0)


def test_on_a_cluster_jobs_are_submitted(jobs):
    jobs.remote = True
    jobs.start([0], 100)
    assert "1 submitted (train)" in jobs.line(101)


def test_the_end(jobs):
    jobs.start(range(12), 100)
    for job in range(11):
        jobs.finish(job, 160)
    jobs.fail(11, 160)
    assert jobs.last_line(700) == "stopped: 11 of 12 jobs in 10 min, 1 failed"
    jobs.start([11], 700)
    jobs.finish(11, 700)
    assert jobs.last_line(700) == "finished: 12 of 12 jobs in 10 min"


class Stream(io.StringIO):
    terminal = False

    def isatty(self):
        return self.terminal


@pytest.fixture
def handler(monkeypatch):
    """(handler, what it has written), with Snakemake's settings for a run."""

    def made(terminal=False, dryrun=False):
        stream = Stream()
        stream.terminal = terminal
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setattr("snakemake_logger_plugin_dpgraph.LOG_SECONDS", 3600)
        handler = LogHandler(SimpleNamespace(stdout=False, dryrun=dryrun), None)
        handler.setFormatter(Formatter("%(message)s"))
        handlers.append(handler)
        return handler, stream

    handlers: list[LogHandler] = []
    yield made
    for each in handlers:
        each.close()


def tell(handler, event=None, message="", level=INFO, **told):
    record = LogRecord("snakemake", level, "", 0, message, None, None)
    record.__dict__.update(told, event=event)
    handler.handle(record)


def begin(handler):
    tell(handler, LogEvent.RUN_INFO, stats={"train": 2, "total": 2})
    tell(handler, LogEvent.JOB_STARTED, jobs=[1, 2])
    for job in (1, 2):
        tell(handler, LogEvent.JOB_INFO, jobid=job, rule_name="train", wildcards={"bundle": f"cora.{job}"}, log=[])


def failure(handler, log, cause=None):
    tell(handler, LogEvent.JOB_ERROR, "Error in rule", ERROR, jobid=1, rule_name="train", log=log, rule_msg=cause)


def test_a_failure_is_told_with_rule_log_and_last_line(handler, tmp_path):
    made, stream = handler()
    begin(made)
    log = tmp_path / "cora.log"
    log.write_text("12:00:00 begun\n 10%\r 90%\rerror: no such graph\n\n")
    failure(made, [str(log)])
    said = stream.getvalue().splitlines()
    assert said[0] == "2 jobs: 2 train"
    assert re.fullmatch(r"\d\d:\d\d:\d\d failed: train cora.1 \(rule train\)", said[1])
    assert said[2:] == [f"  log: {log}", "  last line: error: no such graph"]


def test_what_the_cluster_says_is_told_even_with_an_empty_log(handler, tmp_path):
    made, stream = handler()
    begin(made)
    cause = "SLURM-job '7' failed, SLURM status is: 'OUT_OF_MEMORY'. For further error details see the cluster log."
    failure(made, [str(tmp_path / "none.log")], cause)
    said = stream.getvalue()
    assert "  cause: SLURM-job '7' failed, SLURM status is: 'OUT_OF_MEMORY'.\n" in said
    assert "  the log is empty\n" in said


def test_the_end_does_not_wait_for_snakemakes_timers(handler):
    made, _ = handler()
    begin(made)
    other = threading.Timer(3600, print)
    other.start()
    JobScheduler._schedule_reevalutation(SimpleNamespace(_open_jobs=threading.Semaphore(0)), 3600)
    (timer,) = [one for one in threading.enumerate() if isinstance(one, threading.Timer) and one is not other]
    made.close()
    timer.join(60)
    assert not timer.is_alive()
    assert other.is_alive()
    other.cancel()


def test_noise_is_left_out_and_errors_are_not(handler):
    made, stream = handler()
    tell(made, None, "Building DAG of jobs...")
    tell(made, LogEvent.WORKFLOW_STARTED, "Workflow has started!")
    tell(made, None, "Unlocked working directory.")
    begin(made)
    tell(made, None, "Select jobs to execute...")
    tell(made, None, "Trying to restart job 1.")
    tell(made, None, "a warning", 30)
    for end in ("returned non-zero exit status 1.", "died with <Signals.SIGINT: 2>."):
        tell(made, LogEvent.ERROR, f"RuleException:\nCommand 'x' {end}", ERROR, exception="RuleException")
    tell(made, LogEvent.ERROR, "MissingOutputException: late", ERROR, exception="MissingOutputException")
    assert stream.getvalue().splitlines() == [
        "Unlocked working directory.",
        "2 jobs: 2 train",
        "Trying to restart job 1.",
        "a warning",
        "MissingOutputException: late",
    ]


def test_one_live_line_on_a_terminal(handler):
    made, stream = handler(terminal=True)
    begin(made)
    tell(made, LogEvent.JOB_FINISHED, job_id=1)
    tell(made, None, "a warning", 30)
    text = stream.getvalue()
    # the live line is erased before a message and drawn again after it
    line = r"\r\x1b\[K1 of 2 jobs \(50 %\), 1 running \(train\)"
    assert re.search(line + r"[^\n]*\r\x1b\[Ka warning\n" + line, text)
    made.close()
    assert re.search(line + r"[^\n]*\r\x1b\[Kstopped: 1 of 2 jobs in \d+ s\n$", stream.getvalue())


def test_a_dry_run_says_all_that_snakemake_says(handler):
    made, stream = handler(dryrun=True)
    tell(made, LogEvent.JOB_INFO, "rule train: ...", jobid=1)
    tell(made, None, "This was a dry-run")
    tell(made, LogEvent.SHELLCMD, "None")
    assert stream.getvalue() == "rule train: ...\nThis was a dry-run\n"


def test_last_line(tmp_path):
    path = tmp_path / "log"
    assert last_line(path) is None
    path.write_bytes(b"a\n\nb \r\n\xff c\n\n  \n")
    assert last_line(path) == "\ufffd c"
    path.write_text("x" * 100_000)
    assert last_line(path, most_bytes=50) == "x" * 50


def snakemake(folder, *options):
    return [python(), "-m", "snakemake", "--cores", "1", "--logger", "dpgraph", "-k", *options], folder


def test_a_run_in_a_log(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE)
    command, folder = snakemake(tmp_path)
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 1
    said = run.stderr.splitlines()
    assert said[0] == "4 jobs: 2 part, 1 end, 1 all"
    where = next(index for index, text in enumerate(said) if "failed: part 2 (rule part)" in text)
    assert said[where + 1 : where + 3] == ["  log: 2.log", "  last line: error: two is bad"]
    assert re.fullmatch(r"stopped: 1 of 4 jobs in \d+ s, 1 failed", said[-2])
    assert said[-1] == "  failed: part 2"
    (log,) = (tmp_path / ".snakemake/log").iterdir()
    assert "Error in rule part:" in log.read_text()  # Snakemake's own log has all


def test_sigterm_lets_jobs_end_and_is_no_failure(tmp_path):
    (tmp_path / "Snakefile").write_text(
        """
rule all:
    input: "end"
rule begin:
    output: "begun"
    shell: "touch seen; until [ -e go ]; do sleep .1; done; touch {output}"
rule end:
    input: "begun"
    output: "end"
    shell: "touch {output}"
"""
    )
    command = [sys.executable, "-m", "dpgraph.pipeline.interruptible", "--cores", "1", "--logger", "dpgraph"]
    run = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        while not (tmp_path / "seen").exists():
            assert run.poll() is None
            time.sleep(0.05)
        run.send_signal(signal.SIGTERM)
        (tmp_path / "go").touch()
        said = run.communicate(timeout=300)[1]
    finally:
        run.kill()
    assert run.returncode == 143, said
    assert (tmp_path / "begun").exists()
    assert not (tmp_path / "end").exists()
    assert said.splitlines()[-1] == "ended by SIGTERM: finished work is kept, run again to resume"
    assert "Error" not in said
    assert said.count("Will exit after finishing") == 1


def test_a_run_on_a_terminal(tmp_path):
    (tmp_path / "Snakefile").write_text(SNAKEFILE.replace("!= 2", "!= 3"))
    command, folder = snakemake(tmp_path)
    terminal, end = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "80"}
    process = subprocess.Popen(command, cwd=folder, stdout=end, stderr=end, stdin=end, env=environment)
    os.close(end)
    said = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        said += part
    os.close(terminal)
    assert process.wait(timeout=600) == 0
    text = said.decode()
    assert text.startswith("4 jobs: 2 part, 1 end, 1 all\r\n\r\x1b[K0 of 4 jobs (0 %)")
    assert "\r\x1b[K1 of 4 jobs (25 %)" in text
    assert text.rstrip().splitlines()[-1].rpartition("\x1b[K")[2].startswith("finished: 4 of 4 jobs in")


def test_a_mistake_in_the_config_is_one_line(workflow):
    run = workflow.snakemake("--logger", "dpgraph", suite="none")
    assert run.returncode == 2
    (said,) = run.stderr.splitlines()
    assert said.startswith("error: suite=none: expected one of ")
