"""Kipf and Welling's GCN on parts of a graph, with and without privacy (Igamberdiev and Habernal)."""
