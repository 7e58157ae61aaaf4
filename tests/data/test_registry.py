import importlib
import inspect

import pytest

from dpgraph.core.errors import UserError
from dpgraph.data.readers import read
from dpgraph.data.registry import READERS, DatasetEntry, entry, parse, registry

MINIMAL = """
toy:
  title: Toy
  home: https://example.org
  licence: {name: MIT}
  citation: none
  reader: npz
  options: {file: toy.npz, directed: false}
"""


def test_known_data_sets():
    names = (
        "cora citeseer pubmed cora-ml coauthor-cs ogbn-arxiv ogbn-arxiv-text ogbn-arxiv-text-half ogbn-products "
        "ogbn-mag reddit reddit-saint pokec demo-sbm"
    )
    assert set(names.split()) <= set(registry())


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(UserError, match=r"^dataset=coar: expected one of .*cora, .*pubmed"):
        entry("coar")


@pytest.mark.parametrize("name", sorted(registry()))
def test_entries_are_complete(name):
    known = registry()[name]
    function = importlib.import_module(f"dpgraph.data.readers.{known.reader}").read
    inspect.signature(function).bind(None, **known.options)
    assert known.reader in READERS
    assert known.citation.lstrip().startswith("@")
    assert known.expected.nodes or known.expected.classes or known.variant_of
    assert known.variant_of is None or known.variant_of in registry()
    assert len({file.path for file in known.files}) == len(known.files)
    if known.expected.split and known.expected.features:
        assert sum(known.expected.split) <= known.expected.nodes


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("  sise: 3\n", "toy.sise: Extra inputs are not permitted"),
        ("  files: [{path: a}]\n", "files.a: expected sources, or a member"),
        ("  files: [{path: a, member: b/a}]\n", "files.a: expected an archive for member b/a"),
        ("  files: [{path: ../a, sources: [{mirror: a}]}]\n", "expected a relative path without .."),
        ("  files: [{path: a, sources: [{mirror: /etc/a}]}]\n", "expected a relative path without .."),
        ("  files: [{path: a, sources: [{sha256: 12, url: 'http://x/y'}]}]\n", "sha256"),
        ("  files: [{path: a, sources: [{bytes: 1}]}]\n", "expected mirror, url or both"),
        ("  kind: image\n", "toy.kind"),
        pytest.param(
            "  reader: npy\n",
            "toy.reader: 'npy': expected a Python file (.py), or one of arxiv_text, ",
            id="reader",
        ),
        ("  reader: ''\n", "toy.reader: '': expected a Python file"),
    ],
)
def test_malformed_registry(extra, message):
    kept = MINIMAL.replace("  reader: npz\n", "") if "reader:" in extra else MINIMAL
    with pytest.raises(UserError) as error:
        parse(kept + extra)
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_wrong_reader_options_are_named(tmp_path):
    known = parse(MINIMAL)["toy"]
    with pytest.raises(UserError, match="options of reader npz: missing a required argument: 'file'"):
        read(known.model_copy(update={"options": {"fil": "toy.npz"}}), tmp_path)


def test_entries_are_immutable():
    with pytest.raises(ValueError, match="frozen"):
        entry("cora").title = "x"  # type: ignore[misc]
    assert isinstance(entry("cora"), DatasetEntry)
