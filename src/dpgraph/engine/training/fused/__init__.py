"""Gradients of the benchmark's networks for every root of a batch, from closed forms instead of autograd."""
