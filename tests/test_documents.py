"""Pages for readers: their links lead somewhere, the papers are cited, the container's files exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    targets = [match[1] for match in LINK.finditer(page.read_text(encoding="utf-8"))]
    assert [t for t in targets if "://" not in t and not (page.parent / t).exists()] == []


def test_every_experiment_s_first_author_is_cited() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    names = {author["family-names"] for reference in cited["references"] for author in reference["authors"]}
    experiments = sorted((ROOT / "workflow" / "experiments").glob("*.yaml"))
    citations = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8"))["citation"] for path in experiments}
    assert experiments
    assert {
        stem: text
        for stem, text in citations.items()
        if not text.startswith("This project") and not any(name in text for name in names)
    } == {}


def test_container_copies_files_that_exist() -> None:
    lines = (ROOT / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = [name for line in lines if line.startswith("COPY ") for name in line.split()[1:-1]]
    assert copied
    assert [name for name in copied if not (ROOT / name).exists()] == []
