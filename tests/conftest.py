"""What all tests share: a small table, how hard Hypothesis tries, and the one Spark session of the test process."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

import sleeper_nb as sl
from sleeper_nb.clock import Clock, ManualClock
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.progress import Silent
from sleeper_nb.state_store.state_store_base import StateStore
from tests.support.backends import BACKENDS, Tables, stores
from tests.support.builders import START, a_store

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

pytest_plugins = ["tests.servers.fixtures"]

# A shell that starts the tests in the background has them ignore interrupts, which some of them are about.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "default",
    max_examples=5,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.data_too_large],
)
# what `.ci/run --long` tries; `tests.support.examples` has the tests that need more or fewer than others
settings.register_profile("long", settings.get_profile("default"), max_examples=25)
settings.register_profile("nightly", settings.get_profile("default"), max_examples=2000, stateful_step_count=60)
# for each of the two catalogs, so 2,000 in all
settings.register_profile("faults", settings.get_profile("default"), max_examples=1000, stateful_step_count=30)
settings.load_profile("default")

WORKERS = Path(__file__).parent / "support" / "spark_workers"
"""What each Python process of Spark imports at its start."""
_MEMORY = Path("/dev/shm")  # noqa: S108 - each run makes a folder of its own below it
_NEEDED_BYTES = 6 * 2**30


def pytest_configure(config: pytest.Config) -> None:
    """Keep the files of tests in memory where Linux offers it: a commit otherwise waits for the disk most of its time.

    They go when the run ends. To look at them afterwards, set ``TMPDIR``, which is used instead.
    """
    # Pytest forgets the fixtures of a folder's conftest when the arguments leave the folder and come back to it.
    config.args.sort()
    if "TMPDIR" not in os.environ and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _NEEDED_BYTES:
        os.environ["TMPDIR"] = tempfile.tempdir = tempfile.mkdtemp(prefix="sleeper-tests-", dir=_MEMORY)
        config.add_cleanup(partial(shutil.rmtree, tempfile.tempdir, ignore_errors=True))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the tests themselves, millions of objects, out of every later garbage collection, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.hookimpl(tryfirst=True)  # before the plugin of workers, which reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of a file to one worker of several (``-n``), and all that need Spark to one: it starts once.

    What asks for the fixture has the mark, so that no second JVM starts in another worker for want of it.
    """
    for item in items:
        if "spark_engine" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)
        group = "spark" if item.get_closest_marker("spark") else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))


@pytest.fixture(scope="session")
def spark_engine():
    engine = SparkRuntime(
        config={
            "spark.master": "local[2]",
            "spark.driver.memory": "1g",
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # the tests end before more would pay
            "spark.sleeper.archive": "false",  # to make one costs more than it saves at one start
            "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(WORKERS), str(WORKERS.parents[2])]),
        },
        clock=Clock(),
        progress=Silent(),
    )
    yield engine
    engine.stop()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(START)


@pytest.fixture
def session(tmp_path: Path) -> Iterator[sl.Session]:
    """A session on a new warehouse."""
    with sl.connect(tmp_path / "warehouse") as opened:
        yield opened


@pytest.fixture
def store(tmp_path: Path, clock: ManualClock) -> Iterator[StateStore]:
    """A table of the schema `builders.KEYED` with one leaf, without rows."""
    made = a_store(tmp_path, clock=clock)
    yield made
    made.catalog.close()


@pytest.fixture(params=stores("memory"))
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Tables:
    """Tables of each state store; those that need a server have its mark."""
    kind, backend = request.param
    return Tables(kind, BACKENDS[backend](tmp_path))


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[InteractiveShell]:
    """A real IPython shell with the magics loaded, in an empty folder."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("SLEEPER_PROGRESS", "off")
    monkeypatch.chdir(tmp_path)
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    made.run_line_magic("load_ext", "sleeper_nb")
    yield made
    made.run_line_magic("unload_ext", "sleeper_nb")
    InteractiveShell.clear_instance()
    atexit.unregister(made._atexit_once)  # each shell collects garbage there, which takes minutes for a thousand shells
