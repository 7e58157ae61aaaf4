"""Readings of Zhang's chapters 3 and 4: what is printed must be what runs."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit

STUDENTS = "tests/families/pate/test_students.py::"
INVERSION = "tests/engine/training/test_inversion.py::"

BUGS = (
    edit(
        "the printed sum of losses is halved",
        "dpgraph.families.pate.students:unsupervised_loss",
        "1.0 if reading == 'thesis' else 0.5",
        "0.5",
        STUDENTS + "test_a_step_moves_by_the_printed_sum_only_where_it_is_asked_for[thesis]",
    ),
    edit(
        "a step of students does not know its reading",
        "dpgraph.families.pate.students:StudentStep._move",
        "unsupervised_loss(*looked, self.settings.unsupervised)",
        "unsupervised_loss(*looked)",
        STUDENTS + "test_a_step_moves_by_the_printed_sum_only_where_it_is_asked_for[thesis]",
    ),
    edit(
        "one discriminator's training accuracy stands for both",
        "dpgraph.families.pate.students:StudentStep._look",
        "found == self.labels[ids]",
        "found[:1] == self.labels[ids]",
        STUDENTS + "test_what_is_disagreed_on_is_kept_at_each_look",
    ),
    edit(
        "the printed sum over pixels is their mean",
        "dpgraph.engine.training.inversion:penalties",
        "total if attack.summed else total / images[0].numel()",
        "total / images[0].numel()",
        INVERSION + "test_bilateral_total_variation_is_equation_4_3",
    ),
    edit(
        "an attack does not know its reading",
        "dpgraph.families.units.inversion:inverted",
        "told.penalty_over == 'thesis'",
        "False",
        "tests/families/units/test_units.py::test_the_printed_penalty_is_the_number_of_pixels_times_the_mean[l1-enhanced]",
    ),
    edit(
        "a unit that is read whole is a sample of it",
        "dpgraph.families.units.prepared:PreparedUnits.__init__",
        "order.cell.training.images_per_unit",
        "order.cell.training.images_per_unit or 8",
        "tests/families/units/test_units.py::test_a_step_of_classes_is_the_clipped_mean_over_all_of_their_images",
    ),
    edit(
        "made pictures mix persons",
        "dpgraph.data.pictures:varied",
        "own[np.arange(len(own), pictures) % len(own)]",
        "raw.images[np.arange(len(own), pictures) % len(raw.images)]",
        "tests/data/test_faces.py::test_pictures_are_made_of_a_persons_own",
    ),
    edit(
        "made pictures are said to be records of their own",
        "dpgraph.data.pictures:varied",
        "(STATED,)",
        "()",
        "tests/data/test_faces.py::test_pictures_are_made_of_a_persons_own",
    ),
    edit(
        "galleries of persons are shipped",
        "dpgraph.reporting.shipping:galleries",
        "entry(plan.task(task_id).dataset).shows_no_person",
        "True",
        "tests/reporting/test_shipping.py::test_galleries_of_digits_are_kept_and_those_of_persons_are_not",
    ),
)
