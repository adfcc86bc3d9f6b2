"""The options of a load as they are typed: in a notebook and on the console."""

from __future__ import annotations

import pandas as pd
import pytest

from sleeper_nb import cli
from sleeper_nb.errors import SleeperError
from sleeper_nb.load import bulk_load

CREATE = "%%sleeper create trips\ncity STRING KEY\npickup TIMESTAMP NULL\nfare DOUBLE NULL\npaid BOOLEAN NULL"
TEXT = "made by x\nCity;Pick-up;Fare;Paid;Note\noslo;03.01.2026 10:00;1,5;yes;a\n7;NA;;;b\n"
LINE = (
    "ingest trips more.csv --read skip-lines=1 --read delimiter=; --read decimal=, "
    "--read 'timestamp-format=%d.%m.%Y %H:%M' "
    "--read null-text=NA --read null-text= --by-name --cast --ignore-extra"
)


@pytest.fixture
def trips(cell, tmp_path):
    (tmp_path / "more.csv").write_text(TEXT)
    cell("%sleeper use ./warehouse")
    cell(CREATE)
    return cell


def test_a_load_forgives_what_the_line_says(trips):
    plan = trips(f"%sleeper {LINE} --dry-run")
    assert (plan.rows, plan.plan.differences) == (2, ())
    assert "skipped, not in the table: Note" in repr(plan)
    assert trips(f"%sleeper {LINE}").rows == 2
    (first, second) = trips("%sleeper scan trips").to_pandas().to_dict("records")
    assert (second["city"], second["fare"], second["paid"], first["city"]) == ("oslo", 1.5, True, "7")


def test_files_that_lack_a_column_are_named_by_the_answer(trips, tmp_path):
    (tmp_path / "in").mkdir()
    for name, text in (("a", "city\noslo\n"), ("b", "city,fare\noslo,2\n"), ("c", "city\nrome\n")):
        (tmp_path / "in" / f"{name}.csv").write_text(text)
    said = "a.csv, c.csv: NULL in every row, as the data has no values for it: fare"
    assert said in repr(trips("%sleeper create fares --from in --keys city"))
    said = "a.csv, c.csv: NULL in every row, as the data has no values for it: pickup, fare, paid"
    assert said in repr(trips("%sleeper ingest trips in --dry-run"))
    assert said in repr(trips("%sleeper ingest trips in"))


@pytest.mark.parametrize("columns", ["city,fare", '"A b=city,c=fare"'])
def test_columns_are_named_on_the_line(trips, shell, columns):
    shell.push({"df": pd.DataFrame({"A b": ["oslo"], "c": [1.5]})})
    assert trips(f"%sleeper ingest trips $df --columns {columns}").rows == 1


def test_a_hint_names_the_option_as_it_is_typed(trips, shell):
    shell.push({"df": pd.DataFrame({"city": [1], "Fare": [1.5], "note": ["a"]})})
    with pytest.raises(SleeperError) as caught:
        trips("%sleeper ingest trips $df")
    error = caught.value
    assert error.message == "unknown column 'Fare'"
    assert error.place.splitlines() == [
        "unknown column 'note'",
        "column 'city', row 1: 1 (long) cannot become string without loss",
    ]
    assert error.hint == "rename it to 'fare', or add --by-name; a dry run says for each what to change"
    shown = repr(trips("%sleeper ingest trips $df --dry-run"))
    assert "--ignore-extra" in shown
    assert "--cast" in shown


@pytest.mark.parametrize(
    ("options", "message"),
    [("--columns a,b=c", "mixes names and pairs"), ("--read decimal=x", "decimal"),
     ("--read skip-lines=x", "needs a number"), ("--read header=maybe", "yes or no"),
     ("--read delimeter=;", "no key 'delimeter' of --read"), ("--read delimiter", "has no value"),
     ("--read decimal=, --read decimal=.", "has decimal twice"), ("--delimiter ;", "write --read delimiter=VALUE"),
     ("--read encoding=klingon", "'klingon' is not a known encoding"),
     ("--read quote=ab", "not a valid quote character")],
)  # fmt: skip
def test_a_wrong_option_is_refused(trips, options, message):
    with pytest.raises(SleeperError, match=message):
        trips(f"%sleeper ingest trips more.csv {options}")


def test_the_console_shows_each_wrong_column_in_a_line(trips, capsys, tmp_path, monkeypatch):
    (tmp_path / "wrong.csv").write_text("city,fare,paid\noslo,x,maybe\noslo,y,no\n")
    assert cli.main(["ingest", "trips", "wrong.csv"])
    lines = capsys.readouterr().err.replace(f"{tmp_path}/", "").splitlines()
    assert [line.partition("column ")[2] for line in lines[:2]] == [
        "'fare', line 2: 'x' is not a number, in wrong.csv (2 values)",
        "'paid', line 2: 'maybe' is not a boolean, in wrong.csv (2 values)",
    ]
    assert lines[2].startswith("hint: write a number")


class Interrupted:
    """Rows whose reading is interrupted, after `first` was done."""

    def __init__(self, first=lambda: None):
        self.first = first

    def __arrow_c_stream__(self, requested_schema=None):
        self.first()
        raise KeyboardInterrupt


def note_of_interrupt(trips, shell, rows):
    shell.push({"rows": rows})
    with pytest.raises(KeyboardInterrupt) as caught:
        trips("%sleeper ingest trips $rows")
    return caught.value.__notes__


def test_an_interrupted_load_says_at_which_snapshot_the_table_still_is(trips, shell):
    assert note_of_interrupt(trips, shell, Interrupted()) == ["Table trips is still at snapshot 1."]
    other = pd.DataFrame({"city": ["rome"]})

    def commit():
        shell.push({"other": other})
        shell.run_line_magic("sleeper", "ingest trips $other")

    (note,) = note_of_interrupt(trips, shell, Interrupted(commit))
    assert note == (
        "Table trips was at snapshot 1, and is at snapshot 2: %sleeper history trips lists what was committed."
    )


def test_a_load_without_a_merge_names_the_compaction_to_type_next(trips, shell, monkeypatch):
    monkeypatch.setattr(bulk_load, "slice_bytes", lambda _: 200)
    monkeypatch.setattr(bulk_load, "BATCH_ROWS", 10)
    shell.push({"df": pd.DataFrame({"city": ["oslo"] * 100, "fare": range(100)})})
    plan = trips("%sleeper ingest trips $df --no-merge --dry-run")
    assert f"up to {plan.plan.files} files of each leaf, which compaction merges" in repr(plan)
    loaded = trips("%sleeper ingest trips $df --no-merge")
    assert loaded.snapshot.added_files > 3
    assert repr(loaded).endswith("which compaction merges: %sleeper compact trips")
    trips("%sleeper compact trips --strategy all")
    assert trips("%sleeper ingest trips $df").snapshot.added_files == 1
    few = repr(trips("%sleeper ingest trips $df --no-merge"))
    assert "which compaction merges: %sleeper compact trips" in few


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "ingest trips more.csv --no-merge --quarantine bad.parquet",
            "--quarantine and --no-merge cannot be combined",
        ),
        ("ingest trips --watch . --once --no-merge", "--no-merge cannot be combined with --watch"),
    ],
)
def test_a_load_without_a_merge_is_no_other_load(trips, line, message):
    with pytest.raises(SleeperError, match=message):
        trips(f"%sleeper {line}")
