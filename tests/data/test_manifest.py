"""When the download rule looks again: its parameter changes only for what was unavailable."""

from dpgraph.data.manifest import Manifest, holds, mirrors_parameter, remember, write_manifest
from dpgraph.data.registry import Licence, registry


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


def test_a_mirror_holds_a_data_set_if_it_has_every_file_or_the_archive(tmp_path):
    known, (one, two) = registry(), (tmp_path / "one", tmp_path / "two")
    assert holds(known["demo-sbm"], [])  # generated: no files
    assert not holds(known["cora-ml"], [one, two])
    (two / "citation_full/cora_ml/raw").mkdir(parents=True)
    (two / "citation_full/cora_ml/raw/cora_ml.npz").touch()  # the second of its sources
    assert holds(known["cora-ml"], [one, two])
    (two / "svhn").mkdir()
    (two / "svhn/train_32x32.mat").touch()
    assert not holds(known["svhn"], [one, two])  # half of it
    (one / "reddit").mkdir(parents=True)
    (one / "reddit/reddit.zip").touch()
    assert holds(known["reddit"], [one, two])
