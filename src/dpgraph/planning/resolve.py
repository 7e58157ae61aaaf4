"""Make a raw cell one of its method's class, and find its mechanism; unknown settings are refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from pydantic import BaseModel, ValidationError

from dpgraph.config.cell import Cell
from dpgraph.config.config import first_line, keys_of
from dpgraph.core.errors import UserError, invalid, shown
from dpgraph.engine.methods.request import MechanismRequest
from dpgraph.engine.methods.spec import MethodSpec
from dpgraph.families.registry import spec, specs
from dpgraph.privacy.accountants.parameters import Unknown
from dpgraph.privacy.cache import Cache
from dpgraph.privacy.calibration import Calibration, calibrated
from dpgraph.privacy.guarantee import Mode
from dpgraph.privacy.mechanisms.base import Mechanism
from dpgraph.privacy.relation import PredictionInput
from dpgraph.problems.base import Counts
from dpgraph.problems.registry import problem_of


@dataclass(frozen=True)
class Target:
    """The epsilon that a run may cost.

    `target_epsilon` is in the epsilon of `mode`; `unknown` is the setting solved for it. None: no target, all is set.
    """

    target_epsilon: float | None = None
    mode: Mode = "rigorous"
    unknown: Unknown | None = None


def resolve(value: Any, where: str = "cell", methods: Mapping[str, MethodSpec] | None = None) -> Cell:
    """Return the cell, of its method's own class; `methods` are all that there are (None: they are looked up).

    Raises UserError that names the place, the value and the allowed ones.
    """
    methods = specs() if methods is None else methods
    if not isinstance(value, dict):
        raise UserError(f"{where}: expected a mapping of names to values")
    name = value.get("method")
    if "method" not in value:
        raise UserError(f"{where}: method: missing")
    if not isinstance(name, str) or name not in methods:
        raise UserError(f"{where}: method={shown(name)}: expected one of {', '.join(methods)}")
    known = methods[name]
    if value.get("privacy") is None and known.private:
        raise UserError(f"{where}: privacy=null: expected a budget for the method {name}")
    if value.get("privacy") is not None and not known.private:
        raise UserError(f"{where}: privacy={shown(value['privacy'])}: expected null for the method {name}")
    kind = known.cell
    try:
        cell = kind.model_validate(_without_nulls(kind, value))
    except ValidationError as error:
        raise UserError(f"{where}: {first_line(error)}{_known_keys(name, kind, error)}") from None
    _check_problem(cell, known.problems, where)
    return cell


def _check_problem(cell: Cell, served: tuple[str, ...], where: str) -> None:
    """Raise UserError for data of a problem that the method does not serve, or a task that the problem has not."""
    problem = problem_of(cell.task)
    if problem.name not in served:
        raise UserError(
            f"{where}: dataset={cell.task.dataset}: a data set of {problem.name}: expected one of "
            f"{' or '.join(served)} for the method {cell.method}"
        )
    try:
        problem.check(cell.task)
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def _known_keys(name: str, kind: type[Cell], error: ValidationError) -> str:
    """Return the keys that the method has, where an unknown one was given."""
    first = error.errors(include_url=False)[0]
    keys = keys_of(kind, first["loc"][:-1]) if first["type"] == "extra_forbidden" else []
    return f": {name} has {', '.join(keys)}" if keys else ""


@cache
def _keys_of_others() -> frozenset[tuple[str, ...]]:
    """Return the keys of all methods, as paths."""
    keys: set[tuple[str, ...]] = set()
    for one in specs().values():
        for part, field in one.cell.model_fields.items():
            keys.add((part,))
            inner = getattr(field.annotation, "model_fields", {})
            keys |= {(part, key) for key in inner}
    return frozenset(keys)


@cache
def _fields(kind: type[BaseModel]) -> dict[str, type[BaseModel] | None]:
    """Return the keys of a model, each with the model of its value, if it is one."""
    models = {name: field.annotation for name, field in kind.model_fields.items()}
    return {
        name: model if isinstance(model, type) and issubclass(model, BaseModel) else None
        for name, model in models.items()
    }


def _without_nulls(kind: type[BaseModel], value: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    """Drop nulls of settings that only other methods have: layers of settings unset a key so."""
    kept: dict[str, Any] = {}
    fields = _fields(kind)
    for name, given in value.items():
        if given is None and name not in fields and (*path, name) in _keys_of_others():
            continue
        inner = fields.get(name)
        if inner is not None and isinstance(given, Mapping):
            given = _without_nulls(inner, given, (*path, name))
        kept[name] = given
    return kept


def inference_of(cell: Cell) -> PredictionInput:
    """Return what the prediction of a node reads at test time."""
    return spec(cell.method).inference(cell)


def mechanism_for(
    cell: Cell, num_train: int, num_protected: int | None = None, *, known: MethodSpec | None = None
) -> Mechanism:
    """Return the cell's mechanism; what the cell leaves open (noise or steps) is None.

    `num_train` is N, the training nodes, `num_protected` all whose records are protected (None: no more
    than those); both are public. `known` is the method's specification, if it was looked up before. Raises UserError
    for a method or a variant that names no mechanism.
    """
    if num_train < 1:
        raise invalid("num_train", num_train, "an integer >= 1")
    size = getattr(cell.training, "batch_size", None)
    if size is not None and size > num_train:
        raise invalid("batch_size", size, f"at most the number of training nodes, {num_train}")
    known = known or spec(cell.method)
    if not isinstance(cell, known.cell):
        raise TypeError(f"cell of {cell.method}: expected {known.cell.__name__}, found {type(cell).__name__}")
    if not known.private:
        if cell.privacy is not None:
            raise invalid("privacy", "given", f"none for the method {cell.method}")
        if cell.training.steps == "max":
            raise invalid("steps", "max", "an integer without privacy")
        return known.without_noise(steps=cell.training.steps)
    variant = known.variant(cell)
    counts, counted = Counts(num_train, num_protected), variant.mechanism.counted
    built = variant.build(MechanismRequest(cell, cell.privacy, counts, known.inference(cell), counted))
    if type(built) is not variant.mechanism:
        expected = variant.mechanism.__name__
        raise TypeError(
            f"{cell.method}, {cell.privacy and cell.privacy.variant}: built {type(built).__name__}: expected {expected}"
        )
    return built


def calibrate(
    cell: Cell,
    num_train: int,
    cache: Cache | None = None,
    show: bool = False,
    num_protected: int | None = None,
    evaluated: Callable[[int], Iterable[int]] = lambda steps: (),
) -> Calibration:
    """Close what the cell leaves open, under the accountant of its variant; see `calibrated` for all but the cell."""
    known = spec(cell.method)
    mechanism = mechanism_for(cell, num_train, num_protected, known=known)
    options: dict[str, Any] = {"cache": cache, "show": show, "evaluated": evaluated}
    return calibrate_to(target_of(cell, known), mechanism, **options)


def calibrate_to(target: Target, mechanism: Mechanism, **options: Any) -> Calibration:
    """Close what the mechanism leaves open, so that it costs what the target says; `options` as of `calibrated`."""
    return calibrated(mechanism, target.mode, target.unknown, epsilon=target.target_epsilon, **options)


def target_of(cell: Cell, known: MethodSpec | None = None) -> Target:
    """Return the cell's target: its epsilon, the mode it is in, and the setting to solve."""
    if cell.privacy is None:
        return Target()
    unknown: Unknown | None = None
    if cell.privacy.epsilon is not None:
        unknown = "steps" if cell.training.steps == "max" else "noise"
    return Target(cell.privacy.epsilon, (known or spec(cell.method)).variant(cell).target, unknown)
