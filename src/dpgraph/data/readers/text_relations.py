"""Graphs of texts, one or two of them: entities with a text each, and the relations between them.

Of two graphs the first is trained on and the second tested on: an entity's part is the graph that it comes from. Three
layouts of a graph's folder: `csv` (docs/reference/datasets.md), the files of CANE (Tu et al., 2017) and those of TriDNR
(Pan et al., 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import HashingVectorizer

from dpgraph.core.errors import invalid
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers import reading
from dpgraph.data.records import TEST, TRAIN
from dpgraph.data.text.bert import column_means
from dpgraph.data.text.encoders import encoder_folder

WORDS = "words"  # in the place of an encoder's name
HASHED_WORDS = 512


@dataclass(frozen=True)
class TextGraph:
    """N entities; `source[i] -> target[i]` as positions, without self-relations, in either direction or both."""

    texts: list[str]
    source: np.ndarray  # (E,) int64
    target: np.ndarray  # (E,)
    counted: dict[str, int]  # what the files hold, and what of it was left out


def read(raw_dir: Path, folders: Sequence[str], layouts: Sequence[str], encoder: str) -> RawGraph:
    """Return the graphs in `raw_dir`/`folders`, one after the other; node i keeps its text, `split` names its graph.

    `encoder`: `words` (counts of words, hashed to 512 numbers, rows of norm 1) or a pre-trained one, whose last hidden
    states are averaged over a text (`encoder_folder`). Either makes a row from one text alone. Encodings are kept
    in encoded/ next to `raw_dir`, graph by graph, by its texts: pairs of the same graphs encode each once.
    """
    if not 1 <= len(folders) == len(layouts) <= 2:
        raise invalid("layouts", list(layouts), f"one for each folder of one or two, {', '.join(folders) or 'none'}")
    graphs = [read_graph(raw_dir / folder, layout) for folder, layout in zip(folders, layouts)]
    first = np.cumsum([0, *(len(graph.texts) for graph in graphs)])
    texts = [text for graph in graphs for text in graph.texts]
    split = np.repeat(np.array([TRAIN, TEST], dtype=np.uint8)[: len(graphs)], np.diff(first))
    rows, said = zip(*(embedded(graph.texts, encoder, raw_dir.parent / "encoded") for graph in graphs))
    return RawGraph(
        source=np.concatenate([graph.source + start for graph, start in zip(graphs, first)]),
        target=np.concatenate([graph.target + start for graph, start in zip(graphs, first)]),
        features=np.concatenate(rows),
        labels=np.full(len(texts), -1),
        split=split if len(graphs) == 2 else None,
        directed=False,
        texts={"text": texts},
        meta={
            "encoder": encoder,
            "encoded": dict(zip(folders, said)),
            "counted": {name: graph.counted for name, graph in zip(folders, graphs)},
        },
    )


def read_graph(folder: Path, layout: str) -> TextGraph:
    """Return one graph. Raise UserError for an unknown layout, and for a file that is missing or damaged."""
    if layout not in LAYOUTS:
        raise invalid("layout", layout, f"one of {', '.join(LAYOUTS)}")
    return LAYOUTS[layout](folder)


def embedded(texts: list[str], encoder: str, work: Path) -> tuple[np.ndarray, dict[str, object]]:
    """Return (N, d) float32, and what to say about them. Raises DataUnavailable where the encoder is not there."""
    if encoder != WORDS:
        return column_means({"text": texts}, encoder_folder(encoder), work, special_tokens=True)
    hashed = HashingVectorizer(n_features=HASHED_WORDS, alternate_sign=True, norm="l2", stop_words="english")
    return hashed.transform(texts).toarray().astype(np.float32), {"hashed_words": HASHED_WORDS}


def joined(ids: Sequence[str], texts: Sequence[str], head: np.ndarray, tail: np.ndarray) -> TextGraph:
    """Return the relations between known entities; `head` and `tail` are ids as texts, in any order.

    Left out and counted: relations with an unknown id, of an entity with itself, and repeated ones in either direction.
    An entity without text, or in no relation, is counted; one without text is left out later, where relations are
    stored. Raises ValueError for an id given twice.
    """
    index = pd.Index(ids)
    if not index.is_unique:
        raise ValueError(f"{int(index.duplicated().sum())} ids given twice: expected each once")
    source, target = index.get_indexer(pd.Index(head)), index.get_indexer(pd.Index(tail))
    known = (source >= 0) & (target >= 0)
    own = known & (source == target)
    ends = np.sort(np.stack([source, target], axis=1)[known & ~own].astype(np.int64), axis=1)
    once = np.unique(ends, axis=0) if len(ends) else ends.reshape(0, 2)
    cleaned = [" ".join(text.split()) for text in texts]
    counted = {
        "entities": len(ids),
        "listed_relations": len(source),
        "unknown_id": int((~known).sum()),
        "self_relation": int(own.sum()),
        "duplicate": len(ends) - len(once),
        "relations": len(once),
        "empty_texts": sum(not text for text in cleaned),
        "without_relation": len(ids) - len(np.unique(once)),
    }
    return TextGraph(cleaned, once[:, 0], once[:, 1], counted)


def _csv(folder: Path) -> TextGraph:
    """Read nodes.csv with columns id, text and relations.csv with columns head, tail."""
    tables = []
    for name, columns in (("nodes.csv", ["id", "text"]), ("relations.csv", ["head", "tail"])):
        with reading(folder / name) as path:
            table = pd.read_csv(path, dtype=str, keep_default_na=False)
            if list(table.columns) != columns:
                raise ValueError(f"columns {', '.join(map(str, table.columns))}: expected {', '.join(columns)}")
            tables.append(table)
    nodes, relations = tables
    with reading(folder / "nodes.csv"):
        return joined(
            nodes["id"].tolist(),
            nodes["text"].tolist(),
            relations["head"].to_numpy(dtype=object),
            relations["tail"].to_numpy(dtype=object),
        )


def _cane(folder: Path) -> TextGraph:
    """Read data.txt, whose line i is the text of entity i, and graph.txt with two numbers a line."""
    with reading(folder / "data.txt") as path:
        texts = _lines(path)
        if not texts[-1]:  # after the last line's end
            texts.pop()
    with reading(folder / "graph.txt") as path:
        pairs = pd.read_csv(path, sep=r"\s+", header=None, dtype=str)
        if pairs.shape[1] != 2:
            raise ValueError(f"{pairs.shape[1]} columns: expected 2")
        ids = [str(number) for number in range(len(texts))]
        return joined(ids, texts, pairs[0].to_numpy(dtype=object), pairs[1].to_numpy(dtype=object))


def _lines(path: Path) -> list[str]:
    """Return what stands between line feeds; other separators, such as U+2029, are part of a text."""
    return path.read_bytes().decode("utf-8", errors="replace").split("\n")


def _tridnr(folder: Path) -> TextGraph:
    """Read docs.txt, with an id and its title in a line, and adjedges.txt, with an id and those that it links to."""
    with reading(folder / "docs.txt") as path:
        parts = [line.split(maxsplit=1) for line in _lines(path) if line.strip()]
    with reading(folder / "adjedges.txt") as path:
        links = [line.split() for line in path.read_text(encoding="utf-8").split("\n") if line.strip()]
        head = np.repeat(np.array([one[0] for one in links], dtype=object), [len(one) - 1 for one in links])
        tail = np.array([other for one in links for other in one[1:]], dtype=object)
        return joined([one[0] for one in parts], [one[1] if len(one) > 1 else "" for one in parts], head, tail)


LAYOUTS: dict[str, Callable[[Path], TextGraph]] = {"csv": _csv, "cane": _cane, "tridnr": _tridnr}
