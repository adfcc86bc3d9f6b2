"""Merges of sorted runs that are kept in a temporary file: every row once, in order, a bounded part in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.errors import StorageError
from sleeper_nb.load import sorted_runs
from sleeper_nb.load.sorted_runs import Run, Spool, ranges_of, sort_rows

NAMES = ["k", "n"]
MEMORY = 20_000


@pytest.fixture(autouse=True)
def small_pieces() -> Iterator[None]:
    """Pieces of 50 rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorted_runs, "PIECE_ROWS", 50)
        yield


def rows_of(count: int, keys: int, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    texts = [f"{number:x}" for number in random.integers(0, keys, count)]
    return pa.table({"k": texts, "n": random.integers(0, 2, count), "row": np.arange(count)})


def runs_of(spool: Spool, rows: pa.Table, size: int) -> list[Run]:
    return [spool.add(sort_rows(rows.slice(i, size), NAMES)) for i in range(0, rows.num_rows, size)]


def check(merged: list[pa.Table], rows: pa.Table) -> None:
    """The rows are those that were given, each once, and in order."""
    found = pa.concat_tables(merged)
    assert found.select(NAMES).combine_chunks().equals(sort_rows(rows, NAMES).select(NAMES))
    assert found.sort_by("row").equals(rows)


@pytest.mark.parametrize("keys", [1, 3, 200, 10**9])
@pytest.mark.parametrize("size", [150, 1_000, 30_000])
def test_every_row_is_merged_once_in_order_in_bounded_memory(keys: int, size: int) -> None:
    rows = rows_of(20_000, keys)
    with Spool(NAMES, MEMORY) as spool:
        runs = runs_of(spool, rows, size)
        merged = list(spool.merged(runs))
        check(merged, rows)
        piece = max(piece.bytes for run in runs for piece in run)
        of_runs = min(len(runs), sorted_runs._MOST_RUNS) * piece  # of each run less than a piece waits
        assert max(part.nbytes for part in merged) <= MEMORY + piece + of_runs
        assert len(merged) > 4


@pytest.mark.parametrize("keys", [1, 3, 200, 10**9])
def test_ranges_of_a_leaf_are_disjoint_and_have_all_rows(keys: int) -> None:
    rows = rows_of(20_000, keys)
    with Spool(NAMES, MEMORY) as spool:
        runs = runs_of(spool, rows, 700)
        parts = [list(spool.merged(runs, low, high)) for low, high in ranges_of(runs, 60_000)]
        check([table for part in parts for table in part], rows)
        assert len(parts) > 1
        assert all(sum(table.num_rows for table in part) for part in parts)


@given(st.lists(st.lists(st.tuples(st.text("ab\0é", max_size=3), st.integers(0, 1)), max_size=300), max_size=6))
def test_any_runs_are_merged(runs: list[list[tuple[str, int]]]) -> None:
    rows = [(*key, number) for number, key in enumerate(key for run in runs for key in run)]
    table = pa.table(list(zip(*rows, strict=True)) if rows else [[], [], []], names=[*NAMES, "row"])
    if not rows:
        return
    with Spool(NAMES, 1_000) as spool:
        begins = np.cumsum([0, *map(len, runs)])
        parts = [table.slice(begin, len(run)) for begin, run in zip(begins, runs, strict=False)]
        check(list(spool.merged([spool.add(sort_rows(part, NAMES)) for part in parts if part.num_rows])), table)


def test_nothing_is_left_in_the_temporary_folder_even_while_it_is_used(tmp_path: Path) -> None:
    with Spool(NAMES, MEMORY, str(tmp_path)) as spool:
        spool.add(sort_rows(rows_of(1_000, 50), NAMES))
        assert list(tmp_path.iterdir()) == []


def test_a_temporary_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with Spool(NAMES, MEMORY, str(tmp_path / "none")) as spool, pytest.raises(StorageError, match="none") as error:
        spool.add(rows_of(10, 5))
    assert "TMPDIR" in str(error.value.hint)


def test_a_full_disk_is_an_error_that_names_the_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    real = tempfile.TemporaryFile

    def full(*given: object, **named: object) -> object:
        file = real(*given, **named)  # type: ignore[call-overload]

        class Full:
            def write(self, _: object) -> None:
                raise OSError(28, "No space left on device")

            def __getattr__(self, name: str) -> object:
                return getattr(file, name)

        return Full()

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with Spool(NAMES, MEMORY) as spool, pytest.raises(StorageError, match="No space left"):
        spool.add(rows_of(10, 5))


def test_a_disk_that_is_full_when_the_file_is_closed_hides_no_error_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = tempfile.TemporaryFile

    def full(*given: object, **named: object) -> object:
        file = real(*given, **named)  # type: ignore[call-overload]

        class FullAtTheEnd:
            def close(self) -> None:
                file.close()
                raise OSError(28, "No space left on device")

            def __getattr__(self, name: str) -> object:
                return getattr(file, name)

        return FullAtTheEnd()

    monkeypatch.setattr(tempfile, "TemporaryFile", full)
    with Spool(NAMES, MEMORY) as spool:  # no OSError at its end
        spool.add(rows_of(10, 5))


@pytest.mark.parametrize("is_sorted", [False, True])
def test_many_runs_are_stored_about_twice_whatever_the_number_of_ranges(
    monkeypatch: pytest.MonkeyPatch, is_sorted: bool
) -> None:
    stored = []
    real = Spool.store

    def counted(self: Spool, content: pa.Buffer, rows: int, *others: object) -> object:
        stored.append(rows)
        return real(self, content, rows, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(Spool, "store", counted)
    rows = rows_of(20_000, 10**9)
    if is_sorted:  # many runs have no row of a range
        rows = sort_rows(rows, NAMES).set_column(2, "row", rows["row"])
    with Spool(NAMES, MEMORY) as spool:
        runs = runs_of(spool, rows, 200)
        ranges = ranges_of(runs, 60_000)
        check([table for low, high in ranges for table in spool.merged(runs, low, high)], rows)
    assert len(runs) > sorted_runs._MOST_RUNS
    assert len(ranges) > 5
    assert sum(stored) == 2 * rows.num_rows
