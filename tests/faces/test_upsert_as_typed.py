"""`upsert` as it is typed: by which columns rows match, what its report says about them, and what it forgives."""

from __future__ import annotations

import pandas as pd
import pytest

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput, SleeperError, hint_text

FLIGHTS = pd.DataFrame({
    "carrier": ["UA"] * 3 + ["DL"], "flight": [1, 1, 1, 2], "hour": [5, 6, 7, 5], "delay": [10, 20, 30, 40],
})  # fmt: skip


@pytest.fixture
def typed(cell, shell):
    """Type what stands behind the magic, where a table ``june`` has four flights, three of them with the same keys."""
    shell.user_ns["df"] = FLIGHTS
    shell.user_ns["one"] = FLIGHTS.head(1).assign(delay=0)
    cell("%sleeper use ./warehouse")
    cell("%sleeper create june --from $df --keys carrier,flight --sort hour")
    return lambda line: cell(f"%sleeper {line}")


@pytest.fixture
def delays(typed):
    """Return the delays by hour of the flight that has three rows."""
    return lambda: {
        row["hour"]: row["delay"] for row in typed("scan june --as arrow").to_pylist() if row["carrier"] == "UA"
    }


def counts(report):
    return report.inserted, report.updated, report.deleted


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.spark)])
def test_rows_match_by_row_and_sort_keys_where_row_keys_are_not_unique(typed, delays, engine):
    plan = typed(f"upsert june $one --dry-run --engine {engine}")
    assert counts(plan) == (0, 1, 0)
    assert "rows match by carrier, flight, hour" in repr(plan)
    done = typed(f"upsert june $one --engine {engine}")
    assert counts(done) == (0, 1, 0)
    assert "rows match by carrier, flight, hour" in repr(done)
    assert delays() == {5: 0, 6: 20, 7: 30}


def test_rows_match_by_row_keys_where_they_are_unique(typed, shell):
    shell.user_ns["df"] = FLIGHTS.drop_duplicates(["carrier", "flight"])
    shell.user_ns["later"] = FLIGHTS.head(1).assign(hour=9, delay=1)
    typed("create unique --from $df --keys carrier,flight --sort hour")
    typed("alter unique --unique-keys true")
    done = typed("upsert unique $later")
    assert counts(done) == (0, 1, 0)
    assert "rows match by carrier, flight\n" in f"{done!r}\n".replace(" ·", "\n")


def test_a_source_row_that_matches_several_rows_is_told_before_and_after(typed, delays):
    said = "1 source row matched several rows; each of them now has its values"
    plan = typed("upsert june $one --on carrier,flight --dry-run")
    assert (counts(plan), said in repr(plan)) == ((0, 3, 0), True)
    assert repr(plan).splitlines()[-1] == "nothing was changed; %sleeper upsert june $one --on carrier,flight does it"
    done = typed("upsert june $one --on carrier,flight")
    assert (counts(done), said in repr(done)) == ((0, 3, 0), True)
    assert delays() == {5: 0}


def test_rows_without_a_sort_key_say_how_to_match_by_others(typed, shell):
    shell.user_ns["few"] = FLIGHTS.tail(1).drop(columns="hour")
    with pytest.raises(InvalidInput, match="the rows have no column 'hour', by which they are matched") as caught:
        typed("upsert june $few")
    assert "--on" in caught.value.hint
    assert counts(typed("upsert june $few --on carrier,flight")) == (0, 1, 0)


def test_a_merge_in_python_matches_by_the_same_columns(typed, delays, shell):
    one = shell.user_ns["one"]
    with sl.connect("warehouse") as session:
        table = session.table("june")
        done = table.merge(one).when_matched_update_all().execute()
        assert counts(done) == (0, 1, 0)
        assert "rows match by carrier, flight, hour" in repr(done)
        with pytest.raises(InvalidInput, match="rows have no column 'hour'"):
            table.merge(one.drop(columns="hour"))
        merge = table.merge(one, ["carrier", "flight"]).when_matched_delete()
        assert counts(merge.execute()) == (0, 0, 3)
    assert delays() == {}


# What new rows may have that the table has not.


@pytest.fixture
def spaced(typed, shell):
    """A table made from a DataFrame with spaces in its names, and the rows of the table."""
    shell.user_ns["wide"] = pd.DataFrame({"Order ID": [1, 2], "City": ["a", "b"], "extra": [0, 0]})
    typed("create orders --from $wide --keys Order_ID --by-name")
    typed("alter orders --drop-column extra")
    return lambda: {row["Order_ID"]: row["City"] for row in typed("scan orders --as arrow").to_pylist()}


@pytest.mark.parametrize("line", ["upsert orders $new", 'overwrite orders $new --where "Order_ID > 1"'])
def test_a_change_forgives_what_a_load_forgives(typed, shell, spaced, line):
    shell.user_ns["new"] = pd.DataFrame({"Order ID": [2], "City": [7], "extra": [1]})
    for option in ("--by-name", "--ignore-extra", "--cast"):
        with pytest.raises(InvalidInput) as caught:
            typed(line)
        said = f"{caught.value}"
        assert "<table>" not in said
        assert option in hint_text(caught.value.hint_parts, "%sleeper")
        line += f" {option}"
    done = typed(line)
    assert "skipped, not in the table: extra" in repr(done)
    assert spaced() == {1: "a", 2: "7"}


def test_a_csv_file_is_read_as_a_load_reads_it(typed, spaced, tmp_path):
    (tmp_path / "new.csv").write_text("# ours\nnr;name\n2;z\n")
    done = typed(
        f"upsert orders {tmp_path}/new.csv --read delimiter=; --read comment=# "
        "--columns nr=Order_ID,name=City --dry-run"
    )
    assert counts(done) == (0, 1, 0)


@pytest.mark.parametrize(
    ("line", "absent", "said"),
    [
        ("sql INSERT INTO orders SELECT 3, 4", "--cast", "CAST(… AS STRING)"),
        (
            "sql INSERT INTO orders BY NAME SELECT 3 AS Order_ID, 'x' AS town",
            "--ignore-extra",
            "available: Order_ID, City",
        ),
        ("sql INSERT INTO orders BY NAME SELECT 3 AS order_id, 'x' AS City, 1 AS \"City \"", "--by-name", ""),
        (
            "sql CREATE TABLE z ROW KEYS (a) AS SELECT 1 AS a, INTERVAL 1 DAY AS b",
            "--ignore-extra",
            "cast the column",
        ),
        ("sql UPDATE orders SET City = 1 WHERE Order_ID = 1", "--cast", "CAST(… AS STRING)"),
        ("update orders --set City=1 --where Order_ID=1", "--cast", "CAST(… AS STRING)"),
    ],
)
def test_a_hint_names_only_what_can_be_typed_there(typed, spaced, line, absent, said):
    with pytest.raises(SleeperError) as caught:
        typed(line)
    hint = hint_text(caught.value.hint_parts, "%sleeper")
    assert absent not in hint
    assert said in hint
    assert "<table>" not in hint


def test_a_rule_that_breaks_names_the_table(typed, spaced):
    typed('alter orders --add-check "short: length(City) < 3"')
    for line in ("update orders --set \"City = 'long one'\" --where Order_ID=1", "upsert orders $wide --by-name"):
        with pytest.raises(SleeperError) as caught:
            typed(line)
        assert "<table>" not in hint_text(caught.value.hint_parts, "%sleeper")
    with pytest.raises(InvalidInput) as caught:
        typed("upsert orders $wide --by-name")
    assert 'alter orders --add-column "extra long?"' in hint_text(caught.value.hint_parts, "%sleeper")
