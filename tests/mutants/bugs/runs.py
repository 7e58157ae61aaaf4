"""Checks around a run that let something through."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit, ran, swap
from tests.mutants.planting import Audit, Bug, Edit

JOBS = "dpgraph.families.jobs:"
REGISTRY = "dpgraph.families.registry:"
EXECUTE = "dpgraph.pipeline.execute:"
CALIBRATION = "dpgraph.privacy.calibration:"
PROCEDURE = "dpgraph.privacy.procedure:"
CLASSIFICATION = "dpgraph.problems.classification:"
CHECK_LABELS = CLASSIFICATION + "ClassifiedRecords.check_labels"
OF_METHODS = "tests/contract/test_methods.py::"
OF_SOUNDNESS = "tests/engine/methods/test_soundness.py::"
OF_JOBS = "tests/pipeline/test_jobs.py::"
OF_PROBLEMS = "tests/problems/test_problems.py::"

BUGS = (
    edit(
        "a null record moves the mean's divisor",
        "dpgraph.families.subgraphs.steps:GraphSource.block_at",
        "self.present is not None",
        "self.present is None",
        "tests/engine/preparation/test_facts.py::test_a_null_record_is_drawn_and_not_read",
    ),
    edit("one step more", "dpgraph.engine.training.loop:train", "steps + 1", "steps + 2", ran("dp-mlp-0-rigorous")),
    edit(
        "a resumed run draws other noise",
        "dpgraph.engine.training.checkpoint:_set_state",
        "generator.set_state(state)",
        "pass",
        "tests/engine/training/test_loop.py::test_resumed_run_is_bit_identical",
    ),
    edit(
        "the comparison says nothing",
        PROCEDURE + "check_same",
        "if unlike: ...",
        "if not unlike: ...",
        OF_SOUNDNESS + "test_a_planted_difference_is_an_error",
    ),
    swap(
        "the comparison is generous",
        PROCEDURE + "TOLERANCE",
        lambda _: 0.5,
        OF_SOUNDNESS + "test_a_planted_difference_is_an_error",
    ),
    edit(
        "the stage compares nothing",
        EXECUTE + "train_seed",
        "prepared.check",
        "prepared.ran",
        OF_SOUNDNESS + "test_a_planted_difference_is_an_error",
    ),
    edit(
        "a seed is kept whatever its noise was",
        "dpgraph.pipeline.stages:_train_run",
        "digest([*known, stated, stamp, training_digest(run)], 16)",
        "digest([*known, stamp, training_digest(run)], 16)",
        "tests/pipeline/test_stages.py::test_a_seed_whose_noise_the_code_would_make_otherwise_is_trained_again",
    ),
    edit(
        "a private method without a mechanism counts as public",
        REGISTRY + "_specs",
        "one.name.startswith(PRIVATE) != one.private",
        "False",
        OF_SOUNDNESS + "test_a_private_method_without_a_mechanism_is_refused_before_anything",
    ),
    edit(
        "an unknown variant is the first one",
        "dpgraph.engine.methods.spec:MethodSpec.variant",
        "self.variants[cell.privacy.variant]",
        "next(iter(self.variants.values()))",
        OF_SOUNDNESS + "test_a_variant_gets_its_own_mechanism[dp-gnn-1-published]",
    ),
    edit(
        "a method that says epsilon 0 sees the records",
        JOBS + "make_jobs",
        "hidden = problem.counts_only(value)",
        "pass",
        OF_METHODS + "test_a_method_whose_epsilon_is_0_sees_no_record[random-0-none]",
    ),
    edit(
        "a method runs any mechanism",
        "dpgraph.engine.methods.spec:MethodSpec.check_runs",
        "type(mechanism) not in classes",
        "False",
        OF_SOUNDNESS + "test_a_method_runs_the_mechanisms_that_it_names_only",
    ),
    edit(
        "an edited file of runs is trained",
        "dpgraph.pipeline.run_files:read_runs",
        "name_of(cells, content) != file.bundle",
        "False",
        OF_JOBS + "test_a_file_of_runs_that_is_wrong_is_refused_in_one_line[seeds]",
    ),
    edit(
        "a file of runs keeps the names of other cells",
        "dpgraph.pipeline.run_files:read_runs",
        "named != list(cells)",
        "False",
        OF_JOBS + "test_a_file_of_runs_that_is_wrong_is_refused_in_one_line[steps]",
    ),
    edit(
        "a file of runs of another stage is taken",
        "dpgraph.pipeline.run_files:read_runs",
        "file.stage != stage",
        "False",
        OF_JOBS + "test_a_file_of_runs_that_is_wrong_is_refused_in_one_line[stage]",
    ),
    edit(
        "each run of a job asks the registry again",
        "dpgraph.pipeline.run_files:read_runs",
        "Run.resolve(cell, RunPaths.in_suite(paths, cell), methods[cell.method])",
        "Run.resolve(cell, RunPaths.in_suite(paths, cell))",
        OF_JOBS + "test_the_registry_is_asked_once_per_plan_and_once_per_job",
    ),
    edit(
        "a variant builds another mechanism",
        "dpgraph.planning.resolve:mechanism_for",
        "type(built) is not variant.mechanism",
        "False",
        OF_SOUNDNESS + "test_a_variant_builds_the_mechanism_that_it_names",
    ),
    edit(
        "a mechanism gives less noise and says so",
        "dpgraph.privacy.mechanisms.base:NoisySteps.noise_std_over_clip",
        "self.noise_multiplier",
        "None if self.noise_multiplier is None else self.noise_multiplier / 1.3",
        Audit("facts", 200),
    ),
    edit(
        "an edited calibration is believed",
        CALIBRATION + "check_calibration",
        "wanted.items()",
        "()",
        OF_SOUNDNESS + "test_an_edited_calibration_is_refused[noise]",
    ),
    edit(
        "an edited epsilon is believed",
        CALIBRATION + "check_calibration",
        "stored.statement != statement",
        "False",
        OF_SOUNDNESS + "test_an_edited_calibration_is_refused[relation]",
    ),
    edit(
        "test labels are shown",
        CLASSIFICATION + "hidden_labels",
        "np.where(np.isin(records.split, (TRAIN, VALIDATION)), records.labels, -1)",
        "np.asarray(records.labels)",
        OF_METHODS + "test_blind_hides_test_labels_only",
    ),
    Bug(
        "test labels are shown and nobody looks",
        (
            Edit(
                CLASSIFICATION + "hidden_labels",
                "np.where(np.isin(records.split, (TRAIN, VALIDATION)), records.labels, -1)",
                "np.asarray(records.labels)",
            ),
            Edit(
                CLASSIFICATION + "ClassifiedRecords.check_labels",
                "(np.asarray(value.labels)[~allowed] >= 0).any()",
                "False",
            ),
        ),
        OF_METHODS + "test_a_private_method_sees_no_label[dp-gnn-1-rigorous]",
    ),
    Bug(
        "training labels are shown to a private method",
        (
            Edit(JOBS + "make_jobs", "problem.unlabelled(hidden)", "hidden"),
            Edit(
                CLASSIFICATION + "ClassifiedRecords.check_labels",
                "(np.asarray(value.labels)[~allowed] >= 0).any()",
                "False",
            ),
        ),
        OF_METHODS + "test_a_private_method_sees_no_label[dp-subgraph-3-rigorous]",
    ),
    edit(
        "tested tuples of a relation are shown",
        "dpgraph.problems.relations.work:RelationPrediction.blind",
        "np.asarray(value.split) != TEST",
        "np.asarray(value.split) >= 0",
        OF_PROBLEMS + "test_relations_hide_the_tested_tuples_and_keep_every_edge_once",
    ),
    edit(
        "a split with other counts keeps the noise of the first",
        EXECUTE + "train_seed",
        "problem.counts(value) != counts",
        "False",
        "tests/pipeline/test_stages.py::test_a_split_with_other_counts_than_the_calibrated_ones_is_refused",
    ),
    edit(
        "edges of the first split stay in another one",
        "dpgraph.data.store:_with_split",
        "replace(changed, out_ptr=ptr, out_idx=idx, in_ptr=ptr, in_idx=idx)",
        "changed",
        OF_PROBLEMS + "test_a_disjoint_split_has_the_edges_of_its_own_parts",
    ),
)
