"""Bounds on the privacy of relational learning, along orders and along steps."""
