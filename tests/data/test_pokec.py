"""The parser on generated rows in the format of SNAP's files; no row of the real data appears here."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from dpgraph.core.errors import UserError
from dpgraph.data.readers import pokec
from dpgraph.data.records import TEST, TRAIN, VALIDATION

OPTIONS = {"per_class": 10, "min_count": 2, "max_count": 1000, "label_column_in_text": False}


def profile(user, pets="null", fields=3, text="slovo ďalšie"):
    """A row of 59 fields and the trailing tab; `fields` columns besides id and pets are filled."""
    row = dict.fromkeys(pokec.COLUMNS, "null")
    row |= {name: text for name in [c for c in pokec.TEXT_COLUMNS if c != "pets"][:fields]}
    row |= {"user_id": str(user), "pets": pets}
    return "\t".join(row.values()) + "\t\n"


def write(folder, profiles, friendships=((1, 2),)):
    folder.mkdir(exist_ok=True)
    (folder / "soc-pokec-profiles.txt.gz").write_bytes(gzip.compress("".join(profiles).encode()))
    lines = "".join(f"{a}\t{b}\n" for a, b in friendships)
    (folder / "soc-pokec-relationships.txt.gz").write_bytes(gzip.compress(lines.encode()))


def toy_profiles():
    cats = ["macka", "mam macku", "kocur"]
    dogs = ["pes", "mam psa", "mam psika", "mam psov"]
    rows = [profile(100 + i, cats[i % 3], fields=i) for i in range(12)]
    rows += [profile(200 + i, dogs[i % 4], fields=12 - i) for i in range(12)]
    rows += [
        profile(300, "pes, macka", 20),
        profile(301, "mam psov a macku", 20),
        profile(302, "rybky", 20),
        profile(303),
    ]
    return rows


def test_most_complete_profiles_of_each_class(tmp_path):
    write(tmp_path, toy_profiles(), [(111, 200)])
    profiles = pokec.selected_profiles(tmp_path / "soc-pokec-profiles.txt.gz", 10)
    assert profiles["user_id"].astype(int).tolist() == [*range(111, 101, -1), *range(200, 210)]
    raw = pokec.read(tmp_path, **OPTIONS)
    assert raw.labels.tolist() == [0] * 10 + [1] * 10
    assert np.bincount(raw.split)[[TRAIN, VALIDATION, TEST]].tolist() == [16, 2, 2]
    assert np.bincount(raw.labels[raw.split == TRAIN]).tolist() == [8, 8]
    assert raw.data_dependent == (pokec.SELECTION, pokec.STRATA, pokec.VOCABULARY)


def test_friendships_are_kept_among_the_selected_and_renumbered(tmp_path):
    write(tmp_path, toy_profiles(), [(111, 200), (200, 111), (201, 110), (100, 111), (300, 200), (111, 999)])
    raw = pokec.read(tmp_path, **OPTIONS)  # 100 is too incomplete, 300 has no label, 999 does not exist
    assert list(zip(raw.source.tolist(), raw.target.tolist())) == [(0, 10), (10, 0), (11, 1)]
    ptr, idx = raw.symmetric
    assert idx[ptr[0] : ptr[1]].tolist() == [10]
    assert len(idx) == 4


def test_ties_keep_the_order_of_the_file(tmp_path):
    write(tmp_path, [profile(user, pets) for pets in ("pes", "kocur") for user in (7, 3, 5)])
    profiles = pokec.selected_profiles(tmp_path / "soc-pokec-profiles.txt.gz", 3)
    assert profiles["user_id"].astype(int).tolist() == [7, 3, 5, 7, 3, 5]


def test_bag_of_words_bounds_markup_and_label_column(tmp_path):
    rows = [
        profile(1, "macka", 1, "často, RAZ &amp; <b>tučné</b> často!"),
        profile(2, "pes", 1, 'často raz "úvodzovky'),
    ]
    write(tmp_path, rows)
    options = {**OPTIONS, "per_class": 1}
    raw = pokec.read(tmp_path, **{**options, "min_count": 1})
    assert raw.features.toarray().max() == 1
    assert raw.texts["I_am_working_in_field"][0] == "často, RAZ &  tučné  často!"
    words = {"často": 3, "raz": 2, "tučné": 1, "úvodzovky": 1}
    for low, high in ((1, 9), (2, 9), (2, 2), (1, 1)):
        found = pokec.bag_of_words([" ".join(p) for p in zip(*raw.texts.values())], low, high).shape[1]
        assert found == sum(low <= count <= high for count in words.values())
    assert "pets" not in raw.texts
    leaky = pokec.read(tmp_path, **{**options, "min_count": 1, "label_column_in_text": True})
    assert leaky.texts["pets"] == ["macka", "pes"]
    assert leaky.features.shape[1] == raw.features.shape[1] + 2
    assert len(leaky.texts) == 49
    assert raw.directed


def test_too_few_profiles(tmp_path):
    write(tmp_path, toy_profiles())
    with pytest.raises(UserError, match=r"^per_class=13: expected at most 12, the cat profiles"):
        pokec.read(tmp_path, **{**OPTIONS, "per_class": 13})


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([profile(1), "2\tsecret\n"], "Expected 60 columns, got 2"),
        ([profile("secret", "pes"), profile(1, "macka")], "no integer"),
        ([profile(1, "pes"), profile(1, "macka")], "user id occurs twice"),
        ([profile(1, "pes", 0), profile(2, "macka", 0)], "no words"),
    ],
)
def test_damage_is_named_without_quoting_the_row(tmp_path, rows, message):
    write(tmp_path, rows)
    with pytest.raises(UserError, match=message) as error:
        pokec.read(tmp_path, **{**OPTIONS, "per_class": 1})
    assert "secret" not in str(error.value)


def test_truncated_file(tmp_path):
    write(tmp_path, toy_profiles() * 50)
    path = tmp_path / "soc-pokec-profiles.txt.gz"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(UserError, match=r"profiles\.txt\.gz"):
        pokec.selected_profiles(path, 2)


@pytest.mark.real_data
def test_first_hundred_real_rows():
    mirror = os.environ.get("DPGRAPH_MIRROR")
    path = Path((mirror or "").split(":")[0], "pokec", "soc-pokec-profiles.first100.txt")
    if not mirror or not path.exists():
        pytest.skip("DPGRAPH_MIRROR names no mirror with pokec/soc-pokec-profiles.first100.txt")
    batches = list(pokec._batches(path, dict.fromkeys((*pokec.COLUMNS, "end"), pokec.pa.string())))
    assert sum(len(batch) for batch in batches) == 100
    assert sum(batch.column(59).null_count for batch in batches) == 100
    assert sum(batch.column(13).null_count for batch in batches) == 46
    profiles = pokec.selected_profiles(path, 2)
    assert profiles["pets"].map(pokec.LABELS).tolist() == [0, 0, 1, 1]
    assert (np.diff(profiles["empty"].to_numpy().reshape(2, 2)) >= 0).all()
    with pytest.raises(UserError, match="per_class=20: expected at most"):
        pokec.selected_profiles(path, 20)
