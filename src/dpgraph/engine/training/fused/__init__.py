"""Closed forms of per-root gradients, for networks of known layers."""
