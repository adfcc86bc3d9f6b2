"""Rows for an upsert or a merge that lack columns: those keep their values, whatever rules they have."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sleeper_nb as sl

SCHEMA = sl.Schema({"city": "string"}, {"day": "int"}, {"fare": "long", "note": "string?"})
FIRST = {"city": ["bern", "oslo"], "day": [1, 2], "fare": [5, 6], "note": ["a", "b"]}


@pytest.fixture
def table(tmp_path):
    with sl.connect(tmp_path / "w") as session:
        made = session.create_table("t", SCHEMA)
        made.alter(checks={"paid": "fare > 0"})
        made.ingest(pa.table(FIRST))
        yield made


def rows(table):
    return table.scan().to_arrow().sort_by("city").to_pylist()


def _file(given, folder):
    pq.write_table(pa.Table.from_pylist(given), folder / "new.parquet")
    return folder / "new.parquet"


FORMS = {
    "dicts": lambda given, _: given,
    "pandas": lambda given, _: pd.DataFrame(given),
    "Arrow": lambda given, _: pa.Table.from_pylist(given),
    "file": _file,
}


@pytest.mark.parametrize("form", FORMS)
def test_columns_that_new_rows_lack_keep_their_values(table, form, tmp_path):
    done = table.upsert(FORMS[form]([{"city": "oslo", "note": "c"}], tmp_path), on=["city"])
    assert (done.inserted, done.updated) == (0, 1)
    assert rows(table)[1] == {"city": "oslo", "day": 2, "fare": 6, "note": "c"}
    merge = table.merge(FORMS[form]([{"city": "bern", "fare": 9}], tmp_path), ["city"]).when_matched_update_all()
    assert merge.execute().updated == 1
    assert rows(table)[0] == {"city": "bern", "day": 1, "fare": 9, "note": "a"}


@pytest.mark.parametrize("form", FORMS)
def test_a_new_row_needs_all_columns_that_may_not_be_null(table, form, tmp_path):
    with pytest.raises(sl.InvalidInput, match="missing column") as caught:
        table.upsert(FORMS[form]([{"city": "oslo", "note": "c"}, {"city": "rome", "note": "d"}], tmp_path), on=["city"])
    assert "add it" in caught.value.hint
    assert rows(table) == pa.table(FIRST).to_pylist()


def test_a_rule_is_held_by_the_rows_after_the_change_which_errors_name_by_their_key(table):
    with pytest.raises(sl.InvalidInput, match=r"check 'paid' \(fare > 0\) fails for row city = 'oslo': fare = -1"):
        table.upsert([{"city": "oslo", "fare": -1}], on=["city"])
    with pytest.raises(sl.InvalidInput, match="column 'fare', row 1: 'x' is not a number"):
        table.upsert([{"city": "oslo", "fare": "x"}], on=["city"])
    assert rows(table) == pa.table(FIRST).to_pylist()


def test_files_of_one_change_have_the_same_columns(table, tmp_path):
    pq.write_table(pa.table({"city": ["oslo"], "note": ["c"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"city": ["bern"], "fare": [1]}), tmp_path / "b.parquet")
    with pytest.raises(sl.InvalidInput, match="the files have different columns"):
        table.upsert([tmp_path / "a.parquet", tmp_path / "b.parquet"], on=["city"])


def test_a_merge_reads_columns_that_the_table_lacks(tmp_path):
    changes = pd.DataFrame({"k": [1, 2, 9, 8], "v": ["a", "b", "c", "d"], "op": ["D", "U", "I", "D"]})
    with sl.connect(tmp_path) as session:
        table = session.create_table("t", sl.Schema({"k": "long"}, {}, {"v": "string?"}))
        table.ingest([{"k": k, "v": "x"} for k in range(4)])
        for source in (changes, changes.to_dict("records")):
            merge = table.merge(source).when_matched_delete("source.op = 'D'").when_matched_update_all()
            done = merge.when_not_matched_insert_all("source.op <> 'D'").execute()
            assert (done.inserted, done.updated, done.deleted) == (1, 1, 1)
            rows = table.scan().to_arrow().to_pylist()
            assert [(row["k"], row["v"]) for row in rows] == [(0, "x"), (2, "b"), (3, "x"), (9, "c")]
            table.rollback(2)


UNLIKE = [{"city": "bern", "fare": 9}, {"city": "oslo", "note": "c"}]


def _merged(table, given):
    return table.merge(given, ["city"]).when_matched_update_all().execute()


def _upserted(table, given):
    return table.upsert(given, on=["city"])


@pytest.mark.parametrize("change", [_upserted, _merged])
@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (UNLIKE, "row 1 (city = 'bern') has no 'note', which other rows have"),
        ([*UNLIKE[:1], {"city": "oslo"}], "row 2 (city = 'oslo') has no 'fare', which other rows have"),
        ([{"fare": 9}, {"city": "oslo", "fare": 9}], "row 1 has no 'city', which other rows have"),
    ],
)
def test_rows_of_one_change_have_the_same_columns(table, change, given, problem):
    with pytest.raises(sl.InvalidInput) as caught:
        change(table, given)
    assert caught.value.message == problem
    assert "None for NULL" in caught.value.hint
    assert "two calls" in caught.value.hint
    assert rows(table) == pa.table(FIRST).to_pylist()


def test_rows_of_each_part_of_one_change_have_the_same_columns(table):
    with pytest.raises(sl.InvalidInput, match=r"row 1 \(city = 'bern'\) has no 'note'"):
        table.upsert([UNLIKE, pd.DataFrame(UNLIKE)], on=["city"])


def test_what_a_row_lacks_is_given_as_none_or_in_two_calls(table):
    table.upsert([{"city": "bern", "fare": 9, "note": None}, {"city": "oslo", "fare": 8, "note": "c"}], on=["city"])
    assert [(row["fare"], row["note"]) for row in rows(table)] == [(9, None), (8, "c")]
    for row in ({"city": "bern", "fare": 7}, {"city": "oslo", "note": "d"}):
        table.upsert([row], on=["city"])
    assert [(row["fare"], row["note"]) for row in rows(table)] == [(7, None), (8, "d")]


def test_a_merge_by_a_predicate_names_rows_by_their_number(table):
    with pytest.raises(sl.InvalidInput, match="row 1 has no 'note'"):
        table.merge(UNLIKE, predicate="source.city = target.city")


def test_rows_of_an_overwrite_may_lack_columns_as_those_of_an_ingest(table):
    new = [{"city": "oslo", "day": 2, "fare": 9}, {"city": "oslo", "day": 3, "fare": 9, "note": "c"}]
    table.overwrite(new, where="city = 'oslo'")
    assert [row["note"] for row in rows(table)] == ["a", None, "c"]


def test_a_wrong_name_in_some_rows_is_unknown(table):
    with pytest.raises(sl.InvalidInput, match="unknown column 'nota'"):
        table.upsert([{"city": "bern", "fare": 9}, {"city": "oslo", "fare": 8, "nota": "c"}], on=["city"])


NOTHING = {
    "a list": [],
    "pandas": pd.DataFrame({"city": [], "day": [], "fare": []}),
    "pandas with a key": pd.DataFrame({"city": []}),
    "pandas without columns": pd.DataFrame(),
    "Arrow": pa.table(FIRST).slice(0, 0),
    "Arrow without columns": pa.table({}),
    "polars": pl.DataFrame({"city": [], "fare": []}),
    "polars without columns": pl.DataFrame(),
}


@pytest.mark.parametrize("nothing", NOTHING.values(), ids=NOTHING)
def test_a_part_is_replaced_by_no_rows(table, nothing):
    assert table.overwrite(nothing, where="city = 'oslo'", dry_run=True).deleted == 1
    done = table.overwrite(nothing, where="city = 'oslo'")
    assert (done.inserted, done.deleted) == (0, 1)
    assert [row["city"] for row in rows(table)] == ["bern"]
    with pytest.raises(sl.errors.ConfirmationNeeded) as caught:
        table.overwrite(nothing)
    assert (caught.value.plan.inserted, caught.value.plan.deleted) == (0, 1)
    assert table.overwrite(nothing, force=True).deleted == 1
    assert rows(table) == []


@pytest.mark.parametrize("nothing", [[], pd.DataFrame(), pa.table({}), pl.DataFrame()])
def test_an_upsert_or_merge_of_no_rows_changes_none(table, nothing):
    assert table.upsert(nothing).snapshot is None
    assert table.merge(nothing).when_matched_update_all().when_not_matched_insert_all().execute().snapshot is None


def test_a_wrong_column_of_no_rows_is_an_error(table):
    with pytest.raises(sl.InvalidInput, match="unknown column 'town'"):
        table.overwrite(pd.DataFrame({"town": []}), where="city = 'oslo'")
    assert rows(table) == pa.table(FIRST).to_pylist()


@pytest.mark.parametrize("day", [1, 7], ids=["there", "new"])
def test_two_new_rows_of_one_key_are_refused_whether_the_key_is_there_or_not(table, day):
    before = rows(table)
    new = [{"city": "bern", "day": day, "fare": 8}, {"city": "bern", "day": day, "fare": 9}]
    with pytest.raises(
        sl.InvalidInput, match=r"2 new rows have city = 'bern'(, day = \d)?, but rows are matched by city(, day)?\n"
    ):
        table.upsert(new)
    assert rows(table) == before
