"""dpgraph: a reproducible benchmark of differentially private learning on graphs."""

__version__ = "0.1.0"

PUBLIC = {"fit": "dpgraph.own_graph.python:fit", "load": "dpgraph.own_graph.model:load",
          "compare": "dpgraph.own_graph.python:compare"}  # fmt: skip


def __getattr__(name: str) -> object:
    """`dpgraph.fit`, `load` and `compare`, imported when they are asked for: they need torch.

    By name, so that what a training job is made by (pipeline/fingerprints.py) does not depend on them.
    """
    if name not in PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from dpgraph.core.loading import load

    return load(PUBLIC[name])
