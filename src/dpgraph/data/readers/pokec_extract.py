"""A published extract of Pokec with translated profile fields: age group from region, body, hobby and friends.

Personal data: this module computes on it and never prints a row, not even in an error.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.feature_extraction import FeatureHasher

from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers import malformed, reading
from dpgraph.data.splits import random_split

PROFILES, FRIENDSHIPS = "anonymized_data_20k.csv", "example_edge_20k.csv"
PROFILE_COLUMNS = ("gender", "region_large", "region_small", "age", "weight", "height", "hobbies", "user_id")
AGE_STARTS = (1, 18, 21, 25, 30, 100)  # classes are the five groups between them; 0 is missing, 100 and above a joke
# First letters of the eight regions of Slovakia in all their spellings, and what the site offers besides.
REGIONS = ("bansk", "brati", "kosic", "nitr", "presov", "tren", "trna", "zilin", "czech", "abroad")
TENS_OF_KG, TENS_OF_CM = range(3, 16), range(12, 22)
DISTRICT_COLUMNS, HOBBY_COLUMNS = 256, 128
PERCENT = (80, 10, 10)


def read(raw_dir: Path, name: str) -> RawGraph:
    """Return the users in the file's order; class = age group, -1 where the age is missing or above 99.

    Features, all 0 or 1: gender, large region, ten kilograms, ten centimetres (public lists; a value on no list is all
    zeros), district and hobby (a public hash of the lower-case text: their spellings are free, and a vocabulary would
    come from the data). The age is in none of them. Split 80/10/10 of the labelled users, keyed by `name`.
    """
    path = raw_dir / PROFILES
    profiles = _table(path, PROFILE_COLUMNS)
    try:
        age, users, gender = (profiles[column].astype(np.int64) for column in ("age", "user_id", "gender"))
    except (ValueError, TypeError, OverflowError):
        raise malformed(path, ValueError("an age, user id or gender that is no integer")) from None
    if not users.is_unique:
        raise malformed(path, ValueError("a user id occurs twice"))
    ends = _friendships(raw_dir / FRIENDSHIPS, users)
    group = np.digitize(age, AGE_STARTS) - 1
    labels = np.where(group < len(AGE_STARTS) - 1, group, -1).astype(np.int64)
    features = np.concatenate(
        [
            _one_hot(gender, (0, 1)),
            _one_hot(_first_match(profiles["region_large"].str.lower(), REGIONS), range(len(REGIONS))),
            _one_hot(_tens(profiles["weight"]), TENS_OF_KG),
            _one_hot(_tens(profiles["height"]), TENS_OF_CM),
            _hashed(profiles["region_small"], DISTRICT_COLUMNS),
            _hashed(profiles["hobbies"], HOBBY_COLUMNS),
        ],
        axis=1,
    )
    meta: dict[str, object] = {"classes": "age 1-17, 18-20, 21-24, 25-29, 30-99"}
    split = random_split(labels, PERCENT, name, "public")
    return RawGraph(*ends, features, labels, split, directed=True, meta=meta)


def _friendships(path: Path, users: pd.Series) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the friendships as positions in `users`."""
    table = _table(path, ("source", "target"))
    known = pd.Index(users)
    try:
        ends = tuple(known.get_indexer(table[column].astype(np.int64)) for column in ("source", "target"))
    except (ValueError, TypeError, OverflowError):
        raise malformed(path, ValueError("a user id that is no integer")) from None
    if any((places < 0).any() for places in ends):
        raise malformed(path, ValueError(f"a user id that {PROFILES} does not have"))
    return ends  # type: ignore[return-value]


def _table(path: Path, columns: tuple[str, ...]) -> pd.DataFrame:
    """Return the table's texts, missing ones as ""; errors name the defect and quote no data."""
    with reading(path, quote=False):
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    if not isinstance(table.index, pd.RangeIndex) or table.isna().any(axis=None):
        raise malformed(path, ValueError("a row of another length than the first"))
    if missing := [column for column in columns if column not in table]:
        raise malformed(path, ValueError(f"no column {', '.join(missing)}"))
    return table


def _one_hot(values: np.ndarray | pd.Series, known: range | tuple[int, ...]) -> np.ndarray:
    """Return (n, len(known)) float32; a value that is not known gives a row of zeros."""
    return (np.asarray(values)[:, None] == np.asarray(known)[None, :]).astype(np.float32)


def _first_match(texts: pd.Series, beginnings: tuple[str, ...]) -> np.ndarray:
    """Return (n,) index of the beginning that each text has, -1: none of them."""
    first = np.full(len(texts), -1)
    for index, beginning in enumerate(beginnings):
        first[texts.str.startswith(beginning).to_numpy(dtype=bool)] = index
    return first


def _tens(texts: pd.Series) -> np.ndarray:
    """Return (n,) the number before the X that hides the last digit (18X: 180 to 189); NaN where there is none."""
    return texts.str.extract(r"^(\d{1,3})X$", expand=False).astype(float).to_numpy()


def _hashed(texts: pd.Series, columns: int) -> np.ndarray:
    hasher = FeatureHasher(columns, input_type="string", alternate_sign=False, dtype=np.float32)
    return hasher.transform([[text] for text in texts.str.lower()]).toarray()
