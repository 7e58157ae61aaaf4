"""Mechanisms: one frozen object per way to touch the data, the only source of what is run and accounted for."""
