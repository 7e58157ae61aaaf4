"""Readers of data files: small good files, damaged. Rows of personal data are made up."""

from __future__ import annotations

import collections
import gzip
import io
import os
import pickle
import struct
from pathlib import Path
from random import Random

import numpy as np
import pytest
import scipy.sparse as sp

from dpgraph.core.errors import UserError
from dpgraph.data.arrays import load_npy
from dpgraph.data.raw_graph import RawGraph
from dpgraph.data.readers import arxiv_text, graphsaint, idx, npz, ogb, planetoid, pokec, pokec_extract, reddit
from dpgraph.data.text.fasttext import check_binary
from tests.data.test_idx import FILES as IDX_FILES
from tests.data.test_idx import encoded
from tests.data.test_readers import legacy_pickle
from tests.fuzz.harness import SEEDS, files_in, fuzzed, told
from tests.fuzz.strategies import damaged

ALLX = sp.csr_matrix(np.eye(501, 4, dtype=np.float32))


def npy(array: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.save(content, array)
    return content.getvalue()


def zipped(**arrays: np.ndarray) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def matrix(prefix: str, dense: list[list[int]]) -> dict[str, np.ndarray]:
    found = sp.csr_matrix(np.array(dense, dtype=np.float32))
    return {f"{prefix}{part}": np.asarray(getattr(found, part)) for part in ("data", "indices", "indptr", "shape")}


NPZ = {**matrix("adj_", [[0, 1, 0], [0, 0, 0], [1, 0, 0]]), **matrix("attr_", [[0, 2], [1, 0], [0, 0]])}
NPZ["labels"] = np.array([0, 1, 0])
OGB = {
    "raw/edge.csv.gz": b"0,1\n2,0\n1,2\n",
    "raw/num-edge-list.csv.gz": b"3\n",
    "raw/num-node-list.csv.gz": b"3\n",
    "raw/node-feat.csv.gz": b"0.5,-1\n1e-2,2\n0,3\n",
    "raw/node-label.csv.gz": b"4\nnan\n1\n",
    "split/time/train.csv.gz": b"2\n",
    "split/time/valid.csv.gz": b"0\n",
    "split/time/test.csv.gz": b"1\n",
}
SAINT = {
    "adj_full.npz": zipped(**matrix("", [[0, 1, 0], [1, 0, 0], [0, 0, 0]])),
    "feats.npy": npy(np.arange(6.0).reshape(3, 2)),
    "class_map.json": b'{"2": 5, "0": 1, "1": 0}',
    "role.json": b'{"tr": [2], "va": [0], "te": [1]}',
}
REDDIT = {
    "reddit_data.npz": zipped(feature=np.eye(3, 2), label=np.array([0, 1, 2]), node_types=np.array([1, 3, 2])),
    "reddit_graph.npz": zipped(
        row=np.array([0, 1]), col=np.array([1, 0]), data=np.ones(2), shape=np.array([3, 3]), format=np.array(b"coo")
    ),
}
PLANETOID = {
    f"ind.toy.{name}": legacy_pickle(value)
    for name, value in {
        "tx": sp.csr_matrix(np.eye(3, 4, dtype=np.float32)),
        "allx": ALLX,
        "y": np.eye(3)[[2]],
        "ty": np.eye(3),
        "ally": np.eye(3)[np.full(501, 2)],
        "graph": collections.defaultdict(list, {0: [1, 503, 0], 503: [0], 505: [501, 501]}),
    }.items()
} | {"ind.toy.test.index": b"503\n501\n505\n"}
IDX = {f"{name}-ubyte.gz": encoded(array) for name, array in IDX_FILES.items()}
PROFILES = b"".join(
    "\t".join(
        [str(user), *("text <b>x</b> &amp; y" if name != "pets" else pet for name in pokec.COLUMNS[1:]), ""]
    ).encode()
    + b"\n"
    for user, pet in enumerate(["pes"] * 10 + ["macka"] * 10, start=100)
)
POKEC = {pokec.PROFILES: PROFILES, pokec.RELATIONSHIPS: b"100\t101\n110\t100\n7\t8\n"}
EXTRACT = {
    pokec_extract.PROFILES: (",".join(pokec_extract.PROFILE_COLUMNS) + "\n").encode()
    + b"".join(f"{user % 2},bratislava,east,{20 + user},7X,18X,hobby {user},{user}\n".encode() for user in range(12)),
    pokec_extract.FRIENDSHIPS: b"source,target\n0,1\n3,2\n11,0\n",
}
GUESSES = b"3,1\n0\n\n2,1,0,3\n"
BIN = (
    b"\xba\x16\x4f\x2f"
    + struct.pack("<i12id", 12, 3, 5, 5, 1, 5, 1, 1, 2, 4, 3, 6, 100, 1e-4)
    + struct.pack("<3i2q", 2, 2, 0, 10, -1)
    + b"".join(word + b"\0" + struct.pack("<qb", 5, 0) for word in (b"word", b"pes"))
    + struct.pack("<?2q", False, 6, 3)
    + bytes(4 * 18)
)


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def spoilt(files: dict[str, bytes], random: Random, packed: bool = False) -> dict[str, bytes]:
    """The files with one of them damaged; `packed`: gzipped after that, or damaged when packed."""
    name = random.choice(sorted(files))
    pack = (lambda content: gzip.compress(content, 1, mtime=0)) if packed else (lambda content: content)
    found = {other: pack(content) for other, content in files.items()}
    inside = not packed or random.random() < 0.8
    found[name] = pack(damaged(files[name], random)) if inside else damaged(found[name], random)
    return found


def check_reader(folder: Path, files: dict[str, bytes], read) -> None:
    """A refusal, or a graph that is sound; nothing is written either way."""
    write(folder, files)
    before = files_in(folder)

    def use() -> None:
        graph = read(folder)
        assert isinstance(graph, RawGraph)
        ptr, entries = graph.symmetric
        assert ptr[-1] == len(entries)
        assert graph.labels.dtype == np.int64
        assert graph.features is None or np.isfinite(graph.features.sum(dtype=np.float64))

    told(use)
    assert files_in(folder) == before


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("raw")


@fuzzed(500, seed=SEEDS)
def test_ogb(place, seed):
    files = spoilt(OGB, Random(seed), packed=True)
    check_reader(place / "ogb", files, lambda folder: ogb.read(folder, split="time", directed=True))


@fuzzed(300, seed=SEEDS)
def test_npz_bytes(place, seed):
    random = Random(seed)
    check_reader(place / "npz", {"a.npz": damaged(zipped(**NPZ), random)}, lambda f: npz.read(f, "a.npz", True))


@fuzzed(700, seed=SEEDS)
def test_npz_arrays(place, seed):
    """Whole archives of wrong arrays."""
    random = Random(seed)
    arrays = dict(NPZ)
    for _ in range(random.randint(1, 2)):
        arrays[random.choice(sorted(arrays))] = wrong_array(arrays[random.choice(sorted(arrays))], random)
    if random.random() < 0.2:
        del arrays[random.choice(sorted(arrays))]
    check_reader(place / "arrays", {"a.npz": zipped(**arrays)}, lambda folder: npz.read(folder, "a.npz", True))


def wrong_array(array: np.ndarray, random: Random) -> np.ndarray:
    if array.dtype.kind not in "iuf" or array.ndim != 1:
        return np.zeros(2)
    changed = array.copy()
    if changed.size:
        changed.flat[random.randrange(changed.size)] = random.choice((-1, 0, 1, 2, 7, 100, 2**31 - 1, -(2**31)))
    return random.choice(
        (
            changed,
            changed,
            changed,
            array.astype(float) + random.choice((0.5, np.nan, np.inf)),
            array[:-1],
            np.concatenate([array.ravel(), array.ravel()]),
            array.reshape(1, -1),
            np.array(3),
            np.array([], dtype=array.dtype),
            array.astype("S3"),
            array.astype(bool),
            array.astype(complex),
            np.array([{}, {}], dtype=object),
            np.array([10**15, 10**15]),
            array.astype([("a", array.dtype)]),
        )
    )


@fuzzed(400, seed=SEEDS)
def test_graphsaint(place, seed):
    check_reader(place / "saint", spoilt(SAINT, Random(seed)), graphsaint.read)


@fuzzed(300, seed=SEEDS)
def test_reddit(place, seed):
    check_reader(place / "reddit", spoilt(REDDIT, Random(seed)), reddit.read)


@fuzzed(400, seed=SEEDS)
def test_planetoid(place, seed):
    check_reader(place / "planetoid", spoilt(PLANETOID, Random(seed)), lambda f: planetoid.read(f, "toy"))


@fuzzed(500, seed=SEEDS)
def test_idx(place, seed):
    random = Random(seed)
    check_reader(place / "idx", spoilt(IDX, random, packed=random.random() < 0.5), idx.read)


@fuzzed(150, seed=SEEDS)
def test_pokec(place, seed):
    def read(folder):
        return pokec.read(folder, per_class=5, min_count=1, max_count=1000, label_column_in_text=False)

    check_reader(place / "pokec", spoilt(POKEC, Random(seed), packed=True), read)


@fuzzed(250, seed=SEEDS)
def test_pokec_extract(place, seed):
    check_reader(place / "extract", spoilt(EXTRACT, Random(seed)), lambda f: pokec_extract.read(f, "pokec-20k"))


@fuzzed(300, seed=SEEDS)
def test_arxiv_guesses(place, seed):
    write(place, {"guesses.csv": damaged(GUESSES, Random(seed))})
    told(lambda: arxiv_text.ranked_guesses(place / "guesses.csv", 4))


@fuzzed(400, seed=SEEDS)
def test_binary_models(place, seed):
    write(place, {"a.bin": damaged(BIN, Random(seed)) or b"\0"})

    def check() -> None:
        try:
            check_binary(place / "a.bin")
        except (ValueError, struct.error, OverflowError) as error:  # what `reading` makes a line of
            raise UserError(f"damage: {error}") from None

    told(check)


@fuzzed(600, seed=SEEDS)
def test_npy(place, seed):
    random = Random(seed)
    array = random.choice((np.arange(6), np.zeros((2, 3), dtype=np.float32), np.array(["a", "bc"]), np.empty((0, 4))))
    write(place, {"a.npy": damaged(npy(array), random)})

    def load() -> None:
        try:
            found = load_npy(place / "a.npy", mmap=random.random() < 0.5)
        except (ValueError, EOFError) as error:
            raise UserError(f"damage: {error}") from None
        assert found.nbytes <= (place / "a.npy").stat().st_size

    told(load)


def test_what_they_damage_is_good(tmp_path):
    write(
        tmp_path, {**{name: gzip.compress(content) for name, content in (OGB | POKEC).items()}, "a.npz": zipped(**NPZ)}
    )
    write(tmp_path, SAINT | REDDIT | PLANETOID | IDX | EXTRACT | {"a.bin": BIN})
    ogb.read(tmp_path, split="time", directed=True)
    npz.read(tmp_path, "a.npz", True)
    graphsaint.read(tmp_path)
    reddit.read(tmp_path)
    planetoid.read(tmp_path, "toy")
    idx.read(tmp_path)
    pokec.read(tmp_path, per_class=5, min_count=1, max_count=1000, label_column_in_text=False)
    pokec_extract.read(tmp_path, "pokec-20k")
    check_binary(tmp_path / "a.bin")


class Harmful:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self):
        return os.mkdir, (str(self.mark),)


def test_no_file_runs_code(tmp_path):
    mark = tmp_path / "ran"
    harmful = pickle.dumps(Harmful(mark), protocol=2)
    raw = tmp_path / "raw"
    write(raw, PLANETOID | SAINT | REDDIT)
    for part in ("tx", "allx", "y", "ty", "ally", "graph"):
        write(raw, PLANETOID | {f"ind.toy.{part}": harmful})
        assert "is not admitted" in str(told(lambda: planetoid.read(raw, "toy")))
    for name, content in SAINT.items():
        write(raw, SAINT | {name: harmful})
        assert name in str(told(lambda: graphsaint.read(raw)))
        write(raw, {name: content})
    objects = np.array([Harmful(mark)], dtype=object)
    content = io.BytesIO()
    np.save(content, objects, allow_pickle=True)
    write(raw, {"feats.npy": content.getvalue()})
    assert "allow_pickle=False" in str(told(lambda: graphsaint.read(raw)))
    content = io.BytesIO()
    np.savez(content, **{**NPZ, "labels": objects})
    write(raw, {"a.npz": content.getvalue()})
    assert "allow_pickle=False" in str(told(lambda: npz.read(raw, "a.npz", True)))
    assert not mark.exists()


def opcodes(*parts: bytes) -> bytes:
    return b"\x80\x02" + b"".join(parts) + b"."


@pytest.mark.parametrize(
    "content",
    [
        opcodes(b"cnumpy.core.multiarray\n_reconstruct\n", b"(cnumpy\nndarray\n", b"(\x8a\x06\0\0\0\0\0\x01tU\x01btR"),
        opcodes(b"cnumpy\nndarray\n", b"(\x8a\x06\0\0\0\0\0\x01tR"),
        opcodes(b"cscipy.sparse.csr\ncsr_matrix\n", b"((\x8a\x06\0\0\0\0\0\x01K\x01ttR"),
        opcodes(b"K\x01r\xff\xff\xff\x7f"),  # a place in the memo that unpicklers in C make room for
        opcodes(b"\x8d\xff\xff\xff\xff\xff\xff\xff\x3f"),  # a text of 2^62 bytes
        opcodes(b"c__builtin__\nlist\n", b"(\x8a\x06\0\0\0\0\0\x01tR"),
        opcodes(b"cbuiltins\neval\n", b"(U\x011tR"),
        opcodes(b"ccollections\ndefaultdict\n", b"(cos\nsystem\ntR"),
        opcodes(b"(lp0\n" + b"h\x00a" * 10),
    ],
    ids=range(9),
)
def test_pickles_that_ask_for_more_than_they_hold(tmp_path, content):
    write(tmp_path, PLANETOID | {"ind.toy.allx": content})
    assert "allx" in str(told(lambda: planetoid.read(tmp_path, "toy")))


def test_headers_that_lie(tmp_path):
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,)}"
    header = b"\x93NUMPY\x01\x00\x76\x00" + text.ljust(117) + b"\n"
    write(tmp_path, SAINT | {"feats.npy": header + bytes(80)})
    assert "feats.npy" in str(told(lambda: graphsaint.read(tmp_path)))
    write(tmp_path, PLANETOID | {"ind.toy.test.index": b"501\n502\n900000000000\n"})
    assert "more than half of them are missing" in str(told(lambda: planetoid.read(tmp_path, "toy")))


@pytest.mark.parametrize(
    ("name", "value"), [("indices", [7]), ("indices", [-1]), ("indptr", [0, 5, 0, 2]), ("indptr", [0, -9, 1, 2])]
)
def test_indices_that_compiled_code_would_trust(tmp_path, name, value):
    arrays = dict(NPZ)
    array = arrays[f"adj_{name}"]
    arrays[f"adj_{name}"] = np.array(value if name == "indptr" else [*value, *array[1:]], dtype=array.dtype)
    write(tmp_path, {"a.npz": zipped(**arrays)})
    assert "a.npz" in str(told(lambda: npz.read(tmp_path, "a.npz", True)))


def test_markup_without_end_takes_no_time(tmp_path):
    profiles = PROFILES.replace(b"text", b"<" * 200_000, 1)
    write(tmp_path, {name: gzip.compress(content) for name, content in (POKEC | {pokec.PROFILES: profiles}).items()})
    assert told(lambda: pokec.read(tmp_path, 5, 1, 1000, False)) is None


def test_no_message_quotes_a_profile(tmp_path):
    secret = b"SECRET"
    for profiles in (
        PROFILES.replace(b"text", secret + b"\xff", 1),
        PROFILES.replace(b"100\t", secret + b"\t", 1),
        PROFILES.replace(b"text", secret + b" &#" + b"9" * 5000 + b";"),
        PROFILES.replace(b"text", secret + b"\t", 1),
    ):
        write(
            tmp_path, {name: gzip.compress(content) for name, content in (POKEC | {pokec.PROFILES: profiles}).items()}
        )
        line = told(lambda: pokec.read(tmp_path, 10, 1, 1000, False))
        assert line is not None
        assert "SECRET" not in line
