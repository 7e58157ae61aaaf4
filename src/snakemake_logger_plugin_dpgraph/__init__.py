"""`snakemake --logger dpgraph`: one live line on a terminal, a plain line now and then in a log, failures at once.

Snakemake finds this package by its name and imports it on every start, so it imports no heavy package. What Snakemake
reports otherwise is still in .snakemake/log/.
"""

import os
import shutil
import sys
import threading
import time
from contextlib import suppress
from logging import WARNING, LogRecord
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

LOG_SECONDS = 30.0  # between two lines in a log; ten times as long without a change
CLEAR = "\r\x1b[K"
# before the jobs begin, Snakemake prints these on every start
USUAL = ("Building DAG", "Config file ", "Using shell", "Assuming unrestricted", "host:", "Conda environments: ignored")
# while jobs run, these are worth a line; anything else is in Snakemake's log
WORTH_A_LINE = ("Trying to restart", "Will exit", "Terminating", "Shutting down", "Removing output", "Complete log")
NAMED_AT_THE_END = 10
# what Snakemake prints when somebody ends it; after SIGTERM it waits for the jobs that run
CTRL_C, SIGTERM = "Ctrl-C", "SIGTERM"
ENDINGS = {
    "Terminating processes on user request": CTRL_C,
    "Will exit after finishing currently running jobs (scheduler)": SIGTERM,
}


class LogHandler(LogHandlerBase):
    """Replace Snakemake's output to the terminal: of the jobs' events it prints only progress and failures."""

    writes_to_stream = True  # type: ignore[assignment]
    writes_to_file = False  # type: ignore[assignment]
    has_filter = False  # type: ignore[assignment]  # Snakemake's own one: --quiet means what it always does
    has_formatter = False  # type: ignore[assignment]
    needs_rulegraph = False  # type: ignore[assignment]

    def __post_init__(self) -> None:
        """Begin without jobs."""
        self.stream = sys.stdout if self.common_settings.stdout else sys.stderr
        self.live = self.stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        from snakemake_logger_plugin_dpgraph.jobs import Jobs

        self.jobs = Jobs()
        self.working = False  # between the plan of the jobs and the end
        self.ended_by = ""  # Ctrl-C or SIGTERM: jobs that it ends are no failures
        self.drawn = False  # the live line is the terminal's last line
        self.counts, self.counted_at = "", time.monotonic()
        self.ended = threading.Event()
        self.ticker = threading.Thread(target=self._tick, name="progress", daemon=True)

    def emit(self, record: LogRecord) -> None:
        """Print what a record says; called with the handler's lock held."""
        try:
            if self.common_settings.dryrun:
                self._say(self.format(record))
            else:
                self._take(record, record.__dict__)
        except BrokenPipeError:
            pass  # the reader has left; the jobs go on
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        """Print how the run ended."""
        self.ended.set()
        if self.working:
            self.ticker.join()
            self.working = False
            with suppress(OSError):
                self._say_the_end()
            _stop_timers()
        super().close()

    def _take(self, record: LogRecord, told: dict[str, Any]) -> None:
        now = time.monotonic()
        match told.get("event"):
            case LogEvent.RUN_INFO:
                self.jobs.plan(told["stats"])
                self._say(self.jobs.first_line())
                if not self.working:
                    self.working = True
                    self.ticker.start()
            case LogEvent.RESOURCES_INFO:
                self.jobs.remote |= "nodes" in told
            case LogEvent.JOB_STARTED:
                self.jobs.start(told["jobs"], now)
            case LogEvent.JOB_INFO:
                self.jobs.describe(told["jobid"], told["rule_name"], told["wildcards"] or {})
            case LogEvent.JOB_FINISHED:
                self.jobs.finish(told["job_id"], now)
            case LogEvent.JOB_ERROR:
                self._fail(told, now)
            case LogEvent.ERROR | LogEvent.GROUP_ERROR:
                if told.get("exception") == "LockException":
                    from dpgraph.pipeline.locks import refusal

                    self._say(f"error: {refusal()}")
                elif not self.ended_by and not _repeats_job_error(told):
                    self._say(self.format(record))
            case None:
                text = self.format(record)
                quiet = text.startswith(USUAL) or (self.working and not text.startswith(WORTH_A_LINE))
                if ending := next((by for said, by in ENDINGS.items() if text.startswith(said)), ""):
                    quiet = self.ended_by == ending  # it says so once for each job that it waits for
                    self.ended_by = ending
                if (record.levelno >= WARNING and not self.ended_by) or not quiet:
                    self._say(text)
            case _:
                return  # headers, commands, Snakemake's own progress
        self._draw()

    def _fail(self, told: dict[str, Any], now: float) -> None:
        """Print rule, cause as the cluster reports it, log file and the log's last line."""
        from dpgraph.core.progress import last_line

        job, logs = told["jobid"], [Path(str(path)) for path in told.get("log") or ()]
        last = next(filter(None, map(last_line, logs)), "")
        # Ctrl-C reaches all processes of a terminal at once
        if last.startswith(("error: ended by SIGINT", "KeyboardInterrupt")):
            self.ended_by = CTRL_C
        if self.ended_by == CTRL_C or (self.ended_by and last.startswith("error: ended by SIGTERM")):
            self.jobs.running.pop(job, None)
            return
        self.jobs.fail(job, now)
        lines = [f"{time.strftime('%H:%M:%S')} failed: {self.jobs.name(job)} (rule {told['rule_name']})"]
        if cause := str(told.get("rule_msg") or "").partition("For further error details")[0].strip():
            lines.append(f"  cause: {cause}")
        if logs:
            lines += [f"  log: {path}" for path in logs] + [f"  last line: {last}" if last else "  the log is empty"]
        else:
            lines.append(f"  no log; command: {told.get('shellcmd') or 'unknown'}")
        self._say(*lines)

    def _tick(self) -> None:
        """Keep times current between two events."""
        while not self.ended.wait(1.0):
            with suppress(BrokenPipeError, ValueError):  # the stream is closed
                self.acquire()
                try:
                    self._draw() if self.live else self._say_progress()
                finally:
                    self.release()

    def _draw(self) -> None:
        if self.live and self.working:
            width = shutil.get_terminal_size().columns - 2
            self.stream.write(
                f"{CLEAR}{self.jobs.line(time.monotonic())[:width]} "
            )  # a job's output follows with a gap
            self.stream.flush()
            self.drawn = True

    def _say_progress(self) -> None:
        now, counts = time.monotonic(), self.jobs.counts()
        if now - self.counted_at >= LOG_SECONDS * (10 if counts == self.counts else 1):
            self.counts, self.counted_at = counts, now
            self._say(f"{time.strftime('%H:%M:%S')} {self.jobs.line(now)}")

    def _say(self, *lines: str) -> None:
        if text := "\n".join(line for line in lines if line and line != "None"):  # None: an event without a message
            self.stream.write(f"{CLEAR if self.drawn else ''}{text}\n")
            self.drawn = False
            self.stream.flush()

    def _say_the_end(self) -> None:
        lines, failed = [self.jobs.last_line(time.monotonic())], list(self.jobs.failed)
        lines += [f"  failed: {self.jobs.name(job)}" for job in failed[:NAMED_AT_THE_END]]
        if len(failed) > NAMED_AT_THE_END:
            lines.append(f"  and {len(failed) - NAMED_AT_THE_END} more")
        if self.ended_by:
            lines.append(f"ended by {self.ended_by}: finished work is kept, run again to resume")
        self._say(*lines)


def _stop_timers() -> None:
    """Stop Snakemake's limit of jobs per timespan: it has a timer for each job, which the exit would wait for."""
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer) and thread.function.__module__.startswith("snakemake.scheduling"):
            thread.cancel()


def _repeats_job_error(told: dict[str, Any]) -> bool:
    """Tell whether a job's own event follows at once, with its rule and its log."""
    said = str(told.get("msg"))
    ended = "returned non-zero exit status" in said or "died with <Signals." in said
    return told.get("exception") == "RuleException" and ended
