"""Batches of roots, their bounded edge lists, and the ego trees that follow them."""
