"""dpgraph: a reproducible benchmark of differentially private learning on graphs."""

__version__ = "0.1.0"

PUBLIC = {"fit": "dpgraph.fitting.python:fit", "load": "dpgraph.fitting.model:load",
          "compare": "dpgraph.fitting.python:compare"}  # fmt: skip


def __getattr__(name: str) -> object:
    """`dpgraph.fit`, `load` and `compare`, imported when they are asked for: they need torch.

    By name, so that what a training job is made by (pipeline/fingerprints.py) does not depend on them.
    """
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dpgraph.loading import load

    return load(PUBLIC[name])
