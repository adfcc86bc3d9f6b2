"""What the magics take of a shell they give back, and a thousand commands leave it as large as it was."""

from __future__ import annotations

import gc
import threading
from collections import Counter
from pathlib import Path
from weakref import ReferenceType

import pytest
from IPython.core.completer import context_matcher, provisionalcompleter
from IPython.utils.capture import capture_output

from magics.sleeper import NAME

ROWS = [{"k": "a", "v": 1}, {"k": "z", "v": 2}]
MADE = ("%sleeper use ./warehouse", "%%sleeper create t --splits m\nk STRING KEY\nv INT", "%sleeper ingest t $rows")
QUICK = (
    *("%sleeper describe t", "x = %sleeper files t@2", "%sleeper help compact", "%sleeper use warehouse"),
    *("%sleeper history t", "%sleeper partitions t", "%sleeper tables", "%sleeper describe nothing"),
)
READS = (
    *("%sleeper scan t a", "%sleeper scan t --limit 1"),
    "%sleeper sql --engine duckdb SELECT sum(v) FROM t WHERE v < :least",
)
FEW = 10
"""A cache that fills, or a pool that starts a thread, may add this many; a leak would add one for each command."""


class Others:
    """What another package has put into a shell, and a fresh shell has: each hook, object by object."""

    def __init__(self, shell) -> None:
        manager, completer = shell.magics_manager, shell.Completer
        events = {f"on {name}": list(calls) for name, calls in shell.events.callbacks.items()}
        formatters = {
            f"{kind} {place}": dict(getattr(formatter, place))
            for kind, formatter in shell.display_formatter.formatters.items()
            for place in ("singleton_printers", "type_printers", "deferred_printers")
        }
        self.held = {
            **events,
            **formatters,
            **{name: dict(found) for name, found in manager.magics.items()},
            "registry": dict(manager.registry),
            "matchers": list(completer.custom_matchers),
            "all matchers": [getattr(matcher, "__func__", matcher) for matcher in completer.matchers],
            "configurables": list(shell.configurables),
            "transforms": [*shell.input_transformers_cleanup, *shell.input_transformers_post, *shell.ast_transformers],
            "hooks": {name: getattr(shell.hooks, name) for name in shell.hooks},
            "names": {name for name in shell.user_ns if not name.startswith("_")},
            "exceptions": [shell.custom_exceptions, shell.CustomTB],
            "shell": [shell.display_formatter, completer, shell.displayhook, shell.display_pub],
        }

    def changed(self, other: Others) -> list[str]:
        """Return where another look finds other objects; one that only calls itself equal is another."""
        return [name for name in {**self.held, **other.held} if not self._same(name, other)]

    def _same(self, name, other):
        ones, others = self.held.get(name), other.held.get(name)
        if isinstance(ones, dict) and isinstance(others, dict):
            return ones.keys() == others.keys() and all(ones[key] is others[key] for key in ones)
        if isinstance(ones, list) and isinstance(others, list):
            return len(ones) == len(others) and all(one is two for one, two in zip(ones, others, strict=True))
        return ones == others


class Equal:
    """A matcher of another package, which calls itself equal to anything."""

    def __eq__(self, other):
        return True

    __hash__ = object.__hash__


@pytest.fixture
def bare(shell):
    """A shell without the magics, in which another package has its own hooks."""
    shell.run_line_magic("unload_ext", "sleeper_nb")

    @context_matcher(identifier="another")
    def another(context):
        return {"completions": []}

    shell.Completer.custom_matchers.append(another)
    shell.display_formatter.formatters["text/html"].for_type(Equal, lambda _: "<i>mine</i>")
    shell.events.register("pre_run_cell", lambda _: None)
    shell.configurables.append(Equal())
    return shell


def run(shell, *cells):
    with capture_output():
        return [shell.run_cell(cell) for cell in cells]


def test_unloading_removes_every_hook_and_touches_none_of_others(bare):
    before, threads = Others(bare), {*threading.enumerate()}
    bare.run_line_magic("load_ext", "sleeper_nb")
    loaded = Others(bare)
    hooks = {"line", "cell", "registry", "matchers", "all matchers", "configurables", "transforms"}
    assert set(before.changed(loaded)) == hooks
    bare.push({"rows": ROWS, "least": 5})
    for answer in run(bare, *MADE, *QUICK[:-1], *READS, "%sleeper explore t", "%sleeper timeline t"):
        answer.raise_error()
    with provisionalcompleter():
        list(bare.Completer.completions("%sleeper describe ", 18))
    bare.run_line_magic("unload_ext", "sleeper_nb")
    bare.drop_by_id({name: bare.user_ns[name] for name in ("rows", "least", "x")})
    assert before.changed(Others(bare)) == []
    left = {one.name for one in {*threading.enumerate()} - threads if one.name.startswith("sleeper")}
    assert left <= {"sleeper-duckdb"}  # it is the process's, and starts with its first query


def test_reloading_changes_nothing(bare):
    bare.run_line_magic("load_ext", "sleeper_nb")
    before = Others(bare)
    for name in ("load_ext", "load_ext"):
        bare.run_line_magic(name, "sleeper_nb")
        assert before.changed(Others(bare)) == []
    for _ in range(3):
        bare.run_line_magic("reload_ext", "sleeper_nb")
    after = Others(bare)
    assert {name: len(found) for name, found in before.held.items()} == {n: len(f) for n, f in after.held.items()}
    assert [type(one).__name__ for one in after.held["configurables"]].count(NAME) == 1


def size(shell) -> Counter[str]:
    """Count what a process holds: the objects that the collector follows by type, threads, and open files."""
    shell.history_manager.outputs.clear()  # IPython keeps what each cell has shown
    gc.collect()
    # dead references are left out: a connection of sqlite3 keeps those to its last 200 cursors
    held = (one for one in gc.get_objects() if not (type(one) is ReferenceType and one() is None))
    counts = Counter(type(one).__qualname__ for one in held)
    counts["a thread"] = threading.active_count()
    counts["an open file"] = sum(1 for _ in Path("/proc/self/fd").iterdir())
    return counts


@pytest.mark.processes
def test_a_thousand_commands_leave_nothing_behind(shell):
    shell.push({"rows": ROWS, "least": 5})
    run(shell, *MADE, *READS * 2, *QUICK * 2)  # caches are filled, modules are loaded
    before = size(shell)
    run(shell, *READS * 20, *QUICK * 118)
    grown = size(shell) - before  # what has become less is left out: threads of earlier tests end when they may
    assert {name: more for name, more in grown.items() if more > FEW} == {}
