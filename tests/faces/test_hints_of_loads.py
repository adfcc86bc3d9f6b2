"""What a user is told who loads, creates and alters tables: the line to type, the value that is wrong, what stays."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sleeper_nb.errors import SleeperError

EVENTS = pd.DataFrame({"id": [1, 2], "d.o.b": ["a", "b"], 'a"b': [3, 4]})


@pytest.fixture
def typed(cell, shell):
    shell.push({"events": EVENTS, "words": pd.DataFrame({"id": [1], "paid": ["maybe"]})})
    cell("%sleeper use ./warehouse")
    return cell


def refused(typed, line):
    with pytest.raises(SleeperError) as caught:
        typed(f"%sleeper {line}")
    return caught.value


@pytest.mark.parametrize("source", ["$events", "events.csv"])
def test_create_says_that_data_follows_an_option(typed, tmp_path, source):
    EVENTS.to_csv(tmp_path / "events.csv", index=False)
    error = refused(typed, f"create t {source} --keys id --by-name")
    assert error.hint == f"write --from {source}"
    assert typed(f"%sleeper create t {error.hint.removeprefix('write ')} --keys id --by-name").scan().count() == 2
    assert refused(typed, "create u other --keys id").hint.startswith("column definitions go into a cell")


def test_a_name_that_by_name_matches_is_not_to_be_left_out(typed):
    typed("%sleeper create t --from $events --keys id --by-name")
    hint = refused(typed, "ingest t $events").hint
    assert hint.startswith("rename it to 'd_o_b', or add --by-name")
    assert repr(typed("%sleeper ingest t $events --dry-run")).count("or add --by-name") == 2
    assert typed("%sleeper ingest t $events --by-name").rows == 2


@pytest.mark.parametrize("options", ["", "--cast"])
def test_a_word_that_is_no_boolean_is_said_to_be_none(typed, tmp_path, options):
    typed("%%sleeper create t\nid LONG KEY, paid BOOLEAN NULL")
    (tmp_path / "words.csv").write_text("id,paid\n1,maybe\n")
    for source in ("$words", "words.csv"):
        message = refused(typed, f"ingest t {source} {options}").message
        assert "'maybe' is not a boolean" in message


def test_a_file_that_the_table_has_is_named_with_what_to_do(typed, tmp_path):
    typed("%%sleeper create t\nid INT KEY")
    pq.write_table(pa.table({"id": pa.array([1], pa.int32())}), tmp_path / "warehouse" / "a.parquet")
    typed("%sleeper add-files t warehouse/a.parquet")
    error = refused(typed, "add-files t warehouse/a.parquet")
    assert error.message.endswith("is already in the table")
    assert error.hint == "leave it out: the table has its rows"


def test_a_name_that_is_a_table_and_a_variable_is_offered_once(typed, shell):
    shell.push({"wide": EVENTS})
    typed("%%sleeper create wide\nid INT KEY")
    assert refused(typed, "sql SELECT * FROM widee").hint == "did you mean 'wide'?"
    assert refused(typed, "sql SELECT * FROM zzz").hint.count("wide") == 1


def test_a_default_is_described_and_existing_rows_are_said_not_to_get_it(typed):
    typed("%%sleeper create t\nid INT KEY, note STRING DEFAULT 'none', n INT NULL DEFAULT 3")
    columns = typed("%sleeper sql --engine duckdb DESCRIBE t").to_pandas()
    assert dict(zip(columns["column_name"], columns["default"].fillna(""), strict=True)) == {
        "id": "", "note": "'none'", "n": "3",
    }  # fmt: skip
    line = "sql ALTER TABLE t ADD COLUMN score DOUBLE DEFAULT 1.5"
    note = "existing rows are NULL in score; rows that are loaded get the default"
    assert note not in repr(typed(f"%sleeper {line}"))  # there are none
    typed("%sleeper sql INSERT INTO t (id) VALUES (1)")
    for option in ("--dry-run", ""):
        shown = repr(typed(f"%sleeper alter t --add-column 'more int? DEFAULT 2' {option}"))
        assert note.replace("score", "more") in shown
    assert "existing rows" not in repr(typed("%sleeper alter t --default n=4"))


def test_the_plan_of_a_deletion_counts_data_files_apart(typed):
    typed("%sleeper create t --from $events --keys id --by-name")
    assert re.search(r"files +\d+, 1 of them data files", repr(typed("%sleeper sql DROP TABLE t")))
    typed("%sleeper ingest t $events --by-name")
    typed('%sleeper delete t --where "id = 1"')
    in_folder = len(list(Path("warehouse").glob("*/*/data/**/*.parquet")))
    assert re.search(rf"files +\d+, {in_folder} of them data files", repr(typed("%sleeper drop t")))


def test_the_hint_of_a_short_line_of_a_new_table_works(typed, tmp_path):
    (tmp_path / "messy.csv").write_text("id,city\n1,rome\n2\n")
    (tmp_path / "lines.ddl").write_text("id INT KEY\ncity STRING NULL\n")
    hint = refused(typed, "create messy --from messy.csv --keys id").hint
    defining, loading = "%sleeper create T --schema FILE", "%sleeper ingest T SRC --quarantine bad.parquet"
    assert hint.startswith(f"correct the line; or define the table first with {defining}: {loading} keeps such lines")
    typed(defining.replace("T ", "messy ").replace("FILE", "lines.ddl"))
    loaded = typed(loading.replace("T ", "messy ").replace("SRC", "messy.csv"))
    assert (loaded.rows, loaded.kept_back) == (1, 1)
    assert "why: 1 line with too few values" in repr(loaded)
