"""Hints never lead to losing more than was meant, and repeat the whole line where a part of it was typed wrong."""

from __future__ import annotations

import pandas as pd
import pytest

# Rows that stay.


@pytest.mark.parametrize("statement", ["BEGIN", "COMMIT", "ROLLBACK"])
def test_a_transaction_is_replaced_by_a_savepoint_first(refused, statement):
    _, hint = refused(f"sql {statement}")
    assert "rollback" not in hint
    assert hint.endswith("create a savepoint first: %sleeper create-savepoint T")


DELETIONS = [
    "delete trips WHERE day = 2",
    "delete trips day=2",
    "drop trips 'day = 2'",
    "drop trips where city = 'rome'",
    "delete FROM trips WHERE day IS NULL",
    "delete table trips",
]


@pytest.mark.parametrize("line", DELETIONS)
def test_rows_to_delete_are_not_a_table_to_delete(typed, refused, line):
    _, hint = refused(line)
    assert hint == ('to delete rows: %sleeper delete T --where "fare < 0"; to delete the table itself: %sleeper drop T')


@pytest.mark.parametrize("command", ["delete", "purge"])
def test_delete_or_purge_alone_says_how_to_delete_all_rows_and_how_to_drop_the_table(typed, refused, command):
    message, hint = refused(f"{command} trips")
    assert message == f"{command} needs --where, a condition on the rows"
    assert (
        hint == f"to delete all rows: %sleeper {command} trips --force; to delete the table itself: %sleeper drop trips"
    )
    assert typed(f"{command} trips --force --dry-run").deleted == typed("scan trips").count()


def test_rows_that_more_keys_tell_apart_are_not_to_be_dropped(typed, refused):
    message, hint = refused("upsert trips $rows --on city")
    assert message == "2 new rows have city = 'rome', but rows are matched by city"
    assert hint == "leave out --on: rows then match by all keys: city, day"
    assert typed("upsert trips $rows").updated == 3


def test_rows_with_all_keys_alike_are_to_be_dropped(refused, shell):
    shell.push({"twice": pd.concat([shell.user_ns["rows"]] * 2)})
    for line in ("upsert trips $twice", "upsert trips $twice --on day,city"):
        assert "df.drop_duplicates(" in refused(line)[1]


@pytest.mark.parametrize("match", ["ON t.city = s.city", "USING (city)"])
def test_a_merge_by_too_few_keys_names_all_of_them(typed, refused, match):
    merge = f"sql MERGE INTO trips t USING rows s {match} WHEN MATCHED THEN UPDATE SET fare = s.fare"
    message, hint = refused(merge)
    assert "several rows of the source match" in message
    assert hint.startswith("match rows by all keys, city, day; or keep one row of the source")
    assert typed(merge.replace(match, "USING (city, day)")).updated == 3


def test_a_merge_by_all_keys_keeps_one_row_of_the_source(refused, shell):
    shell.push({"twice": pd.concat([shell.user_ns["rows"]] * 2)})
    by_all = "ON t.city = s.city AND t.day = s.day"
    _, hint = refused(f"sql MERGE INTO trips t USING twice s {by_all} WHEN MATCHED THEN UPDATE SET fare = s.fare")
    assert "keep one row of the source" in hint


# Lines without quotes.


QUOTES = [
    ("delete trips --where fare > 10", '--where "fare > 10"', "--where"),
    ("delete trips --where city = 'rome' -m 'no rome'", "--where \"city = 'rome'\"", "--where"),
    ("scan trips --where fare >10 --limit 1", '--where "fare >10"', "--where"),
    ("scan trips --where city is not null", '--where "city is not null"', "--where"),
    ("update trips --set fare = fare + 1 --where day = 1", '--set "fare = fare + 1"', "--set"),
    ("overwrite trips --where city = 'oslo' $less", "--where \"city = 'oslo'\"", "--where"),
    ("alter trips --add-column note string", '--add-column "note string"', "--add-column"),
    ("properties trips sleeper.table.expect=fare > 0", '"sleeper.table.expect=fare > 0"', "sleeper.table.expect"),
    ("properties trips sleeper.table.expect=city <> 'x' sleeper.table.gc.delay.minutes=60",
     "\"sleeper.table.expect=city <> 'x'\"", "sleeper.table.expect"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "instead", "name"), QUOTES)
def test_a_value_without_quotes_is_repeated_with_them(typed, refused, line, instead, name):
    message, hint = refused(line)
    assert message == f"the value of {name} has spaces, so it needs quotes"
    assert hint == f"write {instead}"


def test_columns_after_create_belong_into_a_cell(refused, cell):
    message, hint = refused("create t3 city STRING KEY, fare DOUBLE")
    assert message == "create cannot use 'city'"
    assert hint == "column definitions go into a cell, below its first line; or into a file: --schema FILE"
    assert cell("%%sleeper create t3\ncity STRING KEY, fare DOUBLE").schema.names == ("city", "fare")


@pytest.mark.parametrize("line", ["upsert trips $rows --where x", "maintain --force"])
def test_an_option_that_is_near_nothing_is_not_replaced(refused, line):
    assert refused(line)[1].startswith("usage: ")


def test_an_option_that_is_near_another_is(refused):
    assert refused("upsert trips $rows --dry-rum")[1] == "did you mean '--dry-run'?"
    assert refused("scan trips --wher x")[1] == "did you mean '--where'?"
