"""PATE on a graph: teachers on parts of the training nodes, queries are public nodes."""
