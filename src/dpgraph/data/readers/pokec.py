"""SNAP's Pokec (Takac & Zabovsky, 2012) as the cats-or-dogs task of Igamberdiev & Habernal, App. C and D.

The profiles are personal data: this module computes on them and never prints a row.
"""

from __future__ import annotations

import html
import re
import string
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import scipy.sparse as sp

from dpgraph.core.errors import UserError, invalid
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers import malformed, reading
from dpgraph.data.splits import stratified_split

# fmt: off
COLUMNS = (
    "user_id", "public", "completion_percentage", "gender", "region", "last_login", "registration", "AGE", "body",
    "I_am_working_in_field", "spoken_languages", "hobbies", "I_most_enjoy_good_food", "pets", "body_type",
    "my_eyesight", "eye_color", "hair_color", "hair_type", "completed_level_of_education", "favourite_color",
    "relation_to_smoking", "relation_to_alcohol", "sign_in_zodiac", "on_pokec_i_am_looking_for", "love_is_for_me",
    "relation_to_casual_sex", "my_partner_should_be", "marital_status", "children", "relation_to_children",
    "I_like_movies", "I_like_watching_movie", "I_like_music", "I_mostly_like_listening_to_music",
    "the_idea_of_good_evening", "I_like_specialties_from_kitchen", "fun", "I_am_going_to_concerts",
    "my_active_sports", "my_passive_sports", "profession", "I_like_books", "life_style", "music", "cars", "politics",
    "relationships", "art_culture", "hobbies_interests", "science_technologies", "computers_internet", "education",
    "sport", "movies", "travelling", "health", "companies_brands", "more",
)
# fmt: on
# The paper keeps 49 of 59 columns; in its released code these include the column that the label is made from.
TEXT_COLUMNS = COLUMNS[COLUMNS.index("I_am_working_in_field") : COLUMNS.index("more")]
LABEL_COLUMN = "pets"
LABELS = {  # exact strings of the column; a profile with several pets has another string and no label
    **dict.fromkeys(("macka", "mam macku", "kocur"), 0),
    **dict.fromkeys(("pes", "mam psa", "mam psika", "mam psov"), 1),
}
PERCENT = (80, 10, 10)
# what no epsilon covers
SELECTION = "the nodes: the most complete profiles of each class"
STRATA = "the split: as many training nodes of each class, by the labels of all profiles"
VOCABULARY = "the vocabulary: words kept by counts over all profiles"
TAG = re.compile(r"<[^>]*>")
PROFILES, RELATIONSHIPS = "soc-pokec-profiles.txt.gz", "soc-pokec-relationships.txt.gz"


def read(raw_dir: Path, per_class: int, min_count: int, max_count: int, label_column_in_text: bool) -> RawGraph:
    """Return `cats_and_dogs` with a binary bag of words as features.

    Words: split at blanks, lower case, without punctuation and markup, kept if they occur min_count..max_count times in
    all.
    """
    graph, texts = cats_and_dogs(raw_dir, per_class, label_column_in_text)
    features = bag_of_words(documents(texts), min_count, max_count)
    return replace(
        graph,
        features=features,
        meta={**graph.meta, "words": features.shape[1]},
        data_dependent=(*graph.data_dependent, VOCABULARY),
    )


def cats_and_dogs(raw_dir: Path, per_class: int, label_column_in_text: bool) -> tuple[RawGraph, dict[str, list[str]]]:
    """Return the `per_class` most complete profiles of each class and their friendships, without features; their texts.

    Nodes: first cats, then dogs, each by ascending number of empty fields, ties in the file's order.
    `label_column_in_text` keeps the pets column, from which the label is made, among the texts, as the released code
    of the paper does.
    """
    if per_class < 1:
        raise invalid("per_class", per_class, "an integer >= 1")
    columns = [name for name in TEXT_COLUMNS if label_column_in_text or name != LABEL_COLUMN]
    with reading(raw_dir / PROFILES, quote=False) as path:
        profiles = selected_profiles(path, per_class)
        labels = profiles[LABEL_COLUMN].map(LABELS).to_numpy(dtype=np.int64)
        texts = {name: plain_text(profiles[name]) for name in columns}
    try:
        users = profiles["user_id"].to_numpy(dtype=np.int64)
    except (ValueError, OverflowError):
        raise malformed(raw_dir / PROFILES, ValueError("a user id that is no integer")) from None
    with reading(raw_dir / RELATIONSHIPS, quote=False) as path:
        source, target = friendships(path, users)
    split = stratified_split(labels, PERCENT, "pokec", "public")
    meta: dict[str, object] = {
        "split_variant": "80-10-10, training stratified by class, redrawn: the authors' permutation is unseeded"
    }
    graph = RawGraph(source, target, None, labels, split, True, texts, meta, data_dependent=(SELECTION, STRATA))
    return graph, texts


def documents(texts: dict[str, list[str]]) -> list[str]:
    """Return the columns of each profile as one text."""
    return [" ".join(parts) for parts in zip(*texts.values())]


def selected_profiles(path: Path, per_class: int) -> pd.DataFrame:
    """Return (2 per_class, 59) strings, empty fields as "": streams the file and keeps labelled profiles only."""
    labelled = [batch for batch in _profile_batches(path) if len(batch)]
    profiles = pd.concat(labelled, ignore_index=True) if labelled else pd.DataFrame(columns=["empty", *COLUMNS])
    classes = profiles[LABEL_COLUMN].map(LABELS)
    parts = []
    for label, name in enumerate(("cat", "dog")):
        candidates = profiles[classes == label].sort_values("empty", kind="stable")
        if len(candidates) < per_class:
            raise invalid("per_class", per_class, f"at most {len(candidates)}, the {name} profiles of {path.name}")
        parts.append(candidates.head(per_class))
    return pd.concat(parts, ignore_index=True)


def friendships(path: Path, users: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the directed friendships among `users` (n,), as positions in `users`."""
    order = np.argsort(users, kind="stable")
    ranked = users[order]
    if len(ranked) and (np.diff(ranked) == 0).any():
        raise UserError(f"{path.parent}: a user id occurs twice among the selected profiles: expected each once")
    ends: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for batch in _batches(path, {"source": pa.int64(), "target": pa.int64()}):
        if any(batch.column(index).null_count for index in range(2)):
            raise malformed(path, ValueError("a friendship with one end"))
        pair = [batch.column(index).to_numpy(zero_copy_only=False) for index in range(2)]
        places = [np.searchsorted(ranked, ids).clip(max=len(ranked) - 1) for ids in pair]
        inside = (ranked[places[0]] == pair[0]) & (ranked[places[1]] == pair[1])
        for parts, place in zip(ends, places):
            parts.append(order[place[inside]])
    source, target = (np.concatenate(parts) if parts else np.empty(0, dtype=np.int64) for parts in ends)
    return source, target


def plain_text(column: pd.Series) -> list[str]:
    """Return texts without markup: the later columns of the file hold HTML."""
    return [html.unescape(_without_tags(text)) for text in column]


def _without_tags(text: str) -> str:
    """Return the text without tags. It looks no further than the last >, which keeps the time linear."""
    before, end, rest = text.rpartition(">")
    return TAG.sub(" ", before + end) + rest


def bag_of_words(documents: list[str], min_count: int, max_count: int) -> sp.csr_matrix:
    """Return (n, words) float32 of 0 and 1; words in alphabetical order."""
    from sklearn.feature_extraction.text import CountVectorizer

    remove = str.maketrans("", "", string.punctuation)
    vectorizer = CountVectorizer(
        preprocessor=lambda text: text.lower().translate(remove),
        tokenizer=str.split,
        token_pattern=None,
        dtype=np.int32,
    )
    try:
        counts = vectorizer.fit_transform(documents)
    except ValueError:
        raise UserError("Pokec: the selected profiles hold no words: expected texts in at least one column") from None
    totals = np.asarray(counts.sum(axis=0)).ravel()
    kept = np.flatnonzero((totals >= min_count) & (totals <= max_count))
    return (counts[:, kept] > 0).astype(np.float32).tocsr()


def _profile_batches(path: Path):  # type: ignore[no-untyped-def]
    for batch in _batches(path, dict.fromkeys((*COLUMNS, "end"), pa.string())):
        labelled = pc.is_in(batch.column(LABEL_COLUMN), value_set=pa.array(list(LABELS)))
        frame = batch.filter(labelled).to_pandas().drop(columns="end")
        frame.insert(0, "empty", frame.isna().sum(axis=1))
        yield frame.fillna("")


def _batches(path: Path, columns: dict[str, pa.DataType]):  # type: ignore[no-untyped-def]
    """Yield record batches of a tab-separated file without header and quoting, "null" for empty."""
    try:
        with pa.csv.open_csv(
            path,
            read_options=pa.csv.ReadOptions(column_names=list(columns), block_size=1 << 24),
            parse_options=pa.csv.ParseOptions(delimiter="\t", quote_char=False),
            convert_options=pa.csv.ConvertOptions(
                column_types=columns, null_values=["null", ""], strings_can_be_null=True
            ),
        ) as reader:
            yield from reader
    except (pa.ArrowInvalid, OSError, EOFError) as error:
        counts = re.search(r"Expected \d+ columns, got \d+", str(error))  # the rest of Arrow's message quotes the row
        raise malformed(path, ValueError(counts[0] if counts else type(error).__name__)) from None
