"""Steps over units of images."""

from __future__ import annotations

from tests.mutants.bugs.shorthand import edit, ran

UNITS = "dpgraph.families.units.prepared:"


BUGS = (
    edit(
        "noise / 1.3 over units",
        UNITS + "PreparedUnits.__init__",
        "order.noise_std",
        "order.noise_std / 1.3",
        ran("dp-units-class"),
    ),
    edit(
        "batches of units twice as large",
        UNITS + "PreparedUnits.__init__",
        "mechanism.sampling_rate",
        "min(1.0, 2 * mechanism.sampling_rate)",
        ran("dp-units-subclass"),
    ),
    edit(
        "k-means as a public partition",
        UNITS + "units_of",
        "isinstance(mechanism, ClusterUnits)",
        "isinstance(mechanism, SubclassUnits)",
        ran("dp-units-subclass"),
    ),
    edit(
        "units are not clipped",
        "dpgraph.families.units.steps:clipped_sum",
        "(SLACK * clip_norm / norms).clamp_max(1)",
        "torch.ones_like(norms)",
        "tests/families/units/test_steps.py::test_rows_are_clipped_one_by_one",
    ),
    edit(
        "rounded operands of clipped sums are taken for exact ones",
        "dpgraph.families.units.steps:clipped_sum",
        "OPERANDS * operand_eps(parts[0][0])",
        "0.0 * operand_eps(parts[0][0])",
        "tests/families/units/test_steps.py::test_rounded_operands_are_allowed_for",
    ),
    edit(
        "a factor of clipping that is a subnormal number",
        "dpgraph.families.units.steps:clipped_sum",
        "norms <= LONGEST * clip_norm",
        "torch.isfinite(norms)",
        "tests/families/units/test_steps.py::test_numbers_of_any_size_are_clipped",
    ),
    edit(
        "the factors of a linear layer are not in the norm of their unit",
        "dpgraph.families.units.steps:clipped_sum",
        "torch.stack(products).norm(dim=0)",
        "torch.stack([own for own, part in zip(products, parts, strict=True) if len(part) == 1]).norm(dim=0)",
        "tests/families/units/test_steps.py::test_factors_are_clipped_with_the_other_parts_of_their_unit",
    ),
    edit(
        "factors longer than any that is scaled are clipped",
        "dpgraph.families.units.steps:clipped_sum",
        "(norms <= LONGEST * clip_norm) & (longest <= LONGEST)",
        "norms <= LONGEST * clip_norm",
        "tests/families/units/test_steps.py::test_factors_of_any_size_are_clipped",
    ),
    edit(
        "one unit without a finite loss spoils its chunk",
        "dpgraph.families.units.steps:UnitGradients._parts",
        "losses * weights.flatten()",
        "losses * weights.flatten() * (1 + 0 * losses.detach().sum())",
        "tests/families/units/test_steps.py::test_a_unit_that_is_not_finite_adds_nothing_and_leaves_the_others",
    ),
    edit(
        "a convolution's dilation is taken for its stride",
        "dpgraph.families.units.steps:convolved",
        "layer.stride",
        "layer.dilation",
        "tests/families/units/test_steps.py::test_gradients_of_other_convolutions_and_orders",
    ),
    edit(
        "a drawn split of classes",
        "dpgraph.families.units.spec:DpUnitsCell._split_is_public",
        "split not in ('public', 'train-rest')",
        "split.startswith('per-class-')",
        "tests/families/units/test_units.py::test_a_drawn_split_is_refused_where_classes_are_protected[random-60-15-25-class]",
    ),
    edit(
        "images of a unit are summed",
        "dpgraph.families.units.sampling:Units.chosen",
        "held / sizes[:, None]",
        "held",
        "tests/families/units/test_sampling.py::test_all_images_of_a_unit_with_equal_weights",
    ),
    edit(
        "a replaced class is charged as one that leaves",
        "dpgraph.families.units.mechanism:ClassUnits.rigorous",
        "2 * math.sqrt(steps)",
        "math.sqrt(steps)",
        "tests/families/units/test_mechanism.py::test_all_classes_in_each_step_are_a_gaussian_mechanism",
    ),
    edit(
        "reconstructions hold the mean of the images",
        "dpgraph.families.units.inversion:inverted",
        "found.cpu().numpy()",
        "found.cpu().numpy() + images.features.mean(axis=0)",
        "tests/families/units/test_units.py::test_reconstructions_read_the_parameters_alone[strong]",
    ),
)
