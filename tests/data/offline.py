"""`fetch` from mirrors alone."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from dpgraph.core.errors import DataUnavailable
from dpgraph.data.fetch import fetch
from dpgraph.data.manifest import Manifest


def fetch_offline(*arguments: Any, **options: Any) -> Manifest:
    """Call `fetch` on a machine that reaches no host."""
    refused = DataUnavailable("no host is reached")
    with (
        patch("dpgraph.data.fetch.download", side_effect=refused),
        patch("dpgraph.data.fetch.wheel_file", side_effect=refused),
    ):
        return fetch(*arguments, **options)
