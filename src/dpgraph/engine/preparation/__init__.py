"""Prepared steps: sampler, lists, clip norms, noise, divisor, generators of a run, from its mechanism alone."""
