"""What the Python workers of Spark have, as a small task on them finds: Python, packages, clock, keys and files."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sleeper_nb.storage.filesystem import Storage

PACKAGES: Final = ("sleeper_nb", "pyarrow", "datafusion", "duckdb", "boto3", "numpy")
"""What tasks import; the first one comes from this process, where a cluster takes it."""
_MOST_TASKS: Final = 32


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """What one worker has.

    Parameters
    ----------
    host
        The name of its machine.
    python
        Its version: ``"3.12"``.
    packages
        The version of each package that it can import; "" for one without a version.
    seconds
        Its clock: seconds since 1970, UTC.
    problem
        Why it cannot read the warehouse; "" when it can.
    """

    host: str
    python: str
    packages: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    problem: str = ""

    @property
    def missing(self) -> tuple[str, ...]:
        """The packages that it lacks."""
        return tuple(name for name in PACKAGES if name not in self.packages)


def looking(storage: Storage) -> Callable[[SparkSession], list[WorkerHealth]]:
    """Return an action of Spark that looks at its workers with a task for each core, at most 32.

    The task needs nothing of this package, so that it can say that the package is missing. It gets the warehouse
    without keys, as every task does.
    """
    look = _task(pickle.dumps(storage), "" if storage.access is not None else storage.root)

    def on(spark: SparkSession) -> list[WorkerHealth]:
        context = spark.sparkContext
        count = max(2, min(_MOST_TASKS, context.defaultParallelism))
        found: Sequence[dict[str, Any]] = context.parallelize(range(count), count).map(look).collect()
        by_worker = {(each["host"], each["python"]): each for each in found}
        return [WorkerHealth(**each) for _, each in sorted(by_worker.items())]

    return on


def _task(warehouse: bytes, folder: str) -> Callable[[int], dict[str, Any]]:
    """Return what a worker runs. It is pickled by value, so it imports by itself."""
    packages = PACKAGES

    def look(_: int) -> dict[str, Any]:
        import importlib
        import os
        import platform
        import sys
        import time

        found = {"host": platform.node(), "python": f"{sys.version_info[0]}.{sys.version_info[1]}", "problem": ""}
        versions = {}
        for name in packages:
            try:
                versions[name] = str(getattr(importlib.import_module(name), "__version__", ""))
            except Exception:  # noqa: BLE001, S112 - a package that does not load counts as missing
                continue
        if folder and not os.path.isdir(folder):  # noqa: PTH112 - a worker runs this alone
            found["problem"] = f"there is no folder {folder} on it"
        elif not folder and "sleeper_nb" in versions:
            try:
                pickle.loads(warehouse).folders()  # noqa: S301 - made by the driver
            except Exception as error:  # noqa: BLE001 - any reason is the answer
                found["problem"] = (str(error).splitlines() or [type(error).__name__])[0]
        return {**found, "packages": versions, "seconds": time.time()}  # noqa: TID251 - a worker has no injected clock

    return look
