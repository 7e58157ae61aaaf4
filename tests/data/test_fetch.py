import hashlib
import http.server
import json
import os
import tempfile
import threading
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpgraph.core.errors import DataUnavailable, UserError
from dpgraph.core.files import LOCK
from dpgraph.core.randomness import numpy_generator
from dpgraph.data import download as download_module
from dpgraph.data import fetch as fetch_module
from dpgraph.data.download import download
from dpgraph.data.fetch import fetch, mirrors_from
from dpgraph.data.manifest import read_manifest, write_manifest
from dpgraph.data.registry import parse
from tests.data.offline import fetch_offline

BODY = bytes(range(256)) * 40
SHA = hashlib.sha256(BODY).hexdigest()
NO_PAUSE = {"pause": 0.0}


class Server:
    """Serves BODY under /file; `faults` are used up one per request, then it behaves."""

    def __init__(self):
        self.faults, self.ranges, self.etag, self.body = [], [], '"v1"', BODY
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                outer.answer(self)

            def log_message(self, *arguments):
                pass

        self.http = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/file"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def answer(self, request):
        fault = self.faults.pop(0) if self.faults else None
        asked = request.headers.get("Range")
        self.ranges.append(asked)
        if isinstance(fault, int):
            request.send_error(fault)
            return
        if fault == "drop":
            request.close_connection = True
            return
        body, start = self.body_of(request.path), 0
        if asked and request.headers.get("If-Range") == self.etag:
            start = int(asked.removeprefix("bytes=").rstrip("-"))
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        if fault == "cut chunk":
            request.send_header("Transfer-Encoding", "chunked")
        else:
            request.send_header("Content-Length", str(len(body) - start))
        if fault == "html":
            request.send_header("Content-Type", "text/html")
        if self.etag:
            request.send_header("ETag", self.etag)
        request.end_headers()
        if fault == "cut chunk":
            request.wfile.write(b"1000\r\n" + body[start : start + 1000])  # of 4096 bytes that are promised
        else:
            self.send(request, body[start : start + 1000] if fault == "cut" else body[start:])

    def body_of(self, path):
        return self.body

    def send(self, request, body):
        request.wfile.write(body)


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    found = Server()
    yield found
    found.http.shutdown()
    found.http.server_close()


def test_download(server, tmp_path):
    assert download(server.url, tmp_path / "sub" / "file", len(BODY), SHA, **NO_PAUSE) == SHA
    assert (tmp_path / "sub" / "file").read_bytes() == BODY
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["file"]


def test_a_broken_transfer_is_resumed(server, tmp_path):
    server.faults = ["cut", "cut"]
    assert download(server.url, tmp_path / "file", len(BODY), SHA, **NO_PAUSE) == SHA
    assert server.ranges == [None, "bytes=1000-", "bytes=2000-"]
    assert (tmp_path / "file").read_bytes() == BODY


def test_a_later_call_resumes(server, tmp_path):
    server.faults = ["cut"] * download_module.TRIES
    with pytest.raises(UserError, match=rf"truncated download, 4000 bytes: expected {len(BODY)} bytes"):
        download(server.url, tmp_path / "file", **NO_PAUSE)
    assert not (tmp_path / "file").exists()
    assert download(server.url, tmp_path / "file", None, SHA, **NO_PAUSE) == SHA
    assert server.ranges[-1] == "bytes=4000-"


def test_a_file_that_changed_on_the_server_is_not_glued_together(server, tmp_path):
    server.faults = ["cut"] * download_module.TRIES
    with pytest.raises(UserError):
        download(server.url, tmp_path / "file", **NO_PAUSE)
    server.body, server.etag = BODY[::-1], '"v2"'
    download(server.url, tmp_path / "file", **NO_PAUSE)
    assert (tmp_path / "file").read_bytes() == BODY[::-1]


def test_without_a_version_mark_nothing_is_resumed(server, tmp_path):
    server.etag, server.faults = None, ["cut"]
    assert download(server.url, tmp_path / "file", None, SHA, **NO_PAUSE) == SHA
    assert server.ranges == [None, None]


def test_passing_server_errors_are_retried_with_growing_pauses(server, tmp_path):
    server.faults, pauses = [503, 500, 429], []
    assert download(server.url, tmp_path / "file", sleep=pauses.append) == SHA
    assert pauses == [1, 2, 4]


def test_not_found_is_not_retried(server, tmp_path):
    server.faults = [404]
    with pytest.raises(DataUnavailable, match="HTTP status 404"):
        download(server.url, tmp_path / "file", **NO_PAUSE)
    assert len(server.ranges) == 1


def test_a_web_page_instead_of_a_file_is_not_taken(server, tmp_path):
    server.faults = ["html"] * download_module.TRIES
    with pytest.raises(DataUnavailable, match="web page"):
        download(server.url, tmp_path / "file", **NO_PAUSE)


def test_a_server_that_stays_out_of_order_is_given_up(server, tmp_path):
    server.faults = [503] * (download_module.TRIES + 1)
    with pytest.raises(DataUnavailable, match=r"/file: HTTP status 503$"):
        download(server.url, tmp_path / "file", **NO_PAUSE)
    assert len(server.ranges) == download_module.TRIES
    assert list(tmp_path.iterdir()) == []


def test_a_connection_that_breaks_before_the_answer_is_tried_again(server, tmp_path):
    server.faults = ["drop"]
    assert download(server.url, tmp_path / "first", None, SHA, **NO_PAUSE) == SHA
    server.faults = ["cut", "drop", "drop"]  # more often once something has come
    assert download(server.url, tmp_path / "second", None, SHA, **NO_PAUSE) == SHA
    assert server.ranges[-2:] == ["bytes=1000-"] * 2


def test_a_transfer_without_a_length_that_breaks_is_not_taken_for_whole(server, tmp_path):
    server.faults = ["cut chunk"]
    download(server.url, tmp_path / "file", **NO_PAUSE)  # neither size nor hash is known
    assert (tmp_path / "file").read_bytes() == BODY
    server.faults = ["cut chunk"] * download_module.TRIES
    with pytest.raises(DataUnavailable):
        download(server.url, tmp_path / "other", **NO_PAUSE)
    assert not (tmp_path / "other").exists()


def test_a_resumed_file_with_a_wrong_hash_starts_anew(server, tmp_path):
    """The server says that it has the same version, which is not so."""
    server.faults, server.body = ["cut"] * download_module.TRIES, BODY[::-1]
    with pytest.raises(UserError):
        download(server.url, tmp_path / "file", None, SHA, **NO_PAUSE)
    server.body = BODY
    with pytest.raises(UserError, match="expected sha256"):
        download(server.url, tmp_path / "file", None, SHA, **NO_PAUSE)
    assert list(tmp_path.iterdir()) == []
    assert download(server.url, tmp_path / "file", None, SHA, **NO_PAUSE) == SHA


FAULTS = ["cut", "cut chunk", "drop", "html", 404, 429, 503]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    runs=st.lists(
        st.tuples(
            st.lists(st.sampled_from([None, *FAULTS]), max_size=6), st.booleans(), st.sampled_from([BODY, BODY[1:]])
        ),
        min_size=1,
        max_size=4,
    )
)
def test_whatever_happens_the_file_is_whole_or_not_there(server, runs):
    """Several calls, with and without a version mark; the file changes on the server, and its mark with it."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "file")
        for faults, marked, body in runs:
            server.faults, server.body = list(faults), body
            server.etag = f'"{len(body)}"' if marked else None
            target.unlink(missing_ok=True)
            try:
                assert download(server.url, target, **NO_PAUSE) == hashlib.sha256(body).hexdigest()
                assert target.read_bytes() == body
            except UserError:
                assert not target.exists()
        server.faults = []
        assert download(server.url, target, **NO_PAUSE) == hashlib.sha256(body).hexdigest()
        assert os.listdir(folder) == ["file"]


def test_wrong_hash_names_both_and_leaves_nothing(server, tmp_path):
    with pytest.raises(UserError, match=f"sha256={SHA}: expected sha256 {'0' * 64}") as error:
        download(server.url, tmp_path / "file", None, "0" * 64, **NO_PAUSE)
    assert not isinstance(error.value, DataUnavailable)
    assert list(tmp_path.iterdir()) == []


def test_unreachable_host_is_tried_twice(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    pauses = []
    with pytest.raises(DataUnavailable, match="the host cannot be reached"):
        download("http://127.0.0.1:9/file", tmp_path / "file", sleep=pauses.append)
    assert len(pauses) == 1


def toy(**changes):
    file = {"path": "a.bin", "sources": [{"mirror": "toy/a.bin", "bytes": len(BODY), "sha256": SHA}]}
    entry = {
        "title": "Toy",
        "home": "https://example.org",
        "licence": {"name": "ODC-BY", "url": "https://example.org/l", "notice": "Cite it."},
        "citation": "@misc{toy}",
        "reader": "npz",
        "files": [file],
        **changes,
    }
    return parse(json.dumps({"toy": entry}))["toy"]


@pytest.fixture
def use(monkeypatch):
    return lambda **changes: monkeypatch.setattr(fetch_module, "entry", lambda name: toy(**changes))


def put(mirror, content, name="toy/a.bin"):
    path = Path(mirror) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_from_the_first_mirror_that_has_it(use, tmp_path):
    use()
    (tmp_path / "empty").mkdir()
    put(tmp_path / "full", BODY)
    manifest = fetch_offline("toy", tmp_path / "raw", [tmp_path / "empty", tmp_path / "full"])
    assert manifest.status == "ok"
    assert manifest.files[0].sha256 == SHA
    assert manifest.files[0].source == "mirror:toy/a.bin"
    assert (tmp_path / "raw" / "a.bin").read_bytes() == BODY
    assert not (tmp_path / "raw" / "a.bin").is_symlink()
    assert read_manifest(tmp_path / "raw") == manifest
    assert (tmp_path / "raw" / "LICENSE.txt").read_text() == "ODC-BY\nhttps://example.org/l\nCite it.\n"
    assert (tmp_path / "raw" / "CITATION.bib").read_text() == "@misc{toy}"


@pytest.mark.parametrize("hard", [True, False])
def test_large_files_are_linked(use, tmp_path, monkeypatch, hard):
    use()
    monkeypatch.setattr(fetch_module, "COPY_BYTES", 10)
    if not hard:
        monkeypatch.setattr(fetch_module.os, "link", lambda *paths: (_ for _ in ()).throw(OSError))
    original = put(tmp_path / "m", BODY)
    fetch_offline("toy", tmp_path / "raw", [tmp_path / "m"])
    target = tmp_path / "raw" / "a.bin"
    assert target.samefile(original)
    assert target.is_symlink() == (not hard)


def test_missing_files_are_recorded_or_raised(use, tmp_path):
    use()
    manifest = fetch_offline("toy", tmp_path / "raw", [tmp_path])
    assert manifest.status == "unavailable"
    assert manifest.reason == "data not available: a.bin (in none of 1 mirrors)"
    with pytest.raises(DataUnavailable, match=r"data not available: a\.bin"):
        fetch_offline("toy", tmp_path / "raw2", [tmp_path], missing="fail")
    assert not (tmp_path / "raw2" / "manifest.json").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [(BODY[:-5], f"truncated, {len(BODY) - 5} bytes: expected {len(BODY)} bytes"), (BODY[::-1], "expected sha256")],
)
def test_a_damaged_mirror_file_is_an_error_not_unavailable(use, tmp_path, content, message):
    use()
    put(tmp_path / "m", content)
    with pytest.raises(UserError, match=message) as error:
        fetch_offline("toy", tmp_path / "raw", [tmp_path / "m"])
    assert not isinstance(error.value, DataUnavailable)
    assert "a.bin" in str(error.value)
    assert not (tmp_path / "raw" / "manifest.json").exists()


def test_url_after_mirrors(use, server, tmp_path):
    use(files=[{"path": "a.bin", "sources": [{"mirror": "toy/a.bin"}, {"url": server.url, "sha256": SHA}]}])
    manifest = fetch("toy", tmp_path / "raw", [tmp_path])
    assert manifest.files[0].source == server.url


def test_members_come_from_one_download_of_the_archive(use, server, tmp_path):
    with zipfile.ZipFile(tmp_path / "toy.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("toy/raw/a.csv", "toy/raw/b.csv", "toy/other"):
            archive.writestr(name, name * 100)
    server.body = (tmp_path / "toy.zip").read_bytes()
    use(
        archive={"url": server.url},
        files=[{"path": f"raw/{name}.csv", "member": f"toy/raw/{name}.csv"} for name in "ab"],
    )
    manifest = fetch("toy", tmp_path / "raw")
    assert len(server.ranges) == 1
    assert (tmp_path / "raw" / "raw" / "b.csv").read_text() == "toy/raw/b.csv" * 100
    assert manifest.files[0].source == f"{server.url}!toy/raw/a.csv"
    assert not (tmp_path / "raw" / "file").exists()
    assert not list((tmp_path / "raw").rglob("other"))
    assert fetch("toy", tmp_path / "raw").files == manifest.files  # kept, not fetched again
    assert len(server.ranges) == 1


def test_an_archive_that_a_killed_fetch_left_is_downloaded_again_only_if_it_may_be_damaged(use, server, tmp_path):
    with zipfile.ZipFile(tmp_path / "toy.zip", "w") as archive:
        archive.writestr("toy/a.csv", "a")
    server.body = (tmp_path / "toy.zip").read_bytes()
    digest = hashlib.sha256(server.body).hexdigest()
    for number, (left, known, requests) in enumerate([(server.body, digest, 0), (b"PK", digest, 1), (b"PK", None, 2)]):
        use(archive={"url": server.url, "sha256": known}, files=[{"path": "a.csv", "member": "toy/a.csv"}])
        raw = tmp_path / str(number)
        put(raw, left, "file")
        assert fetch("toy", raw).status == "ok"
        assert (raw / "a.csv").read_text() == "a"
        assert not (raw / "file").exists()
        assert len(server.ranges) == requests


def test_damaged_archive(use, tmp_path):
    put(tmp_path / "m", b"PK no archive", "toy.zip")
    use(archive={"mirror": "toy.zip"}, files=[{"path": "a.csv", "member": "toy/a.csv"}])
    with pytest.raises(UserError, match=r"toy\.zip: expected a whole zip archive with toy/a\.csv"):
        fetch_offline("toy", tmp_path / "raw", [tmp_path / "m"])


def test_a_damaged_member_is_an_error_and_leaves_nothing(use, tmp_path):
    """Damage in the middle of a deflated member, which zlib itself meets."""
    use(archive={"mirror": "toy.zip"}, files=[{"path": "a.csv", "member": "toy/a.csv"}])
    content = bytes(numpy_generator("member").integers(0, 64, 50_000, dtype=np.uint8))
    (tmp_path / "m").mkdir()
    with zipfile.ZipFile(tmp_path / "m/toy.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("toy/a.csv", content)
    whole = (tmp_path / "m/toy.zip").read_bytes()
    for place in range(200, len(whole) - 200, 2000):
        put(tmp_path / "m", whole[:place] + bytes(64) + whole[place + 64 :], "toy.zip")
        with pytest.raises(UserError, match=r"toy\.zip: expected a whole zip archive with toy/a\.csv, found damage \("):
            fetch_offline("toy", tmp_path / "raw", [tmp_path / "m"])
    assert os.listdir(tmp_path / "raw") == [LOCK]


def test_archive_without_the_member(use, tmp_path):
    (tmp_path / "m").mkdir()
    with zipfile.ZipFile(tmp_path / "m" / "toy.zip", "w") as archive:
        archive.writestr("b", "b")
    use(archive={"mirror": "toy.zip"}, files=[{"path": "a.csv", "member": "toy/a.csv"}])
    with pytest.raises(UserError, match=r"no member toy/a\.csv"):
        fetch_offline("toy", tmp_path / "raw", [tmp_path / "m"])


def test_a_file_changed_in_place_is_brought_again(use, tmp_path):
    use()
    put(tmp_path / "m", BODY)
    fetch_offline("toy", tmp_path / "raw", [tmp_path / "m"])
    (tmp_path / "raw" / "a.bin").write_bytes(b"damaged")
    fetch_offline("toy", tmp_path / "raw", [tmp_path / "m"])
    assert (tmp_path / "raw" / "a.bin").read_bytes() == BODY


def test_a_fetch_that_brings_nothing_leaves_the_manifest_as_it_was(use, tmp_path):
    use()
    put(tmp_path / "m", BODY)
    first = fetch_offline("toy", tmp_path / "raw", [tmp_path / "m"])
    write_manifest(first.model_copy(update={"time": "2000-01-01T00:00:00+00:00"}), tmp_path / "raw")
    content = (tmp_path / "raw/manifest.json").read_bytes()
    fetch_offline("toy", tmp_path / "raw", [tmp_path / "m"])
    assert (tmp_path / "raw/manifest.json").read_bytes() == content


def test_a_damaged_file_whose_hash_nobody_knows_is_not_taken_for_good_later(use, tmp_path):
    """Found damaged while the mirror was away; the next fetch has no manifest to compare with."""
    use(files=[{"path": "a.bin", "sources": [{"mirror": "toy/a.bin"}]}])
    put(tmp_path / "m", BODY)
    fetch_offline("toy", tmp_path / "raw", [tmp_path / "m"])
    (tmp_path / "raw" / "a.bin").write_bytes(b"damaged")
    with pytest.raises(DataUnavailable):
        fetch_offline("toy", tmp_path / "raw", missing="fail")
    assert fetch_offline("toy", tmp_path / "raw").status == "unavailable"
    assert fetch_offline("toy", tmp_path / "raw", [tmp_path / "m"]).status == "ok"
    assert (tmp_path / "raw" / "a.bin").read_bytes() == BODY


def test_an_unreachable_host_is_asked_for_one_file_only(use, tmp_path, monkeypatch):
    asked = []

    def refuse(url, *arguments):
        asked.append(url)
        raise DataUnavailable(f"{url}: the host cannot be reached")

    monkeypatch.setattr(fetch_module, "download", refuse)
    use(files=[{"path": name, "sources": [{"url": f"http://nowhere.invalid/{name}"}]} for name in "abc"])
    manifest = fetch("toy", tmp_path / "raw")
    assert asked == ["http://nowhere.invalid/a"]
    reason = "in none of 0 mirrors, nowhere.invalid: the host cannot be reached"
    assert manifest.reason == f"data not available: a, b, c ({reason})"


def test_mirrors_from_config_and_environment(tmp_path):
    found = mirrors_from(["/a", "/b"], {"DPGRAPH_MIRROR": "/b:/c:"})
    assert found == (Path("/a"), Path("/b"), Path("/c"))
    assert mirrors_from([], {}) == ()


def test_bad_arguments(tmp_path):
    with pytest.raises(UserError, match=r"^mirror=/no/such: expected a folder$"):
        fetch("cora", tmp_path, ["/no/such"])
    with pytest.raises(UserError, match=r"^dataset=kora: expected one of"):
        fetch("kora", tmp_path)


def test_import_reads_no_network_library():
    import subprocess
    import sys

    names = ("requests", "tenacity", "filelock", "torch")
    code = f"import sys, dpgraph.data.fetch; print(any(name in sys.modules for name in {names}))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"
