"""Baselines that learn nothing from the graph."""
