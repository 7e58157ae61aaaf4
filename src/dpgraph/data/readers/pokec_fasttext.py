"""The cats-or-dogs task of Pokec with means of fastText vectors as features (Igamberdiev & Habernal, App. D)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers.pokec import cats_and_dogs, documents
from dpgraph.data.text.fasttext import mean_vectors


def read(raw_dir: Path, per_class: int, label_column_in_text: bool, vectors: str) -> RawGraph:
    """Return the graph with mean fastText vectors of profiles; `vectors` is the model's file, see `mean_vectors`."""
    graph, texts = cats_and_dogs(raw_dir, per_class, label_column_in_text)
    features, meta = mean_vectors(documents(texts), raw_dir / vectors)
    return replace(graph, features=features, meta={**graph.meta, **meta})
