"""The first rows of a scan are read from the files that can hold them, and are those that a whole read begins with."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.read import read_rows as reading

SCHEMA = sl.Schema(row_keys={"a": "string"}, sort_keys={"c": "int"}, values={"b": "int?"})


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the data files that are opened."""
    found: list[str] = []
    real = reading._frame

    def noted(context, filename, *others):
        found.append(filename)
        return real(context, filename, *others)

    monkeypatch.setattr(reading, "_frame", noted)
    return found


@pytest.mark.parametrize("count", [12, 40])
def test_the_first_rows_of_files_in_key_order_are_in_as_few_files_for_any_number(
    tmp_path: Path, opened: list[str], count: int
):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", SCHEMA)
        for i in range(count):
            table.ingest([{"a": f"{i:03} {part}", "c": 0, "b": i} for part in "xyz"])
        assert table.scan().head(7).column("b").to_pylist() == [0, 0, 0, 1, 1, 1, 2]
        assert len(opened) == 3
        opened.clear()
        assert f"first 10 of {3 * count} rows" in repr(table.describe())
        assert len(opened) == 4


def test_a_condition_may_need_every_file(tmp_path: Path, opened: list[str]):
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", SCHEMA)
        for i in range(12):
            table.ingest([{"a": f"{i:03}", "c": 0, "b": i}])
        assert table.scan(where="b > 10").head(1).column("b").to_pylist() == [11]
        assert table.scan(limit=3).head(5).column("b").to_pylist() == [0, 1, 2]


@pytest.mark.parametrize("seed", range(6))
def test_the_first_rows_are_those_of_a_whole_read(tmp_path: Path, opened: list[str], seed: int):
    chance = random.Random(seed)  # noqa: S311 - a test
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", SCHEMA)
        number = 0
        for step in range(24):
            if step in {9, 15} and seed % 2:
                table.maintenance.split(at=chance.choice("cdefg") + str(step))
            rows = []
            start = chance.randrange(100)
            for _ in range(chance.choice((1, 3, 20))):
                number += 1
                place = start + chance.randrange(chance.choice((1, 5, 60)))
                rows.append({"a": chr(97 + place // 20) + f"{place:03}", "c": number, "b": number})
            table.ingest(rows)
        whole = table.scan().to_arrow()
        regions = (None, "a=[b,e)")
        for count in (0, 1, 2, 10, 11, 50, whole.num_rows, whole.num_rows + 1):
            for region in regions:
                scan = table.scan(region=region)
                assert scan.head(count) == scan.to_arrow().slice(0, count)
        opened.clear()
        table.scan().head(1)
        assert len(set(opened)) < 24
