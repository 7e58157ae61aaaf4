"""A metric along the steps of training."""
