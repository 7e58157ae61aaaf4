"""A Snakemake that is killed while its job trains."""

from __future__ import annotations

import subprocess

from tests.slurm.cluster import DIGITS, wait_for
from tests.slurm.ends import nothing_lost, states

# as docs/how-to/slurm.md has it: the jobs that were submitted from this folder
CANCEL_ORPHANS = """
squeue --me --noheader --format "%i %Z" | awk -v here="$(pwd -P)" '$2 == here {print $1}' | xargs -r scancel
"""


def test_the_lock_of_a_killed_snakemake_goes_and_its_jobs_are_cancelled(run, undisturbed):
    marker = undisturbed.marker(DIGITS)
    run.start("--", marker)
    (caught,) = run.catch(DIGITS)
    run.kill()
    assert run.queue() == [caught.job]
    subprocess.run(["bash", "-c", CANCEL_ORPHANS], cwd=run.folder, check=True, timeout=60)
    wait_for("the end of the orphans", lambda: not run.queue())
    assert run("--", marker) == 0, run.output[-5000:]
    assert "removed the lock of process" in run.output
    assert states(run, DIGITS) == ["CANCELLED", "COMPLETED"]
    nothing_lost(run, undisturbed, caught, tasks=(DIGITS,))
