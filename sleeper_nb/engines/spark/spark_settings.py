"""Settings of Spark: those of a session that is started here, and how those of an existing session differ."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sleeper_nb.engines.spark.jvm import is_local
from sleeper_nb.engines.spark.jvm_archive import ARCHIVE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PUSHDOWN: Final = "spark.sql.python.filterPushdown.enabled"
"""Lets comparisons reach data sources in Python; without it Spark refuses a reader that could take them."""

TIMES: Final = "spark.sql.timeType.enabled"
"""Lets Spark have columns of times of day, which Spark 4.3 refuses by default."""

CATALOG: Final = "spark.sql.catalog.spark_catalog"
CATALOG_CLASS: Final = "org.apache.spark.sql.connector.catalog.SleeperNamedTables"
"""The setting that makes a class Spark's session catalog, and the class that is ours (`named_tables`)."""

_WANTED: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # conditions on the ten days that the calendar of 1582 leaves out reach files as they are
    "spark.sql.datetime.java8API.enabled": "true",
}
_OURS_ONLY: Final = {ARCHIVE}
_LOGGED: Final = (
    "spark.master", "spark.driver.memory", ARCHIVE, "spark.sql.shuffle.partitions", "spark.local.dir", PUSHDOWN,
)  # fmt: skip
"""Settings whose values go into a log; of all others only the names, as a value may be a secret."""


def ignored_settings(session: SparkSession, config: Mapping[str, str]) -> tuple[str, ...]:
    """Return the settings in which an existing session differs from one that is started here with `config`."""
    wanted = {**_WANTED, **config}
    return tuple(name for name in wanted.keys() - _OURS_ONLY if session.conf.get(name, None) != wanted[name])


def own_settings(folder: Path, config: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a session that is started here, whose files are in `folder`; `config` overrides them."""
    conf = {
        "spark.app.name": "sleeper_nb",
        "spark.master": "local[*]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Spark's default is a folder in the current one.
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        PUSHDOWN: "true",
        TIMES: "true",
        # Loads hand rows to Python in batches, and Spark's default of 10,000 takes a fifth more CPU time.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
        **_WANTED,
    }
    if is_local(config.get("spark.master")):
        conf["spark.driver.host"] = conf["spark.driver.bindAddress"] = "127.0.0.1"
        # Spark's default of 200 is for clusters: each partition costs some milliseconds, even when empty.
        conf["spark.sql.shuffle.partitions"] = str(max(2, os.cpu_count() or 2))
    return {**conf, **config}


def logged_settings(conf: Mapping[str, str]) -> str:
    """Return settings for a log: some with their values, of all others only the names."""
    shown = [f"{name}={conf[name]}" for name in _LOGGED if name in conf]
    others = sorted(conf.keys() - set(_LOGGED))
    return ", ".join([*shown, *([f"and {' '.join(others)}"] if others else [])])
