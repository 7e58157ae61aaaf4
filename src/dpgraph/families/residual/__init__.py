"""Residual clipping on ego trees: what neighbours add is clipped and charged apart (ours)."""
