"""`delete`, `update`, `upsert` and `overwrite` as they are typed, and what their dry runs say to type next."""

from __future__ import annotations

import shlex

import pandas as pd
import pytest

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput, SleeperError

ROWS = {"city": ["London", "Rome", "athens"], "fare": [4.0, 6.0, -2.0], "riders": [1, 2, 3]}
HEADER = "city,fare,riders\n"


@pytest.fixture
def typed(cell, shell):
    """Type what stands behind the magic, where a table ``trips`` has three rows."""
    shell.user_ns["df"] = pd.DataFrame(ROWS)
    cell("%sleeper use ./warehouse")
    cell("%sleeper create trips --from $df --keys city --types riders=int")
    return lambda line: cell(f"%sleeper {line}")


@pytest.fixture
def rows(typed):
    """Return the rows of the table."""
    return lambda: typed("scan trips --as arrow").sort_by("city").to_pylist()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLEEPER_WAREHOUSE", str(tmp_path / "warehouse"))
    return tmp_path


def fares(rows):
    return {row["city"]: row["fare"] for row in rows}


def refused(typed, line):
    with pytest.raises(SleeperError) as caught:
        typed(line)
    return caught.value


def counts(report):
    return report.inserted, report.updated, report.deleted


def line_of(report):
    """The line that a plan says to type, after the magic."""
    said = repr(report).splitlines()[-1]
    assert said.startswith("nothing was changed; %sleeper ")
    assert said.endswith(" does it")
    return said.removeprefix("nothing was changed; %sleeper ").removesuffix(" does it")


@pytest.mark.parametrize(
    ("line", "changed"),
    [
        ('delete trips --where "fare < 0"', (0, 0, 1)),
        ("""delete trips --where "city = 'London' OR city = :there" """, (0, 0, 2)),
        ('update trips --set "fare = fare * 1.1" --set "riders = riders + 1" --where "riders > 1"', (0, 2, 0)),
        ('update trips --set fare=0 --set "riders = 0" --where true', (0, 3, 0)),
        ("""update trips --value fare=9 --where "city = 'athens'" """, (0, 1, 0)),
        ("upsert trips $more", (1, 1, 0)),
        ("upsert trips $more --on riders,city", (1, 1, 0)),
        ("overwrite trips $more --keys Rome,Kiev", (2, 0, 1)),
        ("""overwrite trips $more --where "city IN ('Rome', 'Kiev')" """, (2, 0, 1)),
        ('overwrite trips $more --region "city=[K,a)"', (2, 0, 2)),
        ("overwrite trips $more", (2, 0, 3)),
        ("delete trips", (0, 0, 3)),
        ("update trips --set fare=0", (0, 3, 0)),
    ],
)
def test_a_dry_run_counts_changes_nothing_and_shows_the_line_that_does_it(typed, rows, shell, line, changed):
    shell.user_ns |= {"there": "Rome", "more": pd.DataFrame({"city": ["Rome", "Kiev"], "fare": [7, 8], "riders": 2})}
    before = rows()
    plan = typed(f"{line} --dry-run")
    assert (plan.dry_run, counts(plan), plan.snapshot) == (True, changed, None)
    assert rows() == before
    again = line_of(plan)
    assert "--dry-run" not in again
    assert shlex.split(again)[: len(shlex.split(line))] == shlex.split(line)
    done = typed(again)
    assert (done.dry_run, counts(done)) == (False, changed)
    assert "--" not in repr(done).splitlines()[-1]
    assert len(rows()) == 3 + changed[0] - changed[2]


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ('delete trips --where "fare > 0"', [("removed", "London", 4.0), ("removed", "Rome", 6.0)]),
        ("delete trips", [("removed", "London", 4.0), ("removed", "Rome", 6.0), ("removed", "athens", -2.0)]),
        ("update trips --set fare=9 --where \"city = 'Rome'\"",
         [("update_preimage", "Rome", 6.0), ("update_postimage", "Rome", 9.0)]),
        ("update trips --value city=Zagreb --where \"city = 'Rome'\"",
         [("removed", "Rome", 6.0), ("added", "Zagreb", 6.0)]),
        ("upsert trips $more", [("added", "Kiev", 8.0), ("update_preimage", "Rome", 6.0),
                                ("update_postimage", "Rome", 7.0)]),
        ("overwrite trips $more --keys Rome,Kiev", [("added", "Kiev", 8.0), ("update_preimage", "Rome", 6.0),
                                                    ("update_postimage", "Rome", 7.0)]),
        ("delete trips --where \"city = 'Oslo'\"", []),
    ],
)  # fmt: skip
def test_a_dry_run_shows_the_rows_that_would_change(typed, rows, shell, line, changes):
    shell.user_ns["more"] = pd.DataFrame({"city": ["Rome", "Kiev"], "fare": [7, 8], "riders": 2})
    before = rows()
    shown = typed(f"{line} --dry-run --rows")
    found = shown.to_arrow().to_pylist()
    assert [(row["change"], row["city"], row["fare"]) for row in found] == changes
    assert rows() == before
    if changes:
        assert " · nothing was changed; %sleeper " in repr(shown)
        again = repr(shown).rpartition("%sleeper ")[2].removesuffix(" does it")
        done = typed(again)
        assert done.leaves == 1
        kinds = [kind for kind, *_ in changes]
        assert typed(f"diff trips {done.since} --rows --images").to_arrow()["change"].to_pylist() == kinds
    else:
        assert repr(shown).endswith("no row to change")


def test_rows_are_shown_of_dry_runs_only(typed):
    for line, named in [
        ("delete trips --where true --rows", "--rows needs --dry-run"),
        ("upsert trips $df --rows", "--rows needs --dry-run"),
    ]:
        assert named in refused(typed, line).message
    done = typed('delete trips --where "fare < 0"')
    with pytest.raises(InvalidInput, match="is no dry run") as caught:
        done.changed_rows()
    assert f"table.changes({done.since}, {done.snapshot.id}, images=True)" in caught.value.hint
    plan = typed("sql --dry-run MERGE INTO trips t USING trips s ON t.city = s.city AND s.fare > 5 "
                 "WHEN MATCHED THEN DELETE")  # fmt: skip
    assert (plan.source_rows, plan.matched, plan.leaves) == (2, 1, 1)
    assert plan.changed_rows()["city"].to_pylist() == ["Rome"]
    assert "planned" not in plan.to_dict()
    assert "1 of 2 rows of the source matched" in repr(plan)


def test_values_and_texts_arrive_as_they_were_typed(typed, rows):
    typed("""update trips --value "city=O'Hara \\"x\\"" --set "fare = NULL" --where "city = 'Rome'" """)
    assert fares(rows()) == {"London": 4.0, "athens": -2.0, 'O\'Hara "x"': None}
    typed("update trips --value city= --where \"city LIKE 'O%'\"")
    assert "" in fares(rows())
    typed("update trips --value 'city=  New  York ' --where \"city = ''\"")
    assert "  New  York " in fares(rows())


def test_a_change_of_all_rows_is_shown_until_force(typed, rows):
    before = rows()
    for line in ("update trips --set fare=0", "overwrite trips $df"):
        plan = typed(line)
        assert (plan.dry_run, line_of(plan)) == (True, f"{line} --force")
    assert rows() == before
    typed("update trips --set fare=0 --force")
    assert set(fares(rows()).values()) == {0}


def test_messages_and_job_ids_are_kept(typed):
    done = typed("upsert trips $df -m again --job-id a/1")
    again = typed("upsert trips $df -m again --job-id a/1")
    assert (done.snapshot.message, again.snapshot.id) == ("again", done.snapshot.id)
    assert repr(again).endswith("job 'a/1' was done before, in snapshot 2. Nothing was changed")


def test_without_a_row_to_change_there_is_no_new_version(typed):
    plan = typed('delete trips --where "fare > 99" --dry-run')
    assert repr(plan).endswith("no row to change")
    done = typed('delete trips --where "fare > 99"')
    assert done.snapshot is None
    assert repr(done).endswith("no row to change: the table stays at snapshot 1")


@pytest.mark.parametrize(
    ("line", "problem", "hint"),
    [
        ("update trips", "update sets no column", 'add --set "fare = fare * 1.1"'),
        ("update trips --set fare", "cannot read 'fare'", 'write --set "fare = fare * 1.1"'),
        ("update trips --value =1", "cannot read '=1'", "write --value city=London"),
        ("update trips --set fare=1 --set fare=2", "'fare' is given twice", "give it once"),
        ("update trips --set fare=1 --value fare=2", "column 'fare' gets two values", "name it once: --set or --value"),
        (
            "overwrite trips $df --keys Rome",
            "2 new rows outside of the part that is replaced",
            "such as city = 'London'",
        ),
        ("overwrite trips $df --keys Rome --where true", "takes a condition, or keys or a region", "omit one of them"),
        ("upsert trips df", "no data file 'df'", "write $df for the variable"),
        ("delete trips@1 --where true", "this works on the current version", "leave out @1"),
    ],
)
def test_a_wrong_line_says_what_to_type_and_changes_nothing(typed, rows, line, problem, hint):
    before = rows()
    error = refused(typed, line)
    assert problem in error.message
    assert error.hint.startswith(hint)
    assert rows() == before


def test_a_computed_value_that_does_not_fit_is_named_by_the_key_of_its_row(typed):
    error = refused(typed, "update trips --value riders=many --where \"city = 'Rome'\"")
    assert error.message == "column 'riders', value 1: 'many' is not a number"
    assert error.hint.endswith("nothing was changed")
    error = refused(typed, 'update trips --set "riders = riders * 3000000000" --where "riders > 1"')
    assert error.message.startswith("column 'riders', row city = '")
    assert error.message.endswith("cannot become int without loss (2 values)")


def test_the_last_line_of_a_statement_can_be_typed_again(typed, cell, rows):
    plan = cell("%%sleeper sql --dry-run\nDELETE FROM trips -- those of\nWHERE city = 'a  b' OR fare < 0")
    assert line_of(plan) == "sql DELETE FROM trips WHERE city = 'a  b' OR fare < 0"
    typed(line_of(plan))
    assert fares(rows()) == {"London": 4.0, "Rome": 6.0}
    plan = cell("%%sleeper sql\nUPDATE trips\nSET fare = 0 /* all */")
    assert line_of(plan) == "sql --force UPDATE trips SET fare = 0"
    assert typed(line_of(plan)).updated == 2
    several = cell("%%sleeper sql\nUPDATE trips SET city = 'a\nb'")
    assert repr(several).endswith("nothing was changed; --force does it")


def test_a_console_changes_rows_too(folder, sleeper):
    (folder / "new.csv").write_text(f"{HEADER}Rome,7,2\nKiev,8,2\n")
    (folder / "old.csv").write_text(f"{HEADER}London,4,1\nRome,6,2\nathens,-2,3\n")
    assert sleeper("create", "trips", "--from", "old.csv", "--keys", "city")[0] == 0
    code, out, _ = sleeper("upsert", "trips", "new.csv", "--dry-run")
    assert (code, "nothing was changed; sleeper upsert trips new.csv does it" in out) == (0, True)
    assert sleeper("upsert", "trips", "new.csv")[0] == 0
    code, out, said = sleeper("sql", "DELETE FROM trips")
    assert (code, "nothing was changed; sleeper sql --force 'DELETE FROM trips' does it" in out) == (1, True)
    assert "hint: sleeper sql --force 'DELETE FROM trips'" in said
    assert sleeper("delete", "trips", "--where", "fare < 0", "-m", "wrong")[0] == 0
    assert sleeper("sql", "SELECT count(*) AS n FROM trips")[1].split()[2] == "3"


def test_the_report_is_a_table_in_a_notebook_and_in_python(typed):
    done = typed("upsert trips $df")
    assert "<td" in done._repr_html_()
    assert done.to_arrow().to_pylist()[0]["updated"] == 3
    with sl.connect("warehouse") as session:
        table = session.table("trips")
        assert repr(table.upsert(pd.DataFrame(ROWS), dry_run=True)).endswith("the same without dry_run=True does it")
        assert repr(table.delete(dry_run=True)).endswith("nothing was changed; force=True does it")
        with pytest.raises(InvalidInput, match=r"updates=.*new_values="):
            table.update()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE trips SET fare = fare + 1 WHERE city = 'Rome'",
        "INSERT INTO trips VALUES ('Kiev', 7, 2)",
        "DELETE FROM trips WHERE city = 'Rome'",
        "MERGE INTO trips USING (SELECT 'Rome' AS city) s ON trips.city = s.city WHEN MATCHED THEN DELETE",
        "INSERT INTO trips REPLACE WHERE city = 'Rome' SELECT city, fare, riders FROM trips WHERE city = 'Rome'",
    ],
)
def test_a_statement_has_a_message_and_is_done_once_by_its_job_id(typed, rows, statement):
    line = f'sql -m "for Rome" --job-id rome-1 {statement}'
    typed(line)
    after, history = rows(), typed("history trips").to_arrow().to_pylist()
    assert history[0]["message"] == "for Rome"
    again = typed(line)
    assert "rome-1" in repr(again)
    assert (rows(), len(typed("history trips"))) == (after, len(history))


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("sql -m why SELECT 1", "a message is for"),
        ("sql --job-id a DROP TABLE trips", "a job id is for"),
        ("sql -m why ALTER TABLE trips ADD COLUMN note STRING", "a message is for"),
    ],
)
def test_a_message_of_a_statement_that_changes_no_rows_is_refused(typed, rows, line, named):
    error = refused(typed, line)
    assert error.message.startswith(named)
    assert error.hint.startswith("leave out -")
    assert rows()
