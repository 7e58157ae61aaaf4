"""Run Snakemake with status checks of Slurm's jobs every two seconds.

The executor's own checks grow apart by ten seconds each, with no option against it: a test would wait for them.
"""

import sys

import snakemake.cli
from snakemake_executor_plugin_slurm import Executor

SECONDS = 2

if __name__ == "__main__":
    Executor.next_seconds_between_status_checks = property(lambda self: SECONDS, lambda self, seconds: None)
    del sys.path[0]  # this folder
    snakemake.cli.main()
