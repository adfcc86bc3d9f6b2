"""Runs the tests of what changed, the nearest first: ``python -m tests.affected [--since REV] [--minutes 3]``.

What changed are the files that differ from a revision (``HEAD`` unless you name one), with those that git does not know
yet. The tests of a changed module are those in the folder of its name, those that name its file with its folder, and
those that import it, directly or through the layers above it, by the import graph; the contracts and the house tests
always run. Tests start in the order of their distance until the minutes are over. The end of the output says what was
left out: `.ci/run` runs it.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import grimp
import pytest

ROOT: Final = Path(__file__).parents[1]
PACKAGES: Final = ("sleeper_nb", "magics", "tests", "benchmarks", "docs")
ALWAYS: Final = ("contracts", "house")
ALWAYS_DISTANCE: Final = 2  # after the tests of the module and of those that import it
_UNTIL: Final = "SLEEPER_TESTS_UNTIL"  # the moment of the monotonic clock after which no test starts
_NEAREST_FIRST: Final = "SLEEPER_TESTS_NEAREST_FIRST"
_LATE: Final = "left out: the minutes are over"


def main(argv: list[str] | None = None) -> int:
    """Choose the test files, say which and what is left out, and run them; return pytest's exit code."""
    options = argparse.ArgumentParser(prog="python -m tests.affected", description=__doc__.partition("\n")[0])
    options.add_argument("--since", default="HEAD", metavar="REV", help="compare with this revision (default: HEAD)")
    options.add_argument("--minutes", type=float, default=3, help="start no test after so many minutes (default: 3)")
    options.add_argument("--spark", action="store_true", help="also Spark's tests; a change of engines/spark has them")
    given = options.parse_args(argv)
    changed = changed_files(given.since)
    chosen = by_distance(changed)
    with_spark = given.spark or any(path.startswith("sleeper_nb/engines/spark/") for path in changed)
    print(f"{len(changed)} files changed since {given.since}; {len(chosen)} test files, the nearest first")
    marks = ["browser", "servers", "moto", "processes", "long", *([] if with_spark else ["spark"])]
    print(f"left out: the markers {', '.join(marks)}; notebooks; {_other_files(chosen)} other test files")
    command = [
        sys.executable, "-m", "pytest", "-q", "-n", "auto", "--dist", "loadgroup", "--no-loadscope-reorder",
        "-p", "tests.affected", "-m", " and ".join(f"not {mark}" for mark in marks), *chosen,
    ]  # fmt: skip
    until = time.monotonic() + 60 * given.minutes
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {_UNTIL: str(until), _NEAREST_FIRST: os.pathsep.join(chosen), "PYTHONPATH": path}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def changed_files(since: str) -> list[str]:
    """Return the files that differ from a revision, also those that are new, as paths from the project's root."""
    asked = (["diff", "--name-only", since, "--"], ["ls-files", "--others", "--exclude-standard"])
    answers = [subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True) for words in asked]
    return sorted({line for answer in answers for line in answer.stdout.splitlines()})


def by_distance(changed: Iterable[str]) -> list[str]:
    """Return the test files that a change concerns, the nearest first."""
    distances = dict(_distances(changed))
    for folder in ALWAYS:
        for path in _tests_in(folder):
            distances[path] = min(distances.get(path, ALWAYS_DISTANCE), ALWAYS_DISTANCE)
    return sorted(distances, key=lambda path: (distances[path], path))


def _distances(changed: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yield test files with how far they are from the change, farthest first, so that a nearer one replaces it."""
    changed = list(changed)
    graph = grimp.build_graph(*PACKAGES, include_external_packages=False)
    rings = [{name for name in map(_module, changed) if name in graph.modules}]
    seen = set(rings[0])
    while rings[-1]:
        # The package's root hands out every public name: what imports it is concerned by any change.
        above = (graph.find_modules_that_directly_import(name) for name in rings[-1] - {"sleeper_nb"})
        rings.append({name for names in above for name in names} - seen)
        seen |= rings[-1]
    for distance, names in reversed(list(enumerate(rings))):
        yield from ((path, distance) for path in map(_path, names) if Path(path).name.startswith("test_"))
    texts = {path: (ROOT / path).read_text(encoding="utf-8") for path in _all_tests()}
    for path in map(Path, changed):
        if path.parts[0] == "sleeper_nb":
            yield from ((test, 1) for test in _tests_in(_folder_of_tests(path)))
        yield from ((test, 0) for test, text in texts.items() if "/".join(path.parts[-2:]) in text)


def _module(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _path(module: str) -> str:
    return f"{module.replace('.', '/')}.py"


def _folder_of_tests(path: Path) -> Path:
    """Return the folder below `tests` of a module's folder, or of the nearest folder above that has one."""
    folders = (path.relative_to("sleeper_nb").parent, *path.relative_to("sleeper_nb").parent.parents)
    return next((folder for folder in folders if (ROOT / "tests" / folder).is_dir()), Path())


def _tests_in(folder: str | Path) -> list[str]:
    return _relative((ROOT / "tests" / folder).glob("test_*.py"))


def _all_tests() -> list[str]:
    return _relative((ROOT / "tests").rglob("test_*.py"))


def _relative(paths: Iterable[Path]) -> list[str]:
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


def _other_files(chosen: list[str]) -> int:
    return len(set(_all_tests()) - set(chosen))


# What follows is the plugin that this module is in the processes of pytest.


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the nearest tests first again: pytest collects the files in the order of their paths."""
    places = {path: place for place, path in enumerate(os.environ[_NEAREST_FIRST].split(os.pathsep))}
    items.sort(key=lambda item: places[item.path.relative_to(ROOT).as_posix()])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Start no test after the minutes are over."""
    if time.monotonic() > float(os.environ.get(_UNTIL, "inf")):
        pytest.skip(_LATE)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say in which folders tests did not start in time."""
    skipped = terminalreporter.stats.get("skipped", [])
    late = {Path(report.nodeid.partition("::")[0]) for report in skipped if _LATE in str(report.longrepr)}
    if late:
        terminalreporter.section("not started, or not to the end, as the minutes are over")
        for folder, count in sorted(Counter(path.parent for path in late).items()):
            terminalreporter.write_line(f"{folder.as_posix()}: {count} files")


if __name__ == "__main__":
    sys.exit(main())
