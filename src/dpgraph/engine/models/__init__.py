"""Plain torch modules: how a node is classified from its ego tree, and all nodes from the whole graph."""
