"""The premises of a theorem and the relation of its epsilon, in words, for its named accountant and its mechanism.

The accountant that declares a statement (accountants/declaration.py) shows it in symbols, a mechanism (mechanisms/)
with the numbers of its run: "{R}" stands for the symbol R, in whose place `filled` puts a number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from dpgraph.privacy.guarantee import Guarantee, Mode
from dpgraph.privacy.relation import Relation, Scope


class _Symbols(dict[str, object]):
    """A symbol without a number stands for itself."""

    def __missing__(self, symbol: str) -> str:
        return symbol


@dataclass(frozen=True, kw_only=True)
class Statement:
    """Relation, scope, sampling and assumptions of an epsilon, and its exceptions."""

    method: str  # of accounting
    relation: Relation
    sampling: str
    assumptions: tuple[str, ...] = ()
    not_covered: tuple[str, ...] = ()
    scope: Scope = Scope.PARAMETERS

    def filled(self, numbers: Mapping[str, object] | None = None) -> Statement:
        """Return it with numbers for symbols; all other symbols by their names.

        >>> known = Statement(method="", relation=Relation.EDGE, sampling="Poisson, rate {q}")
        >>> known.filled({"q": 0.1}).sampling, known.filled().sampling
        ('Poisson, rate 0.1', 'Poisson, rate q')
        """
        symbols = _Symbols(numbers or {})
        return replace(
            self,
            method=self.method.format_map(symbols),
            sampling=self.sampling.format_map(symbols),
            assumptions=tuple(text.format_map(symbols) for text in self.assumptions),
        )

    def also(self, *assumptions: str) -> Statement:
        return replace(self, assumptions=(*self.assumptions, *assumptions))

    def guarantee(
        self,
        mode: Mode,
        *,
        epsilon: float,
        delta: float,
        accountant: str | None = None,
        remarks: tuple[str, ...] = (),
        unmet: tuple[str, ...] = (),
    ) -> Guarantee:
        """Return the guarantee of a filled statement; an infinite epsilon has neither relation nor scope."""
        finite = math.isfinite(epsilon)
        return Guarantee(
            mode=mode,
            accountant=accountant or self.method,
            relation=self.relation if finite else Relation.NONE,
            scope=self.scope if finite else Scope.NONE,
            sampling=self.sampling,
            assumptions=(*self.assumptions, *self.not_covered, *remarks),
            unmet=unmet,
            epsilon=epsilon,
            delta=delta,
        )


def public(what: str) -> str:
    """Return the assumption that `what` is public."""
    return f"{what} are public: neither made from the private data nor tuned on them"


PUBLIC = public("the split, the number of roots, the clip norm and all hyper-parameters")
