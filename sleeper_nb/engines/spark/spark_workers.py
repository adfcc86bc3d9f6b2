"""The Python workers of Spark: what they get from this process, and what they have, as a small task on them finds.

They get the package's own code, and where AWS is; never keys.

A machine of a cluster shares no folder with this process, and perhaps has another release of the package, or none. So
Spark hands a zip of the code to each of its Python workers, which import it before an installed release. The packages
that the code needs are compiled, and must be installed there.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
import tempfile
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.engines.spark.gateway import delete_with_jvm
from sleeper_nb.engines.spark.jvm import is_local
from sleeper_nb.model.checksums import checksum_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sleeper_nb.storage.filesystem import Storage


logger = logging.getLogger(__name__)

PACKAGE: Final = "sleeper_nb"
AWS_SETTINGS: Final = (
    "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_DYNAMODB",
)  # fmt: skip
"""The variables that say where AWS is. Those with keys, or the name of a profile, stay on this machine."""


def equip_workers(spark: SparkSession, environ: Mapping[str, str] = os.environ) -> None:
    """Hand the code and the settings to the workers of a cluster; those of a local Spark have them already.

    A cluster that takes no code is used as it is: its workers may have the package installed.
    """
    context = spark.sparkContext
    if is_local(context.master):
        return
    for name in AWS_SETTINGS:
        if name in environ:
            context.environment[name] = environ[name]
    if any(Path(url).name.startswith(f"{PACKAGE}-") for url in context.listFiles):
        return  # another session of this package was here before
    content = code_as_zip(Path(__file__).parents[2])
    if content is None:
        return
    folder = Path(tempfile.mkdtemp(prefix=f"{PACKAGE}-code-"))
    path = folder / f"{PACKAGE}-{checksum_of(content)}.zip"
    path.write_bytes(content)
    try:
        context.addPyFile(str(path))
        for left in (folder, path):  # the JVM deletes what was named last first
            delete_with_jvm(spark, left)
    except Exception:
        logger.warning("Spark did not take the package's code; its workers must have it installed", exc_info=True)
    else:
        logger.info("handed %d bytes of code to the workers of %s", len(content), context.master)


def code_as_zip(package: Path) -> bytes | None:
    """Return the modules of a package as a zip; None where its code is not in a folder."""
    if not package.is_dir():
        logger.warning("the code of %s is not in a folder; workers of the cluster must have it installed", package.name)
        return None
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as packed:
        for path in sorted(package.rglob("*.py")):
            name = zipfile.ZipInfo(
                path.relative_to(package.parent).as_posix()
            )  # without a time: the same code is the same zip
            packed.writestr(name, path.read_bytes(), zipfile.ZIP_DEFLATED)
    return stream.getvalue()


PACKAGES: Final = ("sleeper_nb", "pyarrow", "datafusion", "duckdb", "boto3", "numpy")
"""What tasks import; the first one comes from this process, where a cluster takes it."""
_MOST_TASKS: Final = 32


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """What one worker has.

    Parameters
    ----------
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
