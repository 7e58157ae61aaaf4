"""Statistical audits of the noisy update (A1) and of composed steps (A2)."""

from __future__ import annotations

import numpy as np
import torch

from dpgraph.audits.result import AuditResult, statistical_result
from dpgraph.audits.worst_case import LIST_CAP, MAX_DEGREE, Side, WorstCase, charged_losses, worst_case
from dpgraph.privacy.accountants.composition import composed_delta, composed_epsilon
from dpgraph.privacy.auditing import measured_errors, profile_test
from dpgraph.privacy.mechanisms.trees import PoissonTrees
from dpgraph.randomness import numpy_generator, torch_generator
from dpgraph.sampling.batches import Draws, PoissonSampler
from dpgraph.training.clipping import ClipNorms, clipped_gradient_sum
from dpgraph.training.noise import GaussianNoise, add_gaussian_noise
from dpgraph.training.steps import ClippedTerm, PrivateStep

CLIP_NORM = 0.5
DELTA = 1e-3


def _mechanism(rate: float, steps: int, noise_multiplier: float) -> PoissonTrees:
    return PoissonTrees(
        num_roots=100,
        sampling_rate=rate,
        steps=steps,
        hops=1,
        max_degree=MAX_DEGREE,
        list_cap=LIST_CAP,
        delta=DELTA,
        noise_multiplier=noise_multiplier,
    )


def update(trials: int) -> AuditResult:
    """A1: one step at rate 1 of the update code on the worst case, claimed mu = (2 R - 1) / (2 R) = 0.938.

    The clipped sum is the same in every trial, so the engine computes it once a side; fresh noise is added in each.
    That this is what `PrivateStep` does is checked bit for bit on a few whole steps.
    """
    roots = 1 + MAX_DEGREE + LIST_CAP
    mechanism = _mechanism(1.0, 1, 2.0 * roots)
    case = worst_case()
    std = (mechanism.noise_std_over_clip or 0.0) * CLIP_NORM
    generator = torch_generator("audits", "update", "")
    sums = [_full_sums(case, side, CLIP_NORM) for side in (case.with_record, case.without_record)]
    for side, total in zip((case.with_record, case.without_record), sums):
        if not _is_private_step(case, side, CLIP_NORM, std, total):
            return AuditResult(
                audit="update", title=UPDATE, passed=False, trials=trials,
                claim="a step is clipped sum plus noise", finding="PrivateStep moves the parameters otherwise",
            )  # fmt: skip
    direction = torch.cat([(a - b).flatten() for a, b in zip(*sums)])
    direction /= direction.norm()
    scores = []
    for total in sums:
        noisy = [part.expand(trials, *part.shape).clone() for part in total]
        add_gaussian_noise(noisy, std, generator)
        scores.append((torch.cat([part.flatten(1) for part in noisy], dim=1) @ direction).numpy())
    errors = measured_errors(scores[0], scores[1])
    claim = f"mu = {(2 * roots - 1) / (2 * roots):.3f}, R = {roots}"
    test = profile_test(errors, mechanism.dominating_pair.delta)
    return statistical_result("update", UPDATE, claim, trials, errors, test, DELTA)


UPDATE = "one noisy update, rate 1"


def _full_sums(case: WorstCase, side: Side, clip_norms: ClipNorms) -> list[torch.Tensor]:
    everyone = np.arange(side.trees.num_roots)
    network = case.network()
    return clipped_gradient_sum(
        network, side.trees, everyone, case.features, case.charges, clip_norms, charged_losses
    ).sums


def _is_private_step(
    case: WorstCase, side: Side, clip_norms: ClipNorms, std: float, total: list[torch.Tensor], steps: int = 3
) -> bool:
    """Whether SGD steps of rate 1 from the same parameters move them by minus (total + noise of this std)."""
    noise = GaussianNoise(std, torch_generator("audits", "private step"))
    everyone = PoissonSampler(side.trees.num_roots, 1.0)
    again = torch_generator("audits", "private step")
    for _ in range(steps):
        network = case.network()
        before = [p.detach().clone() for p in network.parameters()]
        step = PrivateStep(
            network,
            torch.optim.SGD(network.parameters(), lr=1.0),
            case.features,
            case.charges,
            [ClippedTerm(side.trees, Draws(everyone, numpy_generator("audits")), clip_norms, charged_losses)],
            noise,
            1.0,
        )
        step()
        expected = [part.clone() for part in total]
        add_gaussian_noise(expected, std, again)
        moved = [old - new.detach() for old, new in zip(before, network.parameters())]
        if not all(torch.allclose(a, b, rtol=1e-9, atol=1e-12) for a, b in zip(moved, expected)):
            return False
    return True


TRAJECTORY = "64 composed steps, rate 1/4"


def trajectory(trials: int) -> AuditResult:
    """A2: 64 steps at rate 1/4 and noise 24 C, scored by the log-likelihood ratio of the double mixture.

    The affected roots' clipped gradients come from the engine, once; batches from the sampler, noise from the trainer's
    function, with fresh noise in every step of every trial. The attacker knows all unaffected terms.
    """
    steps = 64
    mechanism = _mechanism(0.25, steps, 24.0)
    case = worst_case()
    gradients = [case.gradients(side, CLIP_NORM) for side in (case.with_record, case.without_record)]
    direction = gradients[0][0] / np.linalg.norm(gradients[0][0])
    std = (mechanism.noise_std_over_clip or 0.0) * CLIP_NORM
    batches = numpy_generator("audits", "trajectory", "")
    noise = torch_generator("audits", "trajectory", "")
    pair = mechanism.dominating_pair
    scores = []
    for terms in gradients:
        drawn = np.zeros(trials * steps * len(terms))
        drawn[PoissonSampler(len(drawn), mechanism.sampling_rate).draw(batches)] = 1
        sums = torch.from_numpy(drawn.reshape(trials, steps, len(terms)) @ (terms @ direction))
        add_gaussian_noise([sums], std, noise)
        positions = sums.numpy() / CLIP_NORM
        scores.append(pair.log_ratio(positions.ravel()).reshape(trials, steps).sum(axis=1))
    errors = measured_errors(scores[0], scores[1])
    epsilon = composed_epsilon(pair, steps=steps, delta=DELTA)
    claim = f"epsilon {epsilon:.2f} at delta {DELTA:g}, R = {mechanism.affected_roots}"
    test = profile_test(errors, lambda epsilons: composed_delta(pair, steps=steps, epsilons=epsilons))
    return statistical_result("trajectory", TRAJECTORY, claim, trials, errors, test, DELTA)
