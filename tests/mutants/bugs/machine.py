"""What `dpgraph run` asks of a machine before anything runs, and whose the locks of a folder are."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit, swap

LOCKS, START = "dpgraph.pipeline.locks:", "dpgraph.pipeline.interruptible:"
COMMAND, CLI = "dpgraph.cli.snakemake:", "dpgraph.cli.workflow:"
OF_LOCKS, OF_RUN = "tests/pipeline/test_locks.py::", "tests/workflow/test_run.py::"
KILLED = OF_LOCKS + "test_a_lock_is_kept_while_its_run_lives_and_removed_once_it_was_killed"
CERTAIN = OF_LOCKS + "test_only_a_run_that_has_certainly_ended_loses_its_lock[changes{}-False]"
SIGNED = OF_LOCKS + "test_locks_of_others_stay_where_a_run_s_own_are_removed"
REFUSED = OF_RUN + "test_what_snakemake_refuses_or_lacks_is_one_line_before_anything_runs"
PLACES = OF_RUN + "test_a_file_in_the_place_of_a_folder_is_named_before_anything_runs[{}]"
UNWRITTEN = OF_RUN + "test_a_folder_that_may_not_be_written_and_a_full_disk_are_named"
OUTSIDE = OF_RUN + "test_outside_of_a_project_s_folder_each_command_says_so[{}]"

BUGS = (
    edit(
        "the lock of a living run is removed",
        LOCKS + "remove_ended",
        "if has_ended(path, owner): ...",
        "if owner.nearby: ...",
        KILLED,
    ),
    edit(
        "a living run is unlocked",
        LOCKS + "unlock",
        "owner.nearby and not has_ended(path, owner)",
        "False",
        KILLED,
    ),
    edit("a run holds no lock", LOCKS + "sign", "fcntl.LOCK_EX", "fcntl.LOCK_UN", SIGNED),
    edit(
        "a free lock is enough",
        LOCKS + "has_ended",
        "owner.nearby",
        "True",
        CERTAIN.format(1),
    ),
    edit(
        "a host's name is enough",
        LOCKS + "Owner.nearby",
        "(self.host, self.machine) == (platform.node(), _machine())",
        "self.host == platform.node()",
        CERTAIN.format(2),
    ),
    edit(
        "a machine's id is enough",
        LOCKS + "Owner.nearby",
        "(self.host, self.machine) == (platform.node(), _machine())",
        "self.machine == _machine()",
        CERTAIN.format(1),
    ),
    edit(
        "two machines without an id are one",
        LOCKS + "Owner.nearby",
        "self.machine != ''",
        "True",
        CERTAIN.format(3),
    ),
    edit(
        "two runs remove the same lock",
        LOCKS + "remove_ended",
        "path.rename(claimed)",
        "claimed.touch()",
        OF_LOCKS + "test_of_two_runs_that_find_an_ended_one_a_single_one_removes_its_locks",
    ),
    edit(
        "all locks go with one",
        LOCKS + "remove_ended",
        "owner.locks",
        "[path.name for path in folder.glob('*.lock')]",
        SIGNED,
    ),
    edit(
        "an owner's file names any file",
        LOCKS + "_signed",
        "owner.process > 0 and all(LOCK.fullmatch(name) for name in owner.locks)",
        "owner.process > 0",
        OF_LOCKS + "test_an_owner_s_file_names_no_files_but_locks",
    ),
    edit(
        "a run signs nothing",
        LOCKS + "sign",
        "owner.locks",
        "False",
        SIGNED,
    ),
    edit(
        "a missing program is not looked for",
        START + "check_cluster",
        "not shutil.which(program)",
        "False",
        REFUSED + "[--profile=slurm-message3]",
    ),
    edit(
        "the executor of an option is not looked at",
        START + "main",
        "check_cluster(options.executor or '')",
        "None",
        REFUSED + "[--snakemake=--executor slurm --jobs 2-message5]",
    ),
    edit(
        "no cluster is asked",
        START + "check_cluster",
        "if answer.returncode: ...",
        "if False: ...",
        OF_RUN + "test_programs_without_a_cluster_are_named_with_what_they_say",
    ),
    edit(
        "a file in the place of a folder is found by Snakemake",
        COMMAND + "_check_writable",
        "if not place.is_dir(): ...",
        "if False: ...",
        PLACES.format("results-"),
    ),
    edit(
        "the suite's own folder is not looked at",
        COMMAND + "snakemake_command",
        "Path(config.results, config.suite)",
        "Path(config.results)",
        PLACES.format("results/demo-"),
    ),
    edit(
        "a folder of another user is written",
        COMMAND + "_check_writable",
        "os.access(place, os.W_OK | os.X_OK)",
        "True",
        UNWRITTEN,
    ),
    swap("a full disk is large enough", COMMAND + "LEAST_FREE", lambda _: 0, UNWRITTEN),
    edit("verify runs anywhere", CLI + "verify", "not Path('Snakefile').is_file()", "False", OUTSIDE.format("verify")),
    edit(
        "the inventory is read anywhere",
        CLI + "list_",
        "if not suite.workflow.is_dir(): ...",
        "if False: ...",
        OUTSIDE.format("list inventory"),
    ),
    edit(
        "a suite is looked for without a project",
        "dpgraph.config.suite:read_suite",
        "if not path.parent.is_dir(): ...",
        "if False: ...",
        OUTSIDE.format("status"),
    ),
)
