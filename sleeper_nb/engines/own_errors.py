"""Errors of an engine that a user's own program met, as ours."""

from __future__ import annotations

import sys

from sleeper_nb.errors import SleeperError


def own_error(error: Exception) -> SleeperError | None:
    """Return an engine's own error as a `SleeperError`; None for any other."""
    if "pyspark" not in sys.modules:  # nothing of it can have failed
        return None
    from sleeper_nb.engines.spark.spark_errors import explain

    return explain(error)
