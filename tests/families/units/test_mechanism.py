"""DP-SGD over units of images as mechanisms: the design's reference values, and other libraries' epsilons."""

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant

from dpgraph.core.errors import UserError
from dpgraph.families.trees.records import PoissonLots
from dpgraph.families.units.mechanism import ClassUnits, ClusterUnits, RecordUnits, SubclassUnits
from dpgraph.privacy.calibration import solve
from dpgraph.privacy.mechanisms.base import mechanism_from
from dpgraph.privacy.relation import Relation


def subclasses(kind=SubclassUnits, **changes):
    settings = {
        "num_roots": 500, "subclasses": 50, "delta": 1e-3, "steps": 200, "noise_multiplier": 1.6, "sampling_rate": 0.2
    }  # fmt: skip
    return kind(**{**settings, **changes})


def classes(**changes):
    settings = {"num_roots": 40, "delta": 1e-2, "steps": 200, "noise_multiplier": 0.8, "sampling_rate": 0.33}
    return ClassUnits(**{**settings, **changes})


@pytest.mark.parametrize(
    ("found", "rigorous", "published"),
    [
        (subclasses(), 15.92369, 18.58461),
        (subclasses(noise_multiplier=3.0), 6.945725, 9.911793),
        (subclasses(noise_multiplier=3.65), 5.407503, 8.146679),
        (classes(), 77.95848, 50.0751),
        (classes(noise_multiplier=1.2), 42.83572, 33.3834),
        (classes(noise_multiplier=1.6), 27.99398, None),
    ],
)
def test_reference_values(found, rigorous, published):
    assert found.rigorous().epsilon == pytest.approx(rigorous, rel=0.01)
    if published is not None:
        assert found.published().epsilon == pytest.approx(published, rel=1e-5)


def test_rigorous_epsilon_is_that_of_the_library():
    library = PLDAccountant(dp_accounting.NeighboringRelation.REPLACE_ONE)
    event = dp_accounting.PoissonSampledDpEvent(0.1, dp_accounting.GaussianDpEvent(2.0))
    library.compose(event, 50)
    found = classes(sampling_rate=0.1, noise_multiplier=2.0, steps=50)
    assert found.rigorous().epsilon == pytest.approx(library.get_epsilon(1e-2), rel=5e-3)


def test_all_classes_in_each_step_are_a_gaussian_mechanism():
    full, nearly = (classes(sampling_rate=rate, noise_multiplier=20.0).rigorous().epsilon for rate in (1.0, 0.999))
    assert nearly == pytest.approx(full, rel=0.02)
    assert nearly <= full * 1.001


def test_records_are_those_of_lots():
    settings = {"num_roots": 60_000, "delta": 1e-5, "steps": 100, "noise_multiplier": 1.0, "sampling_rate": 0.01}
    one, other = RecordUnits(**settings), PoissonLots(**settings)
    assert one.rigorous().epsilon == other.rigorous().epsilon
    assert (one.relation, one.kind) == (Relation.RECORD_REMOVE, "record-units")


@pytest.mark.parametrize(
    ("found", "relation"), [(classes(), Relation.CLASS), (subclasses(), Relation.SUBCLASS)], ids=["class", "subclass"]
)
def test_what_it_states(found, relation):
    assert found.rigorous().relation is found.published().relation is relation
    assert any(str(found.num_roots) in text for text in (found.rigorous().sampling,))
    assert found.published().unmet == (
        f"q = {found.sampling_rate} is not below {1 / (16 * found.noise_multiplier):.3g}",
    )
    assert not type(found)(**{**dict(found), "sampling_rate": 0.01}).published().unmet
    assert mechanism_from(type(found), found.model_dump(mode="json")) == found
    assert found.divisor == pytest.approx(found.sampling_rate * found.num_roots)


def test_a_partition_by_the_private_images_proves_nothing():
    found = subclasses(ClusterUnits)
    assert found.rigorous().epsilon is None
    assert "k-means" in str(found.rigorous().reason)
    assert found.published().epsilon == subclasses().published().epsilon
    assert found.relation is Relation.NONE


def test_a_delta_of_all_classes_proves_nothing():
    """The thesis' delta of 1e-2 for 153 persons."""
    guarantee = classes(num_roots=153).rigorous()
    assert guarantee.epsilon is None
    assert "1 / num_roots = 0.00654" in str(guarantee.reason)


def test_less_noise_more_steps_and_a_higher_rate_cost_more():
    base = subclasses().rigorous().epsilon
    for changed in ({"noise_multiplier": 1.5}, {"steps": 220}, {"sampling_rate": 0.25}):
        assert subclasses(**changed).rigorous().epsilon > base


@pytest.mark.parametrize("mode", ["rigorous", "published"])
def test_noise_for_a_target(mode):
    found = solve(subclasses(noise_multiplier=None), mode, epsilon=8.0)
    assert 7.5 < getattr(found, mode)().epsilon <= 8.0


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"sampling_rate": 0.0}, r"sampling_rate=0.0: expected a number in \(0, 1\]"),
        ({"subclasses": 3}, "subclasses=3: expected a divisor of num_roots = 500"),
        ({"subclasses": 0}, "subclasses=0: expected a divisor"),
    ],
)
def test_mistakes_are_one_line(changed, line):
    with pytest.raises(UserError, match=line):
        subclasses(**changed)
