"""Teachers, their votes and what is released of them, of images and of nodes."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit, ran

NODE_TEACHERS = "dpgraph.families.pate.nodes.prepared:"
TEACHERS = "dpgraph.families.pate.prepared:"
GNMAX = "dpgraph.families.pate.prepared:"
TRAINING_NODE_TEACHERS = "dpgraph.families.pate.nodes.prepared:"
TRAINING_TEACHERS = "dpgraph.families.pate.teachers:"
OF_NODE_TEACHERS = "tests/families/pate/test_node_teachers.py::"
OF_TEACHERS = "tests/families/pate/test_prepared.py::"
OF_GNMAX = "tests/families/pate/test_prepared.py::"
OF_NODE_TEACHERS_TESTS = "tests/families/pate/test_node_teachers.py::"
OF_TEACHERS_TESTS = "tests/families/pate/test_teachers.py::"

BUGS = (
    edit(
        "teachers share images",
        TRAINING_TEACHERS + "_train",
        "(generator.random((len(sizes), plan.batch_size)) * sizes[:, None]).astype(np.int64) + starts[:-1, None]",
        "(generator.random((len(sizes), plan.batch_size)) * sizes[:, None]).astype(np.int64)",
        OF_TEACHERS_TESTS + "test_a_record_moves_one_teacher_only",
    ),
    edit(
        "parts by the order of those who train",
        TRAINING_TEACHERS + "members",
        "train[np.argsort(parts[train], kind='stable')]",
        "train",
        OF_TEACHERS_TESTS + "test_parts_are_disjoint_and_by_public_ids",
    ),
    edit(
        "votes without noise",
        GNMAX + "noisy_histograms",
        "noise_std * generator.standard_normal(votes.shape)",
        "0.0 * generator.standard_normal(votes.shape)",
        OF_GNMAX + "test_laws_of_checks_and_answers",
    ),
    edit(
        "checks without noise",
        GNMAX + "noisy_largest_count",
        "noise_std * generator.standard_normal(len(votes))",
        "0.0 * generator.standard_normal(len(votes))",
        OF_GNMAX + "test_laws_of_checks_and_answers",
    ),
    edit(
        "checks with the answers' noise",
        TEACHERS + "PreparedTeachers.labels",
        "mechanism.check_ratio * sigma",
        "sigma",
        ran("dp-pate-gan"),
    ),
    edit(
        "answers with half their noise",
        TEACHERS + "PreparedTeachers.labels",
        "(mechanism.check_ratio * sigma, sigma)",
        "(mechanism.check_ratio * sigma, sigma / 2)",
        ran("dp-pate-gan"),
    ),
    edit(
        "answers over the cap",
        GNMAX + "confident_gnmax",
        "np.flatnonzero(passed)[:max_answers]",
        "np.flatnonzero(passed)[:2 * max_answers]",
        OF_GNMAX + "test_caps_stop_the_run",
    ),
    edit(
        "checks over the cap",
        GNMAX + "confident_gnmax",
        "votes[:max_checks]",
        "votes",
        OF_GNMAX + "test_caps_stop_the_run",
    ),
    edit(
        "threshold from the votes",
        TEACHERS + "PreparedTeachers.labels",
        "self.threshold",
        "float(np.median(self.votes().max(axis=0)))",
        OF_TEACHERS + "test_the_threshold_is_public",
    ),
    edit(
        "noise that two releases share",
        TEACHERS + "PreparedTeachers.__init__",
        "[mechanism.chosen, self.plan.told(), self.threshold, *device]",
        "[self.plan.told()]",
        OF_TEACHERS + "test_each_release_has_noise_of_its_own",
    ),
    edit(
        "votes of other records from the cache",
        TEACHERS + "votes_of",
        "(features, labels, np.array(records.split))",
        "(features, np.array(records.split))",
        OF_TEACHERS + "test_kept_votes_are_of_these_records_only",
    ),
    edit(
        "an answer moves by 1",
        "dpgraph.families.pate.accountant:capped_epsilon",
        "2 * answers",
        "answers",
        "tests/families/pate/test_mechanism.py::test_rigorous_epsilon_is_that_of_the_library",
    ),
    edit(
        "removed labels are learnt from",
        "dpgraph.families.pate.students:StudentStep._batch",
        "phase == 1",
        "phase == 2",
        "tests/families/pate/test_students.py::test_cleansing_begins_anew_without_the_removed_labels",
    ),
    edit(
        "edges between parts of the nodes",
        TRAINING_NODE_TEACHERS + "edges_in_views",
        "parts[owners] == parts[found]",
        "parts[owners] >= 0",
        OF_NODE_TEACHERS_TESTS + "test_edges_between_parts_are_in_no_view",
    ),
    edit(
        "a query reads neighbours in all views",
        TRAINING_NODE_TEACHERS + "view_means",
        "view_of[found[read]]",
        "size",
        OF_NODE_TEACHERS_TESTS + "test_a_node_of_any_degree_moves_one_teacher_only",
    ),
    edit(
        "teachers on nodes share the first part",
        TRAINING_NODE_TEACHERS + "node_teachers_votes",
        "ids[starts[first]:starts[last]]",
        "ids[:starts[last] - starts[first]]",
        OF_NODE_TEACHERS_TESTS + "test_each_teacher_is_what_it_is_alone_on_its_view",
    ),
    edit(
        "parts of nodes by their rows",
        TRAINING_NODE_TEACHERS + "node_teachers_votes",
        "np.argsort(parts[train], kind='stable')",
        "np.argsort(rows[train, 0].numpy(), kind='stable')",
        OF_NODE_TEACHERS_TESTS + "test_a_node_of_any_degree_moves_one_teacher_only",
    ),
    edit(
        "axes of private nodes",
        NODE_TEACHERS + "queries_axes",
        "features[torch.from_numpy(queries)]",
        "features",
        OF_NODE_TEACHERS + "test_neither_classes_of_public_nodes_nor_tested_nodes_are_read",
    ),
    edit(
        "classes of public nodes teach",
        NODE_TEACHERS + "votes_of",
        "np.asarray(graph.split) == TRAIN",
        "np.asarray(graph.split) <= VALIDATION",
        OF_NODE_TEACHERS + "test_neither_classes_of_public_nodes_nor_tested_nodes_are_read",
    ),
    edit(
        "answers on nodes with half their noise",
        TEACHERS + "PreparedTeachers.labels",
        "(mechanism.check_ratio * sigma, sigma)",
        "(mechanism.check_ratio * sigma, sigma / 2)",
        ran("dp-node-pate-means"),
    ),
    edit(
        "one singular system ends the run of all teachers",
        TRAINING_NODE_TEACHERS + "fitted",
        "torch.linalg.solve_ex(products, wanted)",
        "(torch.linalg.solve(products, wanted), torch.zeros(stack))",
        OF_NODE_TEACHERS_TESTS + "test_there_is_a_release_whatever_one_record_holds[means]",
    ),
    edit(
        "a CPU and a GPU share the noise of votes",
        TEACHERS + "PreparedTeachers.__init__",
        "[self.device.type] if self.device.type != 'cpu' else []",
        "[]",
        OF_NODE_TEACHERS + "test_each_kind_of_device_has_noise_of_its_own_and_a_cpus_keeps_its_name",
    ),
    edit(
        "both kinds of teachers on nodes share noise",
        NODE_TEACHERS + "plan_of",
        "told.teacher_reads",
        "'own'",
        OF_NODE_TEACHERS + "test_each_release_has_noise_of_its_own",
    ),
)
