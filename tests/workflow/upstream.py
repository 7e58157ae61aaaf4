"""A local host of generated files under the names that data sets have upstream, and registry entries for them."""

from __future__ import annotations

import hashlib
import queue
import select
import zipfile
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import scipy.sparse as sp

from dpgraph.core.randomness import numpy_generator
from dpgraph.data.registry import DatasetEntry, Expected, Source, entry
from tests.data import test_pokec, test_readers, test_svhn
from tests.data.test_fetch import Server

POSTS, FEATURES, CLASSES = 2000, 602, 41
SELECTED, FRIENDSHIPS, WORDS = 20_000, 300_000, 300  # as many profiles as the shipped options select
TESTED = 12_000  # images of SVHN, of which the shipped options make 10,000 public


class Upstream(Server):
    """A server of `files` by path, which notes each request and stalls after `stalls[path]` bytes of a file."""

    def __init__(self) -> None:
        super().__init__()
        self.url = self.url.removesuffix("/file")
        self.files: dict[str, bytes] = {}
        self.requests: list[tuple[str, str | None]] = []
        self.stalls: dict[str, int] = {}
        self.left: queue.Queue[str] = queue.Queue()  # stalled files whose client has gone

    def answer(self, request) -> None:
        self.requests.append((request.path, request.headers.get("Range")))
        super().answer(request)

    def body_of(self, path: str) -> bytes:
        return self.files[path]

    def send(self, request, body: bytes) -> None:
        sent = self.stalls.get(request.path, len(body))
        super().send(request, body[:sent])
        if sent == len(body):
            return
        with suppress(ConnectionError):
            while not select.select([request.connection], [], [], 10)[0]:  # until the client has gone
                super().send(request, body[sent : (sent := sent + 1)])  # lest it gives up on a slow machine
        self.left.put(request.path)


def arxiv(folder: Path) -> Expected:
    test_readers.ogb_files(folder)
    return Expected(nodes=3, entries=4, features=2, signed=True, classes=2, split=(1, 1, 1))


def reddit(folder: Path) -> Expected:
    generator, split = numpy_generator("test", "upstream", "reddit"), (1000, 400, 600)
    labels, types = np.arange(POSTS) % CLASSES, np.repeat([1, 2, 3], split)
    features = generator.standard_normal((POSTS, FEATURES), dtype=np.float32)
    np.savez(folder / "reddit_data.npz", feature=features, label=labels, node_types=types)
    next_post = sp.coo_matrix((np.ones(POSTS), (np.arange(POSTS), np.roll(np.arange(POSTS), -1))))
    sp.save_npz(folder / "reddit_graph.npz", next_post + next_post.T)
    return Expected(nodes=POSTS, entries=2 * POSTS, features=FEATURES, signed=True, classes=CLASSES, split=split)


def pokec(folder: Path) -> Expected:
    rows = [test_pokec.profile(user, ("kocur", "pes")[user % 2], text=f"w{user % WORDS}") for user in range(SELECTED)]
    rows += [test_pokec.profile(SELECTED + user, text="other") for user in range(100)]  # without a pet
    pairs = numpy_generator("test", "upstream", "pokec").integers(0, len(rows), (FRIENDSHIPS, 2))
    test_pokec.write(folder, rows, pairs.tolist())
    inside = np.sort(pairs[(pairs < SELECTED).all(axis=1) & (pairs[:, 0] != pairs[:, 1])], axis=1)
    entries = 2 * len(np.unique(inside, axis=0))
    return Expected(nodes=SELECTED, entries=entries, features=WORDS, classes=2, split=(16000, 2000, 2000))


def svhn(folder: Path) -> Expected:
    pixels = numpy_generator("test", "upstream", "svhn").integers(0, 256, (4, 5, 3, TESTED), dtype=np.uint8)
    test_svhn.write(folder, X=pixels, y=np.arange(TESTED)[:, None] % 10 + 1)
    return Expected(nodes=4 + TESTED, features=60, classes=10, split=(4, 10_000, TESTED - 10_000))


MADE = {"ogbn-arxiv": arxiv, "reddit": reddit, "pokec": pokec, "svhn": svhn}


def path_of(url: str) -> str:
    return urlsplit(url).path


def published(known: DatasetEntry, folder: Path) -> dict[str, bytes]:
    """Return the files of an entry by the path of their URL, packed as upstream packs them."""
    if known.archive is None:
        pairs = [(file, source) for file in known.files for source in file.sources if source.url]
        return {path_of(source.url): (folder / file.path).read_bytes() for file, source in pairs}
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in known.files:
            archive.write(folder / file.path, file.member)
    return {path_of(known.archive.url): packed.getvalue()}


def served(known: DatasetEntry, upstream: Upstream, expected: Expected) -> DatasetEntry:
    """Return the entry with the server's URLs, and the sizes, hashes and statistics of what it serves."""

    def moved(source: Source) -> Source:
        if source.url is None:
            return source
        url, body = upstream.url + path_of(source.url), upstream.files[path_of(source.url)]
        return source.model_copy(update={"url": url, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()})

    brought = tuple(file.model_copy(update={"sources": tuple(map(moved, file.sources))}) for file in known.files)
    packed = known.archive and moved(known.archive)
    return known.model_copy(update={"archive": packed, "files": brought, "expected": expected})


def open_upstream(folder: Path) -> tuple[Upstream, dict[str, DatasetEntry]]:
    """Generate all files below `folder`; return their server and the shipped entries, moved to it, by name."""
    upstream, entries = Upstream(), {}
    for name, make in MADE.items():
        (folder / name).mkdir(parents=True)
        expected, known = make(folder / name), entry(name)
        upstream.files |= published(known, folder / name)
        entries[name] = served(known, upstream, expected)
    return upstream, entries
