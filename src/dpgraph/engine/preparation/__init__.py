"""The private part of a run: prepared steps, their random streams, and the comparison with the mechanism."""
