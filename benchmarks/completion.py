"""How long the Tab key takes after ``%sleeper``, in a warehouse of 10,000 tables.

``python -m benchmarks.completion [--tables 10000] [--rounds 30]``: medians of interleaved rounds of our own
matcher, and of the whole completion with IPython's matchers. The floor is one catalog query that returns all names.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from dataclasses import replace

import sleeper_nb as sl
from sleeper_nb.catalog.catalog_base import TableEntry

LINES = {
    "a command": "%sleeper ta",
    "an option": "%sleeper compact t_00042 --str",
    "a table, a thousand fit": "%sleeper describe t_01",
    "a table, all fit": "%sleeper describe ",
    "a table of SQL": "%%sleeper sql\nSELECT *\nFROM t_0004",
    "a column of SQL": "%%sleeper sql\nSELECT val\nFROM t_00042\nWHERE value > t_00042.val",
    "a version": "%sleeper files t_00042@",
    "not ours": "value = sorted(ran",
}


def filled(session: sl.Session, count: int) -> None:
    """Make the one table that is looked into, and only the catalog's rows of the others."""
    made = session.create_table("t_00042", sl.Schema({"key": "long"}, values={"value": "string"}))
    catalog, first = session._components.catalog, made.history()[0]
    for number in (number for number in range(count) if number != 42):
        name = f"t_{number:05}"
        catalog.create_table(TableEntry(f"id-{name}", name), replace(first, commit_id=f"{number:032}"))


def a_shell(folder: str):
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    os.environ["IPYTHONDIR"] = f"{folder}/ipython"
    shell = InteractiveShell.instance(config=Config(HistoryManager={"enabled": False}))
    shell.run_line_magic("load_ext", "sleeper_nb")
    return shell


def measured(shell, session, rounds: int) -> dict[str, list[tuple[float, float, int]]]:
    """Return for each line and round the milliseconds of our matcher and of the whole, and how many words it offers."""
    from IPython.core.completer import CompletionContext, provisionalcompleter

    matcher = shell.magics_manager.registry["SleeperMagics"].matcher
    found: dict[str, list[tuple[float, float, int]]] = {name: [] for name in ("floor", *LINES)}
    for _ in range(rounds):
        began = time.perf_counter()
        tables = session._components.catalog.tables()
        found["floor"].append((1000 * (time.perf_counter() - began), 0, len(tables)))
        for name, cell in LINES.items():
            lines = cell.split("\n")
            token = cell.split()[-1]
            context = CompletionContext(token, cell, len(lines[-1]), len(lines) - 1, 500)
            began = time.perf_counter()
            offered = matcher(context)["completions"]
            ours = time.perf_counter() - began
            with provisionalcompleter():
                list(shell.Completer.completions(cell, len(cell)))
            found[name].append((1000 * ours, 1000 * (time.perf_counter() - began - ours), len(offered)))
    return found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--tables", type=int, default=10_000)
    options.add_argument("--rounds", type=int, default=30)
    given = options.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        sl.connect(f"{folder}/w", properties={"sleeper.storage.sync": "false"}) as session,
    ):
        filled(session, given.tables)
        shell = a_shell(folder)
        shell.push({"session": session})
        shell.run_cell("opened = %sleeper use $session").raise_error()
        found = measured(shell, session, given.rounds)
    floor = statistics.median(time for time, _, _ in found.pop("floor"))
    print(f"{given.tables:,} tables, {given.rounds} rounds; all names from the catalog (floor) {floor:.1f} ms")
    for name, times in found.items():
        ours, whole = (statistics.median(column) for column in list(zip(*times, strict=True))[:2])
        most = max(time for time, _, _ in times)
        print(
            f"  {name:24} ours {ours:6.1f} ms, at most {most:6.1f}   ours / floor {ours / floor:5.2f}   "
            f"whole {whole:6.1f} ms   offers {times[0][2]:6,}"
        )


if __name__ == "__main__":
    main()
