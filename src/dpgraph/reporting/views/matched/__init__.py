"""A metric against accuracy."""
