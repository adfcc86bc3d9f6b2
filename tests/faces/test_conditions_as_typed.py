"""Conditions as they are typed: what is no condition is refused, and one that is always true needs a confirmation."""

from __future__ import annotations

import pandas as pd
import pytest

import sleeper_nb as sl
from sleeper_nb.errors import ConfirmationNeeded, InvalidInput, SleeperError

ENGINES = ["duckdb", pytest.param("spark", marks=pytest.mark.spark)]


@pytest.fixture
def typed(cell, shell):
    """Type what stands behind the magic, where a table ``orders`` has five rows."""
    rows = {"id": range(5), "city": list("abcde"), "paid": [True, False, True, None, True]}
    shell.user_ns["df"] = pd.DataFrame(rows)
    shell.user_ns["few"] = pd.DataFrame(rows).head(2)
    cell("%sleeper use ./warehouse")
    cell("%sleeper create orders --from $df --keys id --types id=int")
    return lambda line: cell(f"%sleeper {line}")


@pytest.fixture
def count(typed):
    """Return the number of rows of the table, and of its snapshots."""
    return lambda: (len(typed("scan orders --as arrow")), len(typed("history orders")))


def counts(report):
    return report.inserted, report.updated, report.deleted


ALL_ROWS = {
    "delete orders --where true": (0, 0, 5),
    'update orders --set "city = \'x\'" --where "1 = 1"': (0, 5, 0),
    'overwrite orders $df --where "2 IS NOT NULL"': (5, 0, 5),
    "sql DELETE FROM orders WHERE 1=1": (0, 0, 5),
    "sql UPDATE orders SET city = 'x' WHERE 2 > 1": (0, 5, 0),
    "sql INSERT INTO orders REPLACE WHERE true SELECT * FROM few": (2, 0, 5),
    "sql MERGE INTO orders t USING df s ON 1=1 WHEN MATCHED THEN DELETE": (0, 0, 5),
}


@pytest.mark.parametrize("line", ALL_ROWS)
def test_what_takes_all_rows_away_is_shown_until_force(typed, count, line):
    dry = f"sql --dry-run {line[4:]}" if line.startswith("sql ") else f"{line} --dry-run"
    for plan in (typed(dry), typed(line)):
        assert (plan.dry_run, counts(plan), count()) == (True, ALL_ROWS[line], (5, 1))
        assert "these are all rows of the table" in repr(plan)
        again = repr(plan).splitlines()[-1].removeprefix("nothing was changed; %sleeper ").removesuffix(" does it")
        assert "--force" in again
    done = typed(again)
    assert (done.dry_run, counts(done)) == (False, ALL_ROWS[line])


@pytest.mark.parametrize(
    "line",
    [
        'delete orders --where "id > 0"',
        'delete orders --where "id >= 0"',
        "overwrite orders $few --keys 0,1,2,3,4",
        "sql MERGE INTO orders t USING few s ON t.id = s.id + 9 WHEN NOT MATCHED BY SOURCE THEN DELETE",
        "sql MERGE INTO orders t USING df s ON 1=1 WHEN MATCHED AND t.id < 9 THEN DELETE",
        "sql UPDATE orders SET city = 'x' WHERE id < 9",
        'update orders --set "id = 1" --where false',
        "upsert orders $df",
        "sql INSERT INTO orders REPLACE USING (id) SELECT * FROM df",
        "sql MERGE INTO orders t USING df s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
        "delete orders --where false",
    ],
)
def test_nothing_else_is_asked(typed, line):
    assert not typed(line).dry_run


def test_a_program_confirms_with_force_and_an_empty_table_has_nothing_to_confirm(typed):
    with sl.connect("warehouse") as session:
        table = session.table("orders")
        with pytest.raises(ConfirmationNeeded, match="delete would delete all 5 rows of table 'orders'") as caught:
            table.delete("1 = 1", job_id="a")
        assert (counts(caught.value.plan), "force=True" in caught.value.hint) == ((0, 0, 5), True)
        assert [job.state for job in table.inspect.jobs()] == ["CANCELLED"]
        merge = table.merge([{"id": 9}], predicate="1 = 1").when_matched_delete()
        with pytest.raises(ConfirmationNeeded, match="merge would delete all 5 rows"):
            merge.execute()
        assert merge.execute(dry_run=True).deleted == 5
        assert merge.execute(force=True).deleted == 5
        assert table.delete("1 = 1", job_id="a").snapshot is None
        assert table.update({"id": "1"}, "true").snapshot is None


NO_CONDITIONS = [
    ('delete orders --where "id"', "int"),
    ("delete orders --where city", "string"),
    ("delete orders --where id+1", "int"),
    ('update orders --set "city = 1" --where id', "int"),
    ("overwrite orders $few --where id", "int"),
    ("sql DELETE FROM orders WHERE id", "int"),
    ("sql DELETE FROM orders AS o WHERE (SELECT max(id) FROM orders)", "int"),
    ("sql WITH w AS (SELECT 1 AS n) DELETE FROM orders WHERE (SELECT n FROM w)", "int"),
    ("sql UPDATE orders SET city = 'x' WHERE city", "string"),
    ("sql INSERT INTO orders REPLACE WHERE id SELECT * FROM few", "int"),
    ("sql MERGE INTO orders t USING df s ON t.id WHEN MATCHED THEN DELETE", "int"),
    ("sql MERGE INTO orders t USING df s ON t.id = s.id WHEN MATCHED AND s.id THEN DELETE", "long"),
    ("sql MERGE INTO orders t USING df s ON t.id = s.id WHEN NOT MATCHED AND s.id THEN INSERT *", "long"),
    ("sql MERGE INTO orders t USING df s ON t.id = s.id WHEN NOT MATCHED BY SOURCE AND t.id THEN DELETE", "int"),
]


@pytest.mark.parametrize(("line", "kind"), NO_CONDITIONS)
def test_a_value_is_no_condition(typed, count, line, kind):
    with pytest.raises(InvalidInput, match="the condition is a value of type") as caught:
        typed(line)
    assert kind in caught.value.message
    assert caught.value.hint.startswith("compare it: ")
    assert count() == (5, 1)


@pytest.mark.spark
@pytest.mark.parametrize("line", [line for line, _ in NO_CONDITIONS if "NOT MATCHED AND" not in line])
def test_a_value_is_no_condition_on_spark_either(typed, count, line):
    spark = f"sql --engine spark {line[4:]}" if line.startswith("sql ") else f"{line} --engine spark"
    with pytest.raises(SleeperError):
        typed(spark)
    assert count() == (5, 1)


@pytest.mark.parametrize("where", ["paid", "NULL", "NOT paid", "paid AND id = :one", ":yes AND id = 1", "id IN (1)"])
def test_what_is_true_or_false_is_a_condition(typed, shell, where):
    shell.user_ns |= {"one": 1, "yes": True}
    assert not typed(f'delete orders --where "{where}"').dry_run


@pytest.mark.parametrize("line", ["scan orders --where id", "diff orders 1 1 --where id"])
def test_reads_refuse_it_too(typed, line):
    with pytest.raises(InvalidInput, match="it is a value of type int, not true or false"):
        typed(line)
