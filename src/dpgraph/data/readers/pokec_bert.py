"""The cats-or-dogs task of Pokec with BERT's vectors as features (Igamberdiev & Habernal, App. C)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers.pokec import cats_and_dogs
from dpgraph.data.text.bert import column_means


def read(
    raw_dir: Path, per_class: int, label_column_in_text: bool, checkpoint: str, special_tokens: bool = False
) -> RawGraph:
    """Return the graph with BERT's features: means over tokens, then over columns, see `column_means`.

    `checkpoint` is a folder among the raw files. What has been encoded is in raw_dir/encoded, where a run resumes.
    """
    graph, texts = cats_and_dogs(raw_dir, per_class, label_column_in_text)
    features, meta = column_means(texts, raw_dir / checkpoint, raw_dir / "encoded", special_tokens)
    return replace(graph, features=features, meta={**graph.meta, **meta})
