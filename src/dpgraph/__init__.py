"""dpgraph: a reproducible benchmark of differentially private learning on graphs."""

__version__ = "0.1.0"
