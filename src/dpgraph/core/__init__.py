"""Errors, files, progress, randomness: what every package uses and nothing of which is about graphs."""
