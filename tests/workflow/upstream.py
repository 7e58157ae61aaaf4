"""A local host of generated files under the names that data sets have upstream, and registry entries for them."""

from __future__ import annotations

import hashlib
import queue
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
PROFILES, FRIENDSHIPS, WORDS = 10_000, 300_000, 300  # profiles of each class: as many as the shipped options select
TESTED = 12_000  # images of SVHN, of which the shipped options make 10,000 public


class Upstream(Server):
    """A server of `files` by path, which notes each request and stalls after `stalls[path]` bytes of a file."""

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__()
        self.files, self.url = files, self.url.removesuffix("/file")
        self.requests: list[tuple[str, str | None]] = []
        self.stalls: dict[str, int] = {}
        self.left: queue.Queue[str] = queue.Queue()  # stalled files whose client has gone

    def answer(self, request) -> None:
        self.requests.append((request.path, request.headers.get("Range")))
        if request.path in self.files:
            super().answer(request)
        else:
            request.send_error(404)

    def body_of(self, path: str) -> bytes:
        return self.files[path]

    def send(self, request, body: bytes) -> None:
        stall = self.stalls.get(request.path, len(body))
        super().send(request, body[:stall])
        if stall < len(body):
            with suppress(ConnectionError):
                self._wait_for_its_end(request, body[stall:])
            request.close_connection = True
            self.left.put(request.path)

    def _wait_for_its_end(self, request, rest: bytes) -> None:
        """Wait until the client is gone. A byte now and then keeps it from giving up, however slow the machine is."""
        request.connection.settimeout(10)
        for place in range(len(rest)):
            try:
                request.connection.recv(1)  # returns when the other end is closed
                return
            except TimeoutError:
                super().send(request, rest[place : place + 1])


def arxiv(folder: Path) -> Expected:
    test_readers.ogb_files(folder)
    return Expected(nodes=3, entries=4, features=2, signed=True, classes=2, split=(1, 1, 1))


def reddit(folder: Path) -> Expected:
    generator = numpy_generator("test", "upstream", "reddit")
    labels, types = np.arange(POSTS) % CLASSES, np.repeat([1, 2, 3], [1000, 400, 600])
    features = generator.standard_normal((POSTS, FEATURES), dtype=np.float32)
    np.savez(folder / "reddit_data.npz", feature=features, label=labels, node_types=types)
    next_post = sp.coo_matrix((np.ones(POSTS), (np.arange(POSTS), np.roll(np.arange(POSTS), -1))))
    sp.save_npz(folder / "reddit_graph.npz", next_post + next_post.T)
    return Expected(
        nodes=POSTS, entries=2 * POSTS, features=FEATURES, signed=True, classes=CLASSES, split=(1000, 400, 600)
    )


def pokec(folder: Path) -> Expected:
    pets = ("kocur", "pes")
    rows = [
        test_pokec.profile(number, pets[number % 2], text=f"slovo{number % WORDS}") for number in range(2 * PROFILES)
    ]
    rows += [test_pokec.profile(2 * PROFILES + number, text="cudzie") for number in range(100)]  # without a pet
    pairs = numpy_generator("test", "upstream", "pokec").integers(0, len(rows), (FRIENDSHIPS, 2))
    test_pokec.write(folder, rows, pairs.tolist())
    inside = np.sort(pairs[(pairs < 2 * PROFILES).all(axis=1) & (pairs[:, 0] != pairs[:, 1])], axis=1)
    entries, split = 2 * len(np.unique(inside, axis=0)), (16000, 2000, 2000)
    return Expected(nodes=2 * PROFILES, entries=entries, features=WORDS, classes=2, split=split)


def svhn(folder: Path) -> Expected:
    generator = numpy_generator("test", "upstream", "svhn")
    pixels = generator.integers(0, 256, (4, 5, 3, TESTED), dtype=np.uint8)
    test_svhn.write(folder, X=pixels, y=np.arange(TESTED)[:, None] % 10 + 1)
    return Expected(nodes=4 + TESTED, features=60, classes=10, split=(4, 10_000, TESTED - 10_000))


MADE = {"ogbn-arxiv": arxiv, "reddit": reddit, "pokec": pokec, "svhn": svhn}


def path_of(url: str) -> str:
    return urlsplit(url).path


def published(known: DatasetEntry, folder: Path) -> dict[str, bytes]:
    """Return the files of an entry by the path of their URL, packed as upstream packs them."""
    if known.archive is None:
        sources = [(file, source) for file in known.files for source in file.sources if source.url]
        return {path_of(source.url): (folder / file.path).read_bytes() for file, source in sources}
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for file in known.files:
            archive.write(folder / file.path, file.member)
    return {path_of(known.archive.url): packed.getvalue()}


def served(known: DatasetEntry, host: str, files: dict[str, bytes], expected: Expected) -> DatasetEntry:
    """Return the entry with URLs of `host`, and the sizes, hashes and statistics of what it serves."""

    def moved(source: Source) -> Source:
        if source.url is None:
            return source
        body = files[path_of(source.url)]
        changes = {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}
        return source.model_copy(update={"url": host + path_of(source.url), **changes})

    brought = [file.model_copy(update={"sources": tuple(moved(one) for one in file.sources)}) for file in known.files]
    archive = None if known.archive is None else moved(known.archive)
    return known.model_copy(update={"archive": archive, "files": tuple(brought), "expected": expected})


def open_upstream(folder: Path) -> tuple[Upstream, dict[str, DatasetEntry]]:
    """Generate all files below `folder`; return their server and the shipped entries, moved to it, by name."""
    upstream, entries = Upstream({}), {}
    for name, make in MADE.items():
        (folder / name).mkdir(parents=True)
        expected, known = make(folder / name), entry(name)
        files = published(known, folder / name)
        upstream.files |= files
        entries[name] = served(known, upstream.url, files, expected)
    return upstream, entries
