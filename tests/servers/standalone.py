"""A standalone cluster of Spark on this machine, whose workers share nothing with the driver but the network.

Each worker has a working folder, a home and a temporary folder of its own, no ``PYTHONPATH``, and a Python in which
this package is not installed; of the environment it has only what it is given. Master and workers can be killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping
from pathlib import Path
from subprocess import STDOUT

from sleeper_nb.engines.spark.jvm import find_java, spark_home
from tests.servers.server import answers, free_port, running

_KEPT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH")
LIGHT_JVM = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""A JVM that ends within a minute costs half with these: what it would compile better, or clean at once, never pays."""


class Standalone:
    """A master, and workers that are started and killed by name.

    Parameters
    ----------
    folder
        Where logs and the workers' folders are.
    stack
        Ends the processes.
    environment
        What the workers have besides `_KEPT`, such as keys; the whole environment of this process when None.
    """

    def __init__(self, folder: Path, stack: contextlib.ExitStack, environment: Mapping[str, str] | None = None) -> None:
        self.folder, self._stack, self._environment = folder, stack, environment
        self.port = free_port()
        self.master = f"spark://127.0.0.1:{self.port}"
        self.workers: dict[str, subprocess.Popen[str]] = {}
        words = ("--host", "127.0.0.1", "--port", str(self.port))
        self.process = self._start("master", "master.Master", words, folder, dict(os.environ))
        assert answers(self.process, self.port), self.log("master")

    def spark_config(self, python: Path, executor_memory: str) -> dict[str, str]:
        """Return what a session needs to use the cluster, with the Python of its workers."""
        light = " ".join(LIGHT_JVM)
        return {
            "spark.master": self.master, "spark.driver.host": "127.0.0.1", "spark.executor.memory": executor_memory,
            "spark.pyspark.python": str(python), "spark.sleeper.archive": "false",
            "spark.driver.extraJavaOptions": light, "spark.executor.extraJavaOptions": light,
        }  # fmt: skip

    def log(self, name: str) -> str:
        """Return the end of a process's log."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]

    def start_worker(self, name: str, *, cores: int = 1, memory: str = "1g") -> None:
        """Start a worker, or start it again."""
        home = self.folder / name
        for part in (home, home / "home", home / "tmp"):
            part.mkdir(exist_ok=True)
        work = ("--cores", str(cores), "--memory", memory, "--work-dir", str(home / "work"))
        own = dict(os.environ)
        if self._environment is not None:
            own = {key: os.environ[key] for key in _KEPT if key in os.environ} | dict(self._environment)
            own |= {"HOME": str(home / "home"), "TMPDIR": str(home / "tmp"), "SPARK_LOCAL_DIRS": str(home / "tmp")}
        words = ("--host", "127.0.0.1", *work, self.master)
        self.workers[name] = self._start(name, "worker.Worker", words, home, own)

    def kill_worker(self, name: str) -> None:
        """Kill a worker with its executors and their Python processes, as a machine that loses power."""
        process = self.workers.pop(name)
        for each in (process.pid, *_descendants(process.pid)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)
        process.wait()

    def _start(
        self, name: str, kind: str, words: tuple[str, ...], where: Path, environment: dict[str, str]
    ) -> subprocess.Popen[str]:
        log = self._stack.enter_context((self.folder / f"{name}.log").open("ab"))
        temporary = environment.get("TMPDIR")
        command: list[str | Path] = [
            find_java().path, "-Xmx256m", *LIGHT_JVM, *([f"-Djava.io.tmpdir={temporary}"] if temporary else []),
            "-cp", f"{spark_home()}/jars/*", f"org.apache.spark.deploy.{kind}", "--webui-port", "0", *words,
        ]  # fmt: skip
        spark = {"SPARK_HOME": str(spark_home()), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SCALA_VERSION": "2.13"}
        return self._stack.enter_context(
            running(command, stdout=log, stderr=STDOUT, env={**environment, **spark}, cwd=where)
        )


def _descendants(parent: int) -> list[int]:
    """Return the ids of the processes below one."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                children.setdefault(int(fields[1]), []).append(int(folder.name))
    found, left = [], [parent]
    while left:
        below = children.get(left.pop(), [])
        found += below
        left += below
    return found


def bare_python(folder: Path) -> Path:
    """Make a Python that has the packages of this one, but not this package; return its program."""
    venv.create(folder, symlinks=True, with_pip=False)
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    # a folder that a .pth file names is searched, but its own .pth files, such as of editable installs, are not read
    (site / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin" / "python"
