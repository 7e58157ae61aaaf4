"""The handler that Snakemake gives its log records to; it replaces Snakemake's own output to the terminal."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from logging import WARNING, LogRecord
from pathlib import Path
from typing import Any

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent
from snakemake_interface_logger_plugins.settings import LogHandlerSettingsBase

REDRAW_SECONDS = 1.0
UNCHANGED_SECONDS = 300.0  # a log repeats a line without news only so often
CLEAR = "\r\x1b[K"
# what Snakemake prints on every start and is not about this run
USUAL = (
    "Building DAG of jobs",
    "Config file ",
    "Using shell",
    "Assuming unrestricted",
    "host:",
    "Conda environments: ignored",
)
# what is worth a line while jobs run; anything else is in Snakemake's log
WORTH_A_LINE = ("Trying to restart", "Will exit", "Terminating", "Shutting down", "Removing output", "Complete log")
NAMED_AT_THE_END = 10


@dataclass
class LogHandlerSettings(LogHandlerSettingsBase):
    every_seconds: int = field(
        default=30,
        metadata={"help": "Where the output is no terminal: seconds between two lines of progress", "type": int},
    )


class LogHandler(LogHandlerBase):
    """Plain messages, warnings and errors as Snakemake prints them; of the jobs' events only progress and failures."""

    def __post_init__(self) -> None:
        from snakemake_logger_plugin_dpgraph.jobs import Jobs

        self.stream = sys.stdout if self.common_settings.stdout else sys.stderr
        self.live = self.stream.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        self.every = float(getattr(self.settings, "every_seconds", 30))
        self.jobs = Jobs()
        self.working = False  # between the plan of the jobs and the end
        self.interrupted = False  # by Ctrl-C: jobs that end are no failures
        self.drawn = False  # the live line is the terminal's last line
        self.said, self.said_at = "", time.monotonic()
        self.ended = threading.Event()
        self.ticker: threading.Thread | None = None

    # ---- what Snakemake calls on a handler
    # ----------------------------------------------------------------------------

    @property
    def writes_to_stream(self) -> bool:
        return True

    @property
    def writes_to_file(self) -> bool:
        return False

    @property
    def has_filter(self) -> bool:
        return False  # Snakemake's own one: --quiet means what it always does

    @property
    def has_formatter(self) -> bool:
        return False

    @property
    def needs_rulegraph(self) -> bool:
        return False

    def emit(self, record: LogRecord) -> None:
        """Called with the handler's lock held."""
        try:
            if self.common_settings.dryrun:
                self._say(self.format(record))
            else:
                self._take(record, getattr(record, "event", None))
        except BrokenPipeError:
            pass  # the reader has left; the jobs go on
        except Exception:
            self.handleError(record)

    def close(self) -> None:
        self.ended.set()
        if self.ticker is not None:
            self.ticker.join()
            self.ticker = None
        if self.working:
            self.working = False
            with suppress(OSError):
                self._say_the_end()
            _stop_timers()
        super().close()

    # ---- events ------------------------------------------------------------------------------------------------------

    def _take(self, record: LogRecord, event: LogEvent | None) -> None:
        now, told = time.monotonic(), record.__dict__
        match event:
            case LogEvent.RUN_INFO:
                self.jobs.plan(told["stats"])
                self._say(self.jobs.first_line())
                self._begin()
            case LogEvent.RESOURCES_INFO:
                self.jobs.remote |= "nodes" in told
            case LogEvent.JOB_STARTED:
                self.jobs.start(told["jobs"], now)
            case LogEvent.JOB_INFO:
                self.jobs.describe(told["jobid"], told["rule_name"], told["wildcards"] or {})
                self._draw()
            case LogEvent.JOB_FINISHED:
                self.jobs.finish(told["job_id"], now)
                self._draw()
            case LogEvent.JOB_ERROR:
                if self.interrupted or _was_interrupted(told):
                    self.interrupted = True
                    self.jobs.stop(told["jobid"])
                else:
                    self.jobs.fail(told["jobid"], now)
                    self._say(*self._failure(told))
            case LogEvent.ERROR | LogEvent.GROUP_ERROR:
                if not _repeats_job_error(told) and not self._is_of_ctrl_c(self.format(record)):
                    self._say(self.format(record))
            case None:
                self._say_message(record)
            case _:
                pass  # headers, commands, Snakemake's own progress

    def _say_message(self, record: LogRecord) -> None:
        text = self.format(record)
        self.interrupted |= text.startswith("Terminating processes on user request")
        if record.levelno < WARNING and text.startswith(USUAL):
            return
        if self._is_of_ctrl_c(text):
            return
        if record.levelno >= WARNING or not self.working or text.startswith(WORTH_A_LINE):
            self._say(text)

    def _is_of_ctrl_c(self, text: str) -> bool:
        """Snakemake's last word that jobs did not complete, where none failed and Ctrl-C ended them."""
        return self.interrupted and not self.jobs.failed and "At least one job did not complete" in text

    def _failure(self, told: dict[str, Any]) -> list[str]:
        """Rule, cause as the cluster reports it, log file and the log's last line."""
        from dpgraph.progress import last_lines

        lines = [f"{time.strftime('%H:%M:%S')} failed: {self.jobs.name(told['jobid'])} (rule {told['rule_name']})"]
        cause = str(told.get("rule_msg") or "").partition("For further error details")[0].strip()
        if cause:
            lines.append(f"  cause: {cause}")
        logs = [str(path) for path in told.get("log") or ()]
        if not logs:
            return [*lines, f"  no log; command: {told.get('shellcmd') or 'unknown'}"]
        lines += [f"  log: {path}" for path in logs]
        last = next(filter(None, (last_lines(Path(path)) for path in logs)), None)
        return [*lines, f"  last line: {last[0].strip()}" if last else "  the log is empty"]

    # ---- output ------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self.working = True
        self.said_at = time.monotonic()
        if self.ticker is None:
            self.ticker = threading.Thread(target=self._tick, name="progress", daemon=True)
            self.ticker.start()

    def _tick(self) -> None:
        """Keeps times current between two events."""
        while not self.ended.wait(REDRAW_SECONDS if self.live else min(self.every, 1.0)):
            self.acquire()
            try:
                if self.live:
                    self._draw()
                else:
                    self._say_progress()
            except (BrokenPipeError, ValueError):  # the stream is closed
                return
            finally:
                self.release()

    def _draw(self) -> None:
        if self.live and self.working:
            line = self.jobs.line(time.monotonic())
            width = shutil.get_terminal_size().columns - 2
            self.stream.write(CLEAR + line[:width] + " ")  # a job's own output would follow it without a gap
            self.stream.flush()
            self.drawn = True

    def _say_progress(self) -> None:
        now = time.monotonic()
        counts = f"{len(self.jobs.finished)} {len(self.jobs.failed)} {sorted(map(str, self.jobs.running))}"
        if now - self.said_at >= (self.every if counts != self.said else max(self.every, UNCHANGED_SECONDS)):
            self.said, self.said_at = counts, now
            self._say(f"{time.strftime('%H:%M:%S')} {self.jobs.line(now)}")

    def _say(self, *lines: str) -> None:
        text = "\n".join(line for line in lines if line and line != "None")  # None: an event without a message
        if not text:
            return
        self.stream.write((CLEAR if self.drawn else "") + text + "\n")
        self.drawn = False
        self.stream.flush()
        self._draw()

    def _say_the_end(self) -> None:
        lines = [self.jobs.last_line(time.monotonic())]
        failed = list(self.jobs.failed)
        lines += [f"  failed: {self.jobs.name(job)}" for job in failed[:NAMED_AT_THE_END]]
        if len(failed) > NAMED_AT_THE_END:
            lines.append(f"  and {len(failed) - NAMED_AT_THE_END} more")
        if self.interrupted:
            lines.append("ended by Ctrl-C: finished work is kept, run again to resume")
        if failed:
            lines.append("`dpgraph status` shows the last lines of their logs")
        self._say(*lines)


def _stop_timers() -> None:
    """Those of Snakemake's limit of jobs per timespan: for each job there is one, which the exit would wait for."""
    for thread in threading.enumerate():
        if isinstance(thread, threading.Timer) and thread.function.__module__.startswith("snakemake.scheduling"):
            thread.cancel()


def _was_interrupted(told: dict[str, Any]) -> bool:
    """Whether the job's own log ends with Ctrl-C, which reaches all processes of a terminal at once."""
    from dpgraph.progress import last_lines

    lines = [line for path in told.get("log") or () for line in last_lines(Path(str(path)))]
    return any(line.startswith("error: ended by SIGINT") or line.strip() == "KeyboardInterrupt" for line in lines)


def _repeats_job_error(told: dict[str, Any]) -> bool:
    """A command that failed, or that a signal ended: the job's own event follows at once, with its rule and its log."""
    said = str(told.get("msg"))
    ended = "returned non-zero exit status" in said or "died with <Signals." in said
    return told.get("exception") == "RuleException" and ended
