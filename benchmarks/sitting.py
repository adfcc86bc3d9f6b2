"""Run benchmarks one after the other, and write what they print to a page.

``python -m benchmarks.sitting [--only NAME …] [--seconds 900]`` writes ``benchmarks/SITTING.md``: for each program its
command, when it began, how fast the machine was, how long it took, and its output as it is. Programs that are not run
keep what they have on the page, so that it can be filled in several sittings. Nothing else should run on the machine
meanwhile. A program that fails, or takes longer than `--seconds`, is named as such, and the others go on.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).with_name("SITTING.md")
COMMANDS = (
    "million_files", "aggregates --rounds 15", "sql_overhead", "pruning --spark --rounds 40", "lookups",
    "s3_requests", "first_answer", "import_time",
    "appends", "contention --processes 1", "contention --processes 8", "contention --processes 32",
    "bulk_import --rows 20000000 --ways peer threads tasks",
    "bulk_import --rows 20000000 --shape skewed --ways peer threads tasks",
    "bulk_import --rows 20000000 --data query --ways peer tasks",
    "changing_rows --rows 10000000", "many_changes", "compaction --rounds 3 --spark", "ingest", "add_files",
    "explorer --rounds 3", "views --rounds 3", "completion", "first_rows",
    "create_from_data --rows 1000000 5000000 --rounds 3", "many_leaves", "many_tables", "many_versions",
    "open_version", "version_clause", "savepoints --rounds 5", "spark_start --rounds 3",
    "streaming --rounds 3", "processing", "wide_tables", "changes", "file_checksums", "journeys",
    "bulk_import --rows 8000000 --ways threads threads-unmerged tasks tasks-unmerged",
    "bulk_import --rows 20000000 --ways threads-unmerged tasks-unmerged --memory 536870912",
    "end_to_end --rows 100000000",
)  # fmt: skip
"""What is run, in this order: the programs of this folder with their arguments."""
_SECTION = "\n## `python -m benchmarks."
_NOISE = re.compile(r"WARN|log4j|log level|incubator|^\s*$")
_REDRAWN = re.compile(r".*\r")


def run(command: str, seconds: float) -> tuple[str, str]:
    """Return what a program printed, and how it ended."""
    began = time.monotonic()
    try:
        done = subprocess.run([sys.executable, "-u", "-m", *f"benchmarks.{command}".split()], capture_output=True,
                              text=True, check=False, timeout=seconds, cwd=PAGE.parents[1])  # fmt: skip
        printed, ended = done.stdout, f"{time.monotonic() - began:.0f} s"
        if done.returncode:
            ended = f"failed: exit code {done.returncode}: {(done.stderr.strip().splitlines() or [''])[-1]}"
    except subprocess.TimeoutExpired as late:
        # what was captured is bytes here, whatever was asked for
        printed, ended = (late.stdout or b"").decode(), f"took more than {seconds:.0f} s, and was ended"
    lines = (_REDRAWN.sub("", line).rstrip() for line in printed.splitlines())
    return "\n".join(line for line in lines if not _NOISE.search(line)), ended


def additions() -> float:
    """Return the seconds that ten million additions in Python take: how fast the machine is just now."""
    began, total = time.perf_counter(), 0
    for number in range(10_000_000):
        total += number
    return time.perf_counter() - began


def section(command: str, seconds: float) -> str:
    """Run a program, and return its part of the page."""
    began, load, speed = datetime.now(UTC), os.getloadavg()[0], additions()
    text, ended = run(command, seconds)
    when = f"{began:%Y-%m-%d %H:%M} UTC, load {load:.1f}, ten million additions in Python {speed:.2f} s; {ended}"
    return f"{_SECTION}{command}`\n{when}\n```\n{text}\n```\n"


def sections() -> dict[str, str]:
    """Return the parts that the page has, by their commands."""
    parts = PAGE.read_text(encoding="utf-8").split(_SECTION)[1:] if PAGE.exists() else []
    return {part.partition("`")[0]: f"{_SECTION}{part}" for part in parts}


def page(found: dict[str, str]) -> str:
    """Return the page, in the order of `COMMANDS`."""
    head = (
        "# The newest figures\n"
        "<!-- `python -m benchmarks.sitting` writes this page; do not edit it -->\n"
        f"Programs that ran one after the other, with {os.cpu_count()} cores and Python {platform.python_version()}. "
        "Compare seconds only where the additions take as long.\n"
        "[README.md](README.md) says what each compares, and the goals.\n"
    )
    return head + "".join(found[command] for command in COMMANDS if command in found)


def main() -> None:
    """Run what is wanted; the page is written after each program."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", nargs="+", default=[])
    options.add_argument("--seconds", type=float, default=900)
    given = options.parse_args()
    found = sections()
    for command in COMMANDS:
        if not given.only or command.split()[0] in given.only:
            print(f"{datetime.now(UTC):%H:%M:%S} {command}", flush=True)
            found[command] = section(command, given.seconds)
            PAGE.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
