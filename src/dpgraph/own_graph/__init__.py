"""A user's own graph: read, planned, trained privately, and written with a privacy card."""
