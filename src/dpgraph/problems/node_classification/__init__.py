"""Classes of the nodes of one graph."""
