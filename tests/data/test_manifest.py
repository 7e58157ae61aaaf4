"""When the download rule looks again: its parameter changes only for what was unavailable."""

from dpgraph.data.manifest import Manifest, mirrors_parameter, remember, write_manifest
from dpgraph.data.registry import Licence


def manifest(status):
    return Manifest(dataset="cora", status=status, licence=Licence(name="x"), citation="", time="now")


def test_parameter(tmp_path):
    assert mirrors_parameter(tmp_path, ["/a", "/b"]) == "/a:/b"  # never fetched
    write_manifest(manifest("unavailable"), tmp_path)
    remember(tmp_path, ["/a"])
    assert mirrors_parameter(tmp_path, ["/a"]) == "/a"
    assert mirrors_parameter(tmp_path, ["/b"]) == "/b"
    write_manifest(manifest("ok"), tmp_path)
    assert mirrors_parameter(tmp_path, ["/b"]) == "/a"  # a good copy stays
    assert mirrors_parameter(tmp_path, []) == "/a"
    (tmp_path / "manifest.json").write_text("{")
    assert mirrors_parameter(tmp_path, ["/b"]) == "/b"
