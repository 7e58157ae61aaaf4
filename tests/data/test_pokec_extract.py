"""The reader on generated rows; no row of the real data appears here."""

import numpy as np
import pytest

from dpgraph.core.errors import UserError
from dpgraph.data.readers import pokec_extract
from dpgraph.data.records import NO_SPLIT

HEADER = "index,gender,region_large,region_small,age,weight,height,hobbies,user_id"
ROWS = [
    "0,1,Bratislava region,here,21,7X,18X,reading,5",
    "1,0,bratislava Region,there,0,x,19999X,Reading,3",
    "2,0,elsewhere,here,17,2X,12X,chess,9",
    "3,1,Kosice Region,here,100,15X,21X,,7",
    "4,1,abroad,here,99,3X,22X,go,8",
]
AGE_COLUMN = 4


def write(folder, rows=ROWS, edges=("5,3", "3,5", "9,8"), header=HEADER):
    (folder / "anonymized_data_20k.csv").write_text("\n".join([header, *rows]) + "\n")
    (folder / "example_edge_20k.csv").write_text("\n".join(["source,target", *edges]) + "\n")


def columns(raw, row):
    return np.flatnonzero(raw.features[row]).tolist()


def test_classes_features_and_friendships(tmp_path):
    write(tmp_path)
    raw = pokec_extract.read(tmp_path, "toy")
    assert raw.labels.tolist() == [2, -1, 0, -1, 4]
    assert (raw.split[raw.labels < 0] == NO_SPLIT).all()
    assert list(zip(raw.source.tolist(), raw.target.tolist())) == [(0, 1), (1, 0), (2, 4)]
    gender, region, kilograms, centimetres, district = 0, 2, 12, 25, 35
    assert raw.features.shape == (5, district + 256 + 128)
    assert columns(raw, 0)[:4] == [gender + 1, region + 1, kilograms + 4, centimetres + 6]
    assert columns(raw, 1)[:2] == [gender, region + 1]
    assert columns(raw, 1)[2] >= district  # neither weight nor height is in range
    assert columns(raw, 2)[1] == centimetres  # region and weight on no list
    assert columns(raw, 3)[2:4] == [kilograms + 12, centimetres + 9]
    assert columns(raw, 4)[1] == region + 9
    districts, hobbies = raw.features[:, district:-128], raw.features[:, -128:]
    assert np.array_equal(districts[0], districts[2])
    assert not np.array_equal(districts[0], districts[1])
    assert np.array_equal(hobbies[0], hobbies[1])  # case does not count
    assert set(raw.features.sum(1)) <= {3, 4, 5, 6}


def test_the_age_is_in_no_feature_and_a_row_depends_on_its_record_only(tmp_path):
    write(tmp_path)
    before = pokec_extract.read(tmp_path, "toy").features
    fields = [row.split(",") for row in ROWS]
    for age, row in zip((40, 18, 25, 0, 11), fields):
        row[AGE_COLUMN] = str(age)
    fields[0][7] = "something new"
    write(tmp_path, [",".join(row) for row in fields])
    after = pokec_extract.read(tmp_path, "toy")
    assert after.labels.tolist() == [4, 1, 3, -1, 0]
    assert np.array_equal(after.features[1:], before[1:])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": [*ROWS, "5,1,secret,secret,old,1X,1X,secret,4"]}, "no integer"),
        ({"rows": [*ROWS, "5,1,secret,secret,30,1X,1X,secret,5"]}, "a user id occurs twice"),
        ({"rows": [*ROWS, "5,1,secret,secret,30,1X,1X,secret,5,6,7"]}, "ParserError"),
        ({"header": HEADER.replace("age", "secret")}, "no column age"),
        ({"edges": ("5,secret",)}, "example_edge_20k.csv: .*no integer"),
        ({"edges": ("5,4",)}, "example_edge_20k.csv: .*a user id that anonymized_data_20k.csv does not have"),
    ],
)
def test_damage_is_named_without_quoting_the_row(tmp_path, change, message):
    write(tmp_path, **change)
    with pytest.raises(UserError, match=message) as error:
        pokec_extract.read(tmp_path, "toy")
    assert "secret" not in str(error.value)
    assert "\n" not in str(error.value)
