"""dpgraph: a reproducible benchmark of differentially private learning on graphs."""

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """`dpgraph.fit` and `dpgraph.load`, imported when they are asked for: they need torch."""
    if name == "fit":
        from dpgraph.fitting.fit import fit

        return fit
    if name == "load":
        from dpgraph.fitting.model import load

        return load
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
