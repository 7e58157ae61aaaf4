"""The base classes of mechanisms."""
