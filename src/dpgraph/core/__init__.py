"""Errors, files, progress and randomness, which every package uses; no module here knows of graphs."""
