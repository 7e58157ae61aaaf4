"""Neighbours without privacy: label propagation, SGC, APPNP, Correct-and-Smooth, PMLP."""
