"""Residual clipping on ego trees: what neighbours add is clipped and charged separately (ours)."""
