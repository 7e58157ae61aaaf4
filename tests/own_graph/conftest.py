import pytest

from dpgraph.own_graph import audited


@pytest.fixture(autouse=True)
def quick_audits(monkeypatch):
    """Seconds for each process that fits: test_audited has them as they are."""
    monkeypatch.setattr(audited, "STEPS", ())
    monkeypatch.setattr(audited, "VOTES", (("lists", 4),))
    monkeypatch.setattr(audited, "MEAN", (("lists", 4),))
    monkeypatch.setattr(audited, "READERS", (("lists", 4),))
    monkeypatch.setattr(audited, "REMOVED", (("lists", 4),))
    monkeypatch.setattr(audited, "CANARIES", (("lists", 4),))
    monkeypatch.setattr(audited, "DRAWS", 4)
