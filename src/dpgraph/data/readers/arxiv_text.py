"""ogbn-arxiv with features made from text: the classes that a language model guessed for each paper.

The guesses are those of TAPE (He et al., 2024): GPT-3.5 read title and abstract, never labels or edges. They are not
OGB's features.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from dpgraph.core.errors import invalid
from dpgraph.core.randomness import numpy_generator
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers import malformed, ogb, reading

GUESSES = Path("gpt_preds/ogbn-arxiv.csv")
RANKS = 5


def read(raw_dir: Path, split: str, columns: int, zeroed_percent: int = 0) -> RawGraph:
    """Read graph, labels and split by `ogb.read`, and features from `gpt_preds/ogbn-arxiv.csv`.

    `zeroed_percent` of the nodes, rounded down, get features of zero: a public random choice, keyed by the percentage
    and the number of nodes alone.
    """
    if not 0 <= zeroed_percent <= 100:
        raise invalid("zeroed_percent", zeroed_percent, "an integer in 0..100")
    graph = ogb.read(raw_dir, split=split, directed=True, with_features=False)
    features = ranked_guesses(raw_dir / GUESSES, columns)
    zeroed = numpy_generator("arxiv-text", "zeroed", zeroed_percent).permutation(len(features))
    features[zeroed[: len(features) * zeroed_percent // 100]] = 0
    meta: dict[str, object] = {
        "features_variant": "1 / rank of up to 5 classes that GPT-3.5 guessed from title and abstract, not OGB's",
        "zeroed_percent": zeroed_percent,
    }
    return replace(graph, features=features, meta={**graph.meta, **meta})


def ranked_guesses(path: Path, columns: int) -> np.ndarray:
    """Return (N, columns) float32: 1 / rank at the classes that a row names, best first; a row that names none is zero.

    A row of the result depends on the same row of the file only, so it costs no privacy.
    """
    with reading(path):
        table = pd.read_csv(path, header=None, names=list(range(RANKS)), skip_blank_lines=False, dtype="Int16")
        if not isinstance(table.index, pd.RangeIndex):
            raise ValueError(f"a row of more than {RANKS} ids")
        ids = table.to_numpy(dtype=np.int64, na_value=-1)
        row, rank = np.nonzero(table.notna().to_numpy())
    named = ids[row, rank]
    if len(named) and (named.min() < 0 or named.max() >= columns):
        raise malformed(path, ValueError(f"ids {named.min()}..{named.max()} instead of 0..{columns - 1}"))
    features = np.zeros((len(ids), columns), dtype=np.float32)
    features[row, named] = 1 / (rank + 1)
    if np.count_nonzero(features) != len(named):
        raise malformed(path, ValueError("an id twice in one row"))
    return features
