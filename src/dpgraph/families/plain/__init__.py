"""Baselines without privacy that read the raw graph, and those that read no record."""
