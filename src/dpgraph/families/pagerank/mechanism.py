"""DP-APPR (Zhang, chapter 5): rows of PageRank released once, then DP-SGD that reads them; as published and as proved.

The rows are those of M public roots, the training those roots' losses. Proofs: docs/privacy/pagerank.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpgraph.core.errors import invalid
from dpgraph.families.pagerank import accountant
from dpgraph.privacy.accountants.steps import MOST_MOMENTS, moments
from dpgraph.privacy.guarantee import Guarantee, Mode, PrivacyStatement
from dpgraph.privacy.mechanisms.base import RELEASED_MLP, Count, NoisySteps, Rate, Shape, published_mlp
from dpgraph.privacy.mechanisms.batches import FixedBatches, PoissonBatches
from dpgraph.privacy.procedure import Batches, Clipped, ClippedSum, Lists, Release
from dpgraph.privacy.public_numbers import Counted
from dpgraph.privacy.relation import Relation
from dpgraph.privacy.statements import Statement

if TYPE_CHECKING:
    from dpgraph.privacy.accountants.double_mixture import MixturePair
    from dpgraph.privacy.accountants.renyi import Orders

ReleaseKind = Literal["exact", "identity", "random", "gaussian", "exponential", "exponential-values"]
NO_RELEASE = ("exact", "identity", "random")
NOT_AMPLIFIED = "which nodes are kept (q') is public and hides no node"


class PagerankSteps(NoisySteps):
    """Rows for M of the roots, then T steps; `noise_multiplier` belongs to the steps, `release_*` to the rows."""

    relation: ClassVar[Relation] = accountant.TRAINING.relation
    counted: ClassVar[Counted] = Counted.TRAINING
    prepared: ClassVar[str] = "dpgraph.families.pagerank.prepared:PreparedRows"
    release_streams: ClassVar[Mapping[str, tuple[str, int | None]]] = {
        "rows, gaussian": ("release", 1),
        "rows, exponential": ("release", 1),
        "rows, exponential-values": ("release", 1),
    }
    more_streams: ClassVar[tuple[str, ...]] = ("kept nodes",)

    release: ReleaseKind
    num_rows: Count | None = None
    """M, where fewer roots have a row; the others read their own record; None: all roots"""
    top_k: Count = Field(description="K, entries of a row")
    release_noise: float | None = None
    """gaussian: noise std / C1; exponential: epsilon of Gumbel noise of scale C2 / epsilon; else None"""
    values_epsilon: float | None = None
    """exponential-values: epsilon of Laplace noise of scale K C2 / epsilon; else None"""

    def _check(self) -> None:
        super()._check()
        if self.num_rows is not None and self.num_rows >= self.num_roots:
            raise invalid("num_rows", self.num_rows, f"an integer < num_roots = {self.num_roots}, or None")
        for name, needed in (
            ("release_noise", self.release not in NO_RELEASE),
            ("values_epsilon", self.release == "exponential-values"),
        ):
            value = getattr(self, name)
            if (value is not None) != needed or (value is not None and not 0 < value < math.inf):
                raise invalid(name, value, f"{'a finite number > 0' if needed else None} for release={self.release}")

    def at_step(self, step: int) -> PrivacyStatement:
        """Return the statement after `step` steps; the first one is charged for the rows, which are released before."""
        return super().at_step(step if self.release in NO_RELEASE else max(step, 1))

    @property
    def rows(self) -> int:
        """Return M, the number of roots with a row."""
        return self.num_roots if self.num_rows is None else self.num_rows

    @property
    def released(self) -> bool:
        """Tell whether a private mechanism releases the rows."""
        return self.release not in NO_RELEASE

    @property
    def release_mu(self) -> float:
        """mu of the Gaussian release: the matrix moves by sqrt(2 M) C1."""
        return math.sqrt(2 * self.rows) / (self.release_noise or math.inf)

    @property
    def releases(self) -> tuple[Release, ...]:
        """The rows as a release: Gaussian noise in units of C1 on the matrix, or Gumbel noise in those of C2."""
        if not self.released:
            return ()
        gaussian = self.release == "gaussian"
        return (
            Release(
                kind=f"rows, {self.release}",
                noise=self.release_noise or 0.0,
                values_noise=self.values_epsilon,
                sensitivity=math.sqrt(2 * self.rows) if gaussian else 1.0,
                count=self.rows,
            ),
        )

    @property
    def streams(self) -> dict[str, int | None]:
        """Rows are released in pieces, as memory allows: their draws are not counted."""
        return {**super().streams, **({"release": None} if self.released else {})}

    def release_rdp(self, orders: Orders) -> np.ndarray:
        """Return the Renyi divergences of the release of all rows; 0 without a release."""
        if not self.released:
            return np.zeros(len(orders))
        from dpgraph.families.pagerank.epsilon import exponential_zcdp

        if self.release == "gaussian":
            rho = self.release_mu**2 / 2
        else:
            rho = exponential_zcdp(
                rows=self.rows, top_k=self.top_k, eps_gumbel=self.release_noise or 0.0, eps_laplace=self.values_epsilon
            )
        return rho * np.asarray(orders)

    def fixed_epsilon(self, mode: Mode) -> float:
        """Return the epsilon of the release alone.

        In mode rigorous it is taken at all of delta, which bounds every composition from below.
        """
        if not self.released:
            return 0.0
        if mode == "published":
            return self.published_release()
        from dpgraph.privacy.accountants.gaussian import gaussian_epsilon
        from dpgraph.privacy.accountants.renyi import WIDE_ORDERS, epsilon_from_rdp

        if self.release == "gaussian":
            return gaussian_epsilon(mu=self.release_mu, delta=self.delta)
        return epsilon_from_rdp(WIDE_ORDERS, self.release_rdp(WIDE_ORDERS), self.delta)

    def published_release(self) -> float:
        """Return epsilon_pr of the thesis; 0, since it has none for this release."""
        return 0.0

    def step_rdp(self, orders: Orders) -> np.ndarray:
        """Return the Renyi divergences of one step, given the rows."""
        raise NotImplementedError

    def rdp(self, orders: Orders) -> np.ndarray:
        """Return the Renyi divergences of the whole run."""
        return self.release_rdp(orders) + self.closed()[0] * self.step_rdp(orders)

    def _renyi_epsilon(self) -> float:
        from dpgraph.privacy.accountants.renyi import REAL_ORDERS, epsilon_from_rdp

        return epsilon_from_rdp(REAL_ORDERS, self.rdp(REAL_ORDERS), self.delta)

    @property
    def _rows(self) -> str:
        return {
            "exact": "exact rows, which are not released",
            "identity": "own records only, no rows",
            "random": "public random rows",
            "gaussian": accountant.GAUSSIAN_ROWS,
            "exponential": accountant.BOUNDED_RANGE,
            "exponential-values": f"{accountant.BOUNDED_RANGE}, M Laplace vectors",
        }[self.release]

    def _stated(self, statement: Statement, **numbers: object) -> Statement:
        """Return the statement, completed with the release of the rows if there is one."""
        rows = tuple(self._rows if text == accountant.GAUSSIAN_ROWS else text for text in statement.assumptions)
        known = {"M": self.num_roots, "M K": f"M K = {self.rows * self.top_k}", "mu": f"mu = {self.release_mu:.4g}"}
        return replace(statement, assumptions=rows).filled({**known, **numbers})


class PoissonPagerank(PoissonBatches, PagerankSteps):
    """DP-APPR repaired: columns of the released matrix keep at most K_col entries, roots are drawn by Poisson sampling.

    Given the released rows, a node is in the loss of at most K_col roots and of itself, so that each step is a
    double mixture with R = K_col + 1 (Theorem 24 of docs/privacy/pagerank.md); the release composes with the steps. The
    cap reads released values only. A node that is no root changes K_col terms and has none of its own, which the pair
    dominates.
    """

    kind: Literal["poisson-pagerank"] = "poisson-pagerank"
    sampling_rate: Rate = Field(description="q, public; of the M roots")
    column_cap: Count = Field(description="K_col, public")

    def _check(self) -> None:
        super()._check()
        if self.release == "exact":
            raise invalid("release", "exact", "another one: rows that are not released have no rigorous variant")

    @property
    def affected_roots(self) -> int:
        """R: those whose rows name the node, and itself."""
        return 1 if self.release == "identity" else min(self.column_cap, self.rows) + 1

    @property
    def dominating_pair(self) -> MixturePair:
        """Return the pair of one step, in units of the clip norm."""
        return self._pair(self.affected_roots, self.closed()[1])

    def step_rdp(self, orders: Orders) -> np.ndarray:
        from dpgraph.privacy.accountants.composition import pair_rdp

        return pair_rdp(self.dominating_pair, orders)

    def rigorous(self) -> Guarantee:
        """Return the guarantee of Theorem 24: Theorem 4 at R = K_col + 1, composed with the release of the rows."""
        return self._proved(
            self._stated(self._statement, q=f"{self.sampling_rate:.6g}", R=self.affected_roots), self._epsilon()
        )

    @property
    def _statement(self) -> Statement:
        if not self.release.startswith("exponential"):
            return accountant.TRAINING
        draws = accountant.appr_exponential.statement.method
        method = f"{draws} and double mixture, composed as Renyi divergences or at delta / 2 each"
        return replace(accountant.TRAINING, method=method)

    def _epsilon(self) -> float:
        """Compose the release and the steps.

        Gaussian rows compose as privacy loss distributions. Draws of the exponential mechanism have no dominating pair:
        the better of Renyi composition and of two epsilons at delta / 2 counts, since both hold.
        """
        from dpgraph.privacy.accountants.composition import composed_epsilon, gaussian_pair
        from dpgraph.privacy.accountants.renyi import WIDE_ORDERS, epsilon_from_rdp

        steps, _ = self.closed()
        if self.release == "gaussian":
            return composed_epsilon(
                self.dominating_pair, steps=steps, delta=self.delta, once=gaussian_pair(self.release_mu)
            )
        if not self.released:
            return composed_epsilon(self.dominating_pair, steps=steps, delta=self.delta)
        rows = epsilon_from_rdp(WIDE_ORDERS, self.release_rdp(WIDE_ORDERS), self.delta / 2)
        return min(
            self._renyi_epsilon(), rows + composed_epsilon(self.dominating_pair, steps=steps, delta=self.delta / 2)
        )

    def published(self) -> Guarantee:
        """Return the guarantee of the papers' MLP for own records only; no paper published the others."""
        if self.release == "identity":
            steps, noise = self.closed()
            return published_mlp(
                rate=self.sampling_rate, noise=noise, steps=steps, delta=self.delta, unmet=self._unmet(RELEASED_MLP)
            )
        return self._none("published", "no paper has published this mechanism", "Poisson")

    @property
    def shape(self) -> Shape:
        lists = Lists.NONE if self.release == "identity" else Lists.CAPPED_ROWS
        return Shape(lists=lists, batches=Batches.POISSON, clipped=Clipped.ROOT)

    def terms(self, clip_norms: tuple[float, ...]) -> tuple[ClippedSum, ...]:
        cap = None if self.release == "identity" else self.column_cap
        return (self._term(clip_norms, max_degree=cap, rate=self.sampling_rate),)


class FixedBatchPagerank(FixedBatches, PagerankSteps):
    """The published DP-APPR: batches of B of the M roots, columns of L1 norm tau, Theorems 6 to 8.

    With release=exact it is the thesis' baseline DPSGD, whose noise std is sigma B C (Eq. 5.5); sigma is
    `noise_multiplier`.

    What is proved: after softmax and clipping a root with a node in its row, however small the weight, moves by up to 2
    C. A column's norm gives no bound: all M roots with a row may change, and the node's own. So Theorem 1 of Daigavane
    et al. holds at R = M, or at M + 1 where more roots have losses (own records only: R = 1, a move of C). Of rows
    that are not released a column's scale is private, too, and every root may change (R = N). The steps are composed
    with the release.
    """

    refuses_delta: ClassVar[bool] = False

    kind: Literal["fixed-batch-pagerank"] = "fixed-batch-pagerank"
    batch_size: int = Field(description="B, of the M roots, drawn without replacement")
    sampled_nodes: int = Field(description="N, training nodes that are kept; q = B / N as printed")
    node_share: Rate = Field(description="q', by which the thesis multiplies epsilon in the end")
    column_norm: float = Field(default=1.0, description="tau")

    def _check(self) -> None:
        super()._check()
        if self.sampled_nodes < self.num_roots:
            raise invalid("sampled_nodes", self.sampled_nodes, f"an integer >= num_roots = {self.num_roots}")
        if not 0 < self.column_norm < math.inf:
            raise invalid("column_norm", self.column_norm, "a finite number > 0")

    @property
    def affected_roots(self) -> int:
        """R: those with a row, any of which may name the node, and the node itself; all where rows are private.

        The scale of a column, which every root's own weight has, is then no function of a release.
        """
        most = self.num_roots if self.release == "exact" else self.rows + 1
        return 1 if self.release == "identity" else min(most, self.num_roots)

    @property
    def noise_std_over_clip(self) -> float | None:
        if self.noise_multiplier is None:
            return None
        return self.noise_multiplier * (self.batch_size if self.release == "exact" else 1)

    def step_rdp(self, orders: Orders) -> np.ndarray:
        from dpgraph.privacy.accountants.renyi import theorem1_rdp

        self.closed()
        affected, moved = (1, 1) if self.release == "identity" else (self.affected_roots, 2)
        multiplier = (self.noise_std_over_clip or 0.0) / (moved * affected)
        return theorem1_rdp(**self._theorem1(affected, multiplier), orders=orders)

    def rigorous(self) -> Guarantee:
        """Return the guarantee by Theorem 1 of Daigavane et al. at R = M or M + 1, composed with the release."""
        reach = "one root reads" if self.release == "identity" else f"{self.affected_roots} roots may read"
        stated = replace(
            accountant.TRAINING,
            method="Theorem 1 of Daigavane et al. at the roots that may change, composed with the release",
            sampling="batches of {B} of {M} roots without replacement",
            assumptions=tuple(
                f"{reach} a node's record" if text == accountant.READERS else text
                for text in accountant.TRAINING.assumptions
            ),
        )
        return self._proved(self._stated(stated, B=self.batch_size), self._renyi_epsilon(), NOT_AMPLIFIED)

    def published(self) -> Guarantee:
        """Return epsilon_pr + epsilon_sgd, each at delta / 2 as on the thesis' axes; a remark multiplies it by q'."""
        steps, noise = self.closed()
        tau = self.column_norm if self.released else 1.0
        delta = self.delta / 2 if self.released else self.delta
        training = moments(
            q=self.batch_size / self.sampled_nodes, noise_multiplier=noise / tau, steps=steps, delta=delta
        )
        epsilon = self.published_release() + training
        remarks = () if self.node_share == 1 else (
            f"times q' = {self.node_share:g} the thesis claims {self.node_share * epsilon:.4g}; sampling once would "
            f"give {_sampled_once(self.node_share, epsilon):.4g}",
        )  # fmt: skip
        paid = "epsilon_pr + epsilon_sgd, each at delta / 2" if self.released else "rows cost nothing"
        numbers = {"lambda_max": MOST_MOMENTS, "B / N": f"B / N = {self.batch_size}/{self.sampled_nodes}"}
        stated = accountant.THEOREMS_6_TO_8.filled(numbers).also(paid, *remarks)
        return stated.guarantee("published", epsilon=epsilon, delta=self.delta, unmet=self._unmet(THEOREM_8))

    def published_release(self) -> float:
        """Return epsilon_pr of Theorem 6 or 7 at delta / 2 = 2 M delta_row; 0 where the thesis has none."""
        from dpgraph.families.pagerank.epsilon import theorem6_epsilon, theorem7_epsilon

        if not self.released:
            return 0.0
        rows, noise, row_delta = self.rows, self.release_noise or 0.0, self.delta / (4 * self.rows)
        if self.release == "gaussian":
            return theorem6_epsilon(rows=rows, noise=noise, row_delta=row_delta)
        return theorem7_epsilon(
            rows=rows, top_k=self.top_k, eps_gumbel=noise, row_delta=row_delta, eps_laplace=self.values_epsilon
        )

    @property
    def shape(self) -> Shape:
        lists = Lists.NONE if self.release == "identity" else Lists.SCALED_ROWS
        return Shape(lists=lists, batches=Batches.FIXED_SIZE, clipped=Clipped.ROOT)

    def terms(self, clip_norms: tuple[float, ...]) -> tuple[ClippedSum, ...]:
        norm = None if self.release == "identity" else self.column_norm
        return (self._term(clip_norms, column_norm=norm, batch_size=self.batch_size),)


THEOREM_8 = Shape(lists=Lists.SCALED_ROWS, batches=Batches.POISSON, clipped=Clipped.ROOT)


def _sampled_once(share: float, epsilon: float) -> float:
    """Return ln(1 + q' (e^epsilon - 1)), without overflow."""
    return float(np.logaddexp(math.log1p(-share), math.log(share) + epsilon)) if share < 1 else epsilon
