"""Rows that do not fit are kept back in a file with their reasons, and the others are loaded; both or neither."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

import sleeper_nb as sl
from sleeper_nb.errors import AlreadyExists, ConflictError, InvalidInput, OutcomeUnknown
from sleeper_nb.state_store.state_store_base import StateStore

DDL = "id INT KEY, n INT, fare DOUBLE NULL, CHECK (fare >= 0), CHECK (n < fare OR n < 100)"
COLUMNS = {
    "id": [1, 2, 3, None, 5, 6],
    "n": ["10", "x", None, "1", "200", "7"],
    "fare": [1.5, 2.5, -1.0, 0.5, 3.5, None],
}
WRONG = {
    2: ["column 'n': 'x' is not a number"],
    3: ["column 'n' is NULL", "check 'check_1' (fare >= 0) fails for fare = -1.0"],
    4: ["column 'id' is NULL"],
    5: ["check 'check_2' (n < fare OR n < 100) fails for n = 200, fare = 3.5"],
}


@pytest.fixture
def table(session: sl.Session) -> sl.Table:
    return session.create_table("t", sl.Schema.from_ddl(DDL), [4])


def source(name: str, columns: dict[str, list[Any]], folder: Path) -> Any:
    """Return columns as one of the things that a load takes."""
    arrow = pa.table(columns)
    if name == "rows":
        return arrow.to_pylist()
    if name == "arrow":
        return arrow
    if name == "reader":
        return arrow.to_reader(2)
    if name == "pandas":
        return pd.DataFrame(columns, dtype=object)
    if name == "polars":
        return pl.from_arrow(arrow)
    path = folder / name
    if name.endswith(".json"):
        lines = [json.dumps(row) for row in arrow.to_pylist()]
        path.write_text("\n".join(lines) if name == "lines.json" else f"[{','.join(lines)}]")
    elif name.endswith(".csv"):
        pd.DataFrame(columns, dtype=object).to_csv(path, index=False)
    elif name.endswith(".xlsx"):
        pd.DataFrame(columns, dtype=object).to_excel(path, index=False)
    else:
        parquet.write_table(arrow, path, row_group_size=2)
    return path


MEMORY = ["rows", "arrow", "reader", "pandas", "polars"]
FILES = ["lines.json", "array.json", "x.csv", "x.parquet", "x.xlsx"]


def ids(table: sl.Table) -> list[int]:
    return table.scan(["id"]).to_arrow()["id"].to_pylist()


def kept(path: Path) -> list[dict[str, Any]]:
    return parquet.read_table(path).to_pylist()


@pytest.mark.parametrize("name", [*MEMORY, *FILES])
def test_bad_rows_are_kept_back_with_all_reasons_and_the_others_are_loaded(table, tmp_path, name):
    data, bad = source(name, COLUMNS, tmp_path), tmp_path / "bad.parquet"
    loaded = table.ingest(data, quarantine=bad)
    assert ids(table) == [1, 6]
    assert (loaded.snapshot_id, loaded.kept_back, loaded.quarantine) == (2, 4, str(bad))
    rows = kept(bad)
    assert [row["_reason"].split("; ") for row in rows] == list(WRONG.values())
    assert [row["_file"] for row in rows] == [str(data) if isinstance(data, Path) else None] * 4
    first = {"x.csv": 3, "lines.json": 2, "array.json": 1, "x.xlsx": 3}.get(name, 2)
    assert [row["_row"] for row in rows] == ([1] * 4 if name == "array.json" else list(range(first, first + 4)))
    assert [None if row["id"] is None else int(row["id"]) for row in rows] == [2, 3, None, 5]
    assert [row["n"] for row in rows] == ["x", None, "1", "200"]
    assert list(rows[0]) == ["id", "n", "fare", "_reason", "_file", "_row"]


def test_the_report_and_the_history_say_how_many_rows_were_kept_back_and_where(table, tmp_path):
    bad = tmp_path / "bad.parquet"
    table.ingest(pa.table(COLUMNS), message="third quarter", quarantine=str(bad))
    assert table.history()[0].message == f"third quarter (4 rows kept back in {bad})"
    loaded = table.ingest(pa.table(COLUMNS), quarantine=tmp_path / "more.parquet")
    assert f"4 rows kept back in {tmp_path}/more.parquet" in repr(loaded)


def test_the_report_says_why_rows_were_kept_back_and_the_history_does_not(table, tmp_path):
    columns = {"id": ["1", "02", "03", "4"], "n": ["x", "1", "2", "3"], "fare": ["1", "1", "1", "-1"]}
    data = source("x.csv", columns, tmp_path)
    data.write_text(f"{data.read_text()}5\n")
    loaded = table.ingest(data, quarantine=tmp_path / "bad.parquet")
    why = "why: 2 rows: id (string) cannot become int without loss, such as '02'; "
    assert repr(loaded).splitlines()[-1].startswith(why)
    assert repr(loaded).endswith("; 1 more reason in _reason")
    assert "why" not in repr(table.history())
    alone = table.ingest([{"id": 1, "n": None}], quarantine=tmp_path / "more.parquet")
    assert repr(alone).endswith("\nwhy: 1 row: n is NULL")


def test_a_dry_run_counts_them_by_column_with_an_example_and_writes_nothing(table, tmp_path):
    data, bad = source("x.csv", COLUMNS, tmp_path), tmp_path / "bad.parquet"
    plan = table.ingest(data, quarantine=bad, dry_run=True).plan
    assert (plan.rows, plan.kept_back, plan.files, plan.differences) == (2, 4, 2, ())
    assert [(each.column, each.kind, each.values, each.place) for each in plan.reasons] == [
        ("n", "is not a number", 1, "line 3"),
        ("n", "nulls", 1, "line 4"),
        ("check check_1", "fare >= 0 is false", 1, "line 4"),
        ("id", "nulls", 1, "line 5"),
        ("check check_2", "n < fare OR n < 100 is false", 1, "line 6"),
    ]
    assert f"would add 2 rows in 2 files, loaded by this process, and keep 4 rows back in {bad}" in repr(plan)
    assert not bad.exists()
    assert table.history()[0].id == 1
    bad.write_bytes(b"")
    with pytest.raises(AlreadyExists):
        table.ingest(data, quarantine=bad, dry_run=True)


def test_no_file_is_written_when_all_rows_fit(table, tmp_path):
    bad = tmp_path / "bad.parquet"
    loaded = table.ingest([{"id": 1, "n": 1}], quarantine=bad)
    assert (loaded.kept_back, loaded.quarantine, loaded.snapshot.message) == (0, None, None)
    assert "no rows kept back, so no file of them was written" in repr(loaded)
    assert not bad.exists()


def test_a_load_of_bad_rows_alone_makes_no_snapshot_and_keeps_them(table, tmp_path):
    bad = tmp_path / "bad.parquet"
    loaded = table.ingest([{"id": 1, "n": "x"}], quarantine=bad)
    assert (loaded.snapshot_id, loaded.kept_back) == (1, 1)
    assert f"1 row kept back in {bad}" in repr(loaded)
    assert len(kept(bad)) == 1


def test_a_file_is_never_written_over(table, tmp_path):
    bad = tmp_path / "bad.parquet"
    table.ingest([{"id": 1, "n": "x"}], quarantine=bad)
    content = bad.read_bytes()
    with pytest.raises(AlreadyExists, match=r"bad\.parquet already exists") as caught:
        table.ingest([{"id": 2, "n": "y"}, {"id": 3, "n": 3}], quarantine=bad)
    assert "give another file, or delete this one" in caught.value.hint
    assert (bad.read_bytes(), ids(table)) == (content, [])


def test_a_file_that_is_not_parquet_is_refused(table, tmp_path):
    for name in ("bad.csv", "bad", "folder/"):
        with pytest.raises(InvalidInput, match=r"quarantine needs a \.parquet file, not") as caught:
            table.ingest([{"id": 1, "n": 1}], quarantine=f"{tmp_path}/{name}")
        assert caught.value.hint == "write quarantine='bad.parquet'"


@pytest.mark.parametrize(
    ("error", "is_left"), [(ConflictError, False), (KeyboardInterrupt, False), (OutcomeUnknown, True)]
)
def test_the_file_goes_when_the_commit_fails(table, tmp_path, monkeypatch, error, is_left):
    bad = tmp_path / "bad.parquet"

    def commit(*_: Any, **__: Any) -> None:
        assert len(kept(bad)) == 4  # it is complete before the commit
        raise error("lost")

    monkeypatch.setattr(StateStore, "commit", commit)
    with pytest.raises(error):
        table.ingest(pa.table(COLUMNS), quarantine=bad)
    assert bad.exists() == is_left


def test_a_load_that_was_done_before_says_so_and_leaves_its_file(table, tmp_path):
    bad = tmp_path / "bad.parquet"
    table.ingest(pa.table(COLUMNS), quarantine=bad, job_id="monday")
    again = table.ingest(pa.table(COLUMNS), quarantine=bad, job_id="monday")
    assert "job 'monday' was done before" in repr(again)
    assert (len(kept(bad)), ids(table)) == (4, [1, 6])


def test_columns_that_do_not_fit_as_a_whole_are_errors(table, tmp_path):
    bad = tmp_path / "bad.parquet"
    for data, problem in (
        (pa.table({"id": [1]}), "missing column 'n'"),
        (pa.table({"id": [1], "n": [1], "x": [1]}), "unknown column 'x'"),
        (pa.table({"id": [1], "n": pa.array([0], pa.date32())}), "cannot become int without loss"),
    ):
        with pytest.raises(InvalidInput, match=problem):
            table.ingest(data, quarantine=bad)
    assert not bad.exists()


def test_sources_with_different_types_are_kept_as_text_and_all_their_columns(table, tmp_path):
    bad = tmp_path / "bad.parquet"
    (tmp_path / "in" / "year=2026").mkdir(parents=True)
    (tmp_path / "in" / "year=2026" / "a.csv").write_text("id,n,colour\n1,x,red\n2,2,blue\n")
    sizes = pa.table({"id": [None], "n": [7], "size": [Decimal("1.50")]})
    data = [str(tmp_path / "in"), sizes, [{"id": "q", "n": None}]]
    loaded = table.ingest(data, ignore_extra=True, quarantine=bad)
    assert (loaded.kept_back, ids(table)) == (3, [2])
    found = [{k: v for k, v in row.items() if not k.startswith("_")} for row in kept(bad)]
    nothing = {"colour": None, "year": None, "size": None}
    assert found == [
        nothing | {"id": "1", "n": "x", "colour": "red", "year": "2026"},
        nothing | {"id": None, "n": "7", "size": Decimal("1.50")},
        nothing | {"id": "q", "n": None},
    ]


def test_the_file_is_loaded_again_when_its_rows_are_corrected(table, tmp_path):
    bad = tmp_path / "bad.parquet"
    table.ingest(pa.table(COLUMNS), quarantine=bad)
    corrected = parquet.read_table(bad).to_pandas().fillna({"id": 4, "n": "3"}).replace({"n": {"x": "2", "200": "20"}})
    assert table.ingest(corrected, ignore_extra=True, quarantine=tmp_path / "again.parquet").kept_back == 1
    assert ids(table) == [1, 2, 4, 5, 6]
    assert list(kept(tmp_path / "again.parquet")[0]) == ["id", "n", "fare", "_reason", "_file", "_row"]


def test_lines_of_a_csv_file_count_what_is_left_out_and_values_of_several_lines(table, tmp_path):
    text = 'made by hand\nid,n,fare\n"1",1,\n# note\n2,"x\n\ny",\n\n3,"z",\n4,4,"\xff"\n'
    (tmp_path / "a.csv").write_bytes(text.encode("latin-1"))
    bad = tmp_path / "bad.parquet"
    table.ingest(tmp_path / "a.csv", skip_lines=1, comment="#", quarantine=bad)
    assert [(row["_row"], row["n"], row["fare"]) for row in kept(bad)] == [
        (5, "x\n\ny", None), (9, "z", None), (10, "4", "\\xff"),
    ]  # fmt: skip
    assert ids(table) == [1]


LINES = 'id,n,fare\n1,1,\n\n2,x,\n3,abc,2026-02-03,extra\n4,"x\n",\n5,5\n6,6,\n7,seven,\n'


@pytest.mark.parametrize("ending", ["", "8,8"])
def test_lines_with_too_many_or_too_few_values_are_kept_back_as_they_are(table, tmp_path, ending):
    (tmp_path / "a.csv").write_text(LINES + ending)
    bad = tmp_path / "bad.parquet"
    plan = table.ingest(tmp_path / "a.csv", quarantine=bad, dry_run=True).plan
    assert (plan.rows, plan.kept_back) == (2, 5 + bool(ending))
    assert [(each.column, each.place, each.values) for each in plan.reasons] == [
        ("n", "line 4", 3), ("whole line", "line 5", 1), ("whole line", "line 8", 1 + bool(ending)),
    ]  # fmt: skip
    loaded = table.ingest(tmp_path / "a.csv", quarantine=bad)
    assert (loaded.kept_back, ids(table)) == (5 + bool(ending), [1, 6])
    lines = [
        (5, None, "3,abc,2026-02-03,extra", "the line has 4 values, but there are 3 columns"),
        (8, None, "5,5", "the line has 2 values, but there are 3 columns"),
        (11, None, "8,8", "the line has 2 values, but there are 3 columns"),
    ]
    assert [(row["_row"], row["id"], row["_text"], row["_reason"]) for row in kept(bad)] == [
        (4, "2", None, "column 'n': 'x' is not a number"),
        (6, "4", None, "column 'n': 'x\\n' is not a number"),
        (10, "7", None, "column 'n': 'seven' is not a number"),
        *lines[: 2 + bool(ending)],
    ]
    assert list(kept(bad)[0]) == ["id", "n", "fare", "_text", "_reason", "_file", "_row"]


def test_such_lines_in_a_file_without_a_header_and_in_many_blocks(table, tmp_path, monkeypatch):
    monkeypatch.setattr("sleeper_nb.load.csv_files.BLOCK_BYTES", 256)
    lines = [f"{i},{i}" if i % 10 == 3 else f"{i},{i},{i + 1000}" for i in range(100)]
    (tmp_path / "a.csv").write_text("# note\n" + "\n".join(lines))
    bad = tmp_path / "bad.parquet"
    table.ingest(tmp_path / "a.csv", header=False, comment="#", quarantine=bad)
    assert ids(table) == [i for i in range(100) if i % 10 != 3]
    assert [(row["_row"], row["_text"]) for row in kept(bad)] == [(i + 2, f"{i},{i}") for i in range(3, 100, 10)]


@pytest.mark.parametrize("rows", range(40, 60))
def test_a_file_may_end_anywhere_in_a_block_without_a_line_break(table, tmp_path, monkeypatch, rows):
    monkeypatch.setattr("sleeper_nb.load.csv_files.BLOCK_BYTES", 64)
    (tmp_path / "a.csv").write_text("id,n\n" + "\n".join(f"{i},{i}" for i in range(rows)))
    table.ingest(tmp_path / "a.csv")
    assert len(ids(table)) == rows


def test_a_file_of_such_lines_alone_is_kept_back_and_quotes_that_do_not_close_are_an_error(table, tmp_path):
    (tmp_path / "a.csv").write_text("id,n,fare\n1\n")
    loaded = table.ingest([str(tmp_path / "a.csv"), [{"id": 5, "n": 5}]], quarantine=tmp_path / "bad.parquet")
    assert (loaded.kept_back, ids(table)) == (1, [5])
    (tmp_path / "b.csv").write_text('id,n,fare\n1,1\n2,"2,\n')
    with pytest.raises(InvalidInput, match="ends inside quotes"):
        table.ingest(tmp_path / "b.csv", quarantine=tmp_path / "more.parquet")


def test_without_a_quarantine_the_first_such_line_is_named(table, tmp_path):
    (tmp_path / "a.csv").write_text(LINES)
    with pytest.raises(InvalidInput) as caught:
        table.ingest(tmp_path / "a.csv")
    assert (
        caught.value.message
        == f"line 5 has 4 values, but there are 3 columns: '3,abc,2026-02-03,extra', in {tmp_path}/a.csv"
    )
    assert "with quarantine='bad.parquet' keeps such lines in a file" in caught.value.hint


def test_a_dry_run_without_a_quarantine_lists_all_such_lines_with_their_numbers(table, tmp_path):
    (tmp_path / "a.csv").write_text(LINES)
    differences = table.ingest(tmp_path / "a.csv", dry_run=True).plan.differences
    listed = {each.kind: (each.values, each.place) for each in differences if each.column == "whole line"}
    assert listed == {"has too many values": (1, "line 5"), "has too few values": (1, "line 8")}
    assert len(differences) > len(listed)


def test_row_keys_that_are_taken_are_kept_back_where_keys_are_unique(session: sl.Session, tmp_path):
    schema = sl.Schema.from_ddl("a STRING KEY, b INT KEY, n INT, UNIQUE KEYS, CHECK (n > 0)")
    table = session.create_table("u", schema, ["h"])
    table.ingest([{"a": "k", "b": 1, "n": 1}, {"a": "a", "b": 2, "n": 1}])
    rows = [("a", 1, 1), ("k", 1, 2), ("a", 1, 3), ("z", 9, 0), ("z", 9, 5), ("k", 1, 4)]
    data = [dict(zip("abn", row, strict=True)) for row in rows]
    plan = table.ingest(data, quarantine=tmp_path / "bad.parquet", dry_run=True).plan
    assert (plan.rows, plan.kept_back) == (2, 4)
    table.ingest(data, quarantine=tmp_path / "bad.parquet")
    assert table.at().plan().rows == 4
    reasons = {row["_row"]: row["_reason"] for row in kept(tmp_path / "bad.parquet")}
    assert reasons == {
        2: "the table already has the row key a = 'k', b = 1",
        3: "an earlier row has the row key a = 'a', b = 1",
        4: "check 'check_1' (n > 0) fails for n = 0",
        6: "an earlier row has the row key a = 'k', b = 1; the table already has the row key a = 'k', b = 1",
    }


VALUES = st.one_of(st.none(), st.integers(-3, 300), st.sampled_from(["x", "7", "", "1e2"]))
ROWS = st.lists(st.fixed_dictionaries({"id": VALUES, "n": VALUES, "fare": VALUES}), min_size=1, max_size=30)


def expected(row: dict[str, Any]) -> bool:
    """Return whether a row fits the table, as a plain model says."""

    def number(value: Any) -> float | None:
        return None if value is None else float(value)

    try:
        key, n, fare = (number(row[name]) for name in ("id", "n", "fare"))
    except ValueError:
        return False
    if key is None or n is None:
        return False
    return fare is None or (fare >= 0 and (n < fare or n < 100))


@given(rows=ROWS, form=st.sampled_from(["rows", "lines.json"]))
def test_every_row_is_loaded_or_kept_back(tmp_path_factory, rows, form):
    folder = tmp_path_factory.mktemp("kept")
    data: Any = rows
    if form == "lines.json":
        (folder / "x.json").write_text("\n".join(map(json.dumps, rows)))
        data = folder / "x.json"
    with sl.connect(folder / "w") as session:
        table = session.create_table("t", sl.Schema.from_ddl(DDL), [4])
        loaded = table.ingest(data, quarantine=folder / "bad.parquet")
        fit = [row for row in rows if expected(row)]
        assert sorted(ids(table)) == sorted(int(float(row["id"])) for row in fit)
        assert loaded.kept_back == len(rows) - len(fit)
        numbers = [i for i, row in enumerate(rows, 1) if not expected(row)]
        assert [row["_row"] for row in (kept(folder / "bad.parquet") if numbers else [])] == numbers


def test_the_command_keeps_rows_back_and_says_so(shell, tmp_path):
    (tmp_path / "a.csv").write_text("id,n\n1,1\n2,x\n")
    shell.run_line_magic("sleeper", "use ./warehouse")
    shell.run_cell_magic("sleeper", "create t", "id INT KEY, n INT")
    plan = shell.run_line_magic("sleeper", "ingest t a.csv --dry-run")
    assert "to load the rows that fit, and keep the others in a file: --quarantine bad.parquet" in repr(plan)
    plan = shell.run_line_magic("sleeper", "ingest t a.csv --quarantine bad.parquet --dry-run")
    assert f"would add 1 row in 1 file, loaded by this process, and keep 1 row back in {tmp_path}/bad.parquet" in repr(
        plan
    )
    loaded = shell.run_line_magic("sleeper", "ingest t a.csv --quarantine bad.parquet")
    assert loaded.kept_back == 1
    (tmp_path / "b.csv").write_text("id,n\n2,x\n")
    answer = shell.run_line_magic("sleeper", "ingest t b.csv --quarantine more.parquet")
    assert f"no rows to add: the table stays at snapshot 2\n1 row kept back in {tmp_path}/more.parquet" in repr(answer)
    with pytest.raises(InvalidInput, match="rows are kept back by loads in this process, not by Spark"):
        shell.run_line_magic("sleeper", "ingest t a.csv --quarantine c.parquet --spark")


def test_the_columns_of_a_file_of_kept_rows_are_never_proposed_for_the_table(tmp_path: Path):
    with sl.connect(tmp_path / "wh") as session:
        table = session.create_table("kept", sl.Schema({"k": "int"}, values={"x": "int?"}))
        (tmp_path / "a.csv").write_text("k,x\n1,2\n2,b\n")
        table.ingest(tmp_path / "a.csv", quarantine=tmp_path / "bad.parquet")
        plan = table.ingest(tmp_path / "bad.parquet", dry_run=True).plan
        assert "alter" not in repr(plan)
        assert "it is of rows that were kept back; leave it out with ignore_extra=True" in repr(plan)
