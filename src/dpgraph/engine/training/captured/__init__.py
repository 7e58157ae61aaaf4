"""The private step as one program of fixed shapes, captured on a GPU."""
