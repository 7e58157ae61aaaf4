"""Verdicts as tests expect them."""

UNDECIDED = ("inconclusive", "underpowered")


def assert_not_run(row, reason: str) -> None:
    assert row["verdict"] == "not run"
    assert row["reason"].startswith(reason)
