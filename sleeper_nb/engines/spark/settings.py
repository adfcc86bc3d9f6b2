"""Settings of Spark: what a session of our own has, and what one that was there before has otherwise."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sleeper_nb.engines.spark.jvm import JIT, is_local
from sleeper_nb.engines.spark.jvm_archive import ARCHIVE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
"""Lets comparisons reach data sources in Python; Spark refuses a reader that could take them without it."""

_WANTED: Final = {"spark.sql.session.timeZone": "UTC", "spark.sql.execution.arrow.pyspark.enabled": "true"}
_OURS_ONLY: Final = {JIT, ARCHIVE}


@dataclass(frozen=True, slots=True)
class IgnoredSetting:
    """A setting that was wanted, and that a session which was there before has otherwise.

    Parameters
    ----------
    name
        The setting: ``"spark.sql.session.timeZone"``.
    wanted
        The value that our own session would have.
    actual
        The value that the session has; None when it has none.
    """

    name: str
    wanted: str
    actual: str | None

    def __str__(self) -> str:
        return f"{self.name}={self.wanted} (the session has {self.actual})"


def ignored_settings(session: SparkSession, config: Mapping[str, str]) -> tuple[IgnoredSetting, ...]:
    """Return what a session that was there before has otherwise than one of our own with some settings."""
    ignored = []
    for name, wanted in {**_WANTED, **config}.items():
        actual = session.conf.get(name, None)
        if actual != wanted and name not in _OURS_ONLY:
            ignored.append(IgnoredSetting(name, wanted, actual))
    return tuple(ignored)


def own_settings(folder: Path, config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session of our own, whose files are in a folder; what is given counts before them."""
    conf = {
        "spark.app.name": "sleeper_nb",
        "spark.master": "local[*]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark's default would be a folder in the current one.
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        PUSHDOWN: "true",
        **_WANTED,
    }
    if is_local(config.get("spark.master")):
        conf["spark.driver.host"] = conf["spark.driver.bindAddress"] = "127.0.0.1"
        # 200, Spark's default, is for clusters: each costs some milliseconds, even when empty.
        conf["spark.sql.shuffle.partitions"] = str(max(2, os.cpu_count() or 2))
    return {**conf, **config}
