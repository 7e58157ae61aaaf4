"""Private steps put together by hand, for tests of the engine; methods get theirs from preparation/."""

from dataclasses import replace

from dpgraph.core.randomness import numpy_generator
from dpgraph.engine.sampling.batches import Draws
from dpgraph.engine.training.clipping import root_losses
from dpgraph.engine.training.noise import GaussianNoise
from dpgraph.engine.training.steps import ClippedTerm, PrivateStep


def term_of(trees, sampler, clip_norms, losses=root_losses):
    return ClippedTerm(trees, Draws(sampler, numpy_generator("given later")), clip_norms, losses)


def private_step(network, optimizer, features, labels, terms, noise_std, divisor, batches, noise):
    """All terms draw from `batches`, one after the other."""
    terms = [replace(term, draws=Draws(term.draws.sampler, batches)) for term in terms]
    return PrivateStep(network, optimizer, features, labels, terms, GaussianNoise(noise_std, noise), divisor)
