"""Changes of rows that are meant to break something: text that is more than it should be, odd names, odd values."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

import sleeper_nb as sl
from sleeper_nb.model.transactions import EditCounts
from tests.support.builders import data_files

SCHEMA = sl.Schema({"k": "int"}, {}, {"n": "int?", "s": "string?"})


@pytest.fixture
def session(tmp_path):
    with sl.connect(tmp_path) as opened:
        yield opened


@pytest.fixture
def table(session):
    made = session.create_table("t", SCHEMA)
    made.ingest([{"k": i, "n": i, "s": str(i)} for i in range(10)])
    return made


def rows_of(table):
    return {row["k"]: (row["n"], row["s"]) for row in table.scan().to_arrow().to_pylist()}


# Expressions that are more than one expression.


def test_a_comment_ends_with_its_expression(table):
    table.update({"n": "n + 100 -- more", "s": "'x' /* text */"}, "k = 3 -- only this one")
    assert rows_of(table)[3] == (103, "x")
    assert rows_of(table)[4] == (4, "4")
    table.overwrite([{"k": 9, "n": 0}], where="k = 9 -- the last one")
    assert rows_of(table)[9] == (0, None)
    merge = table.merge([{"k": 1, "n": 5}, {"k": 2, "n": 5}], predicate="source.k = target.k -- keys")
    merge.when_matched_update({"n": "source.n -- new"}, predicate="source.k = 1 -- one").execute()
    assert [rows_of(table)[k][0] for k in (1, 2)] == [5, 2]


MORE = {
    "update: another column": lambda t: t.update({"n": "1, s = 'x'"}, "k = 3"),
    "update: a condition": lambda t: t.update({"n": "5 WHERE k = 2"}, force=True),
    "update: a condition and a comment": lambda t: t.update({"n": "5 WHERE k = 2 --"}, "k = 3"),
    "delete: brackets": lambda t: t.delete("k = 3) OR (1 = 1"),
    "delete: a second statement": lambda t: t.delete("k = 3; DELETE FROM t"),
    "delete: a clause": lambda t: t.delete("k = 3 LIMIT 1"),
    "delete: nothing": lambda t: t.delete(""),
    "delete: a comment": lambda t: t.delete("-- k = 3"),
    "overwrite: a query": lambda t: t.overwrite([{"k": 7}], "true) SELECT 1 AS k --"),
    "merge: a clause in a value": lambda t: (
        t.merge([{"k": 1}]).when_matched_update({"n": "1 WHEN NOT MATCHED BY SOURCE THEN DELETE"}).execute()
    ),
    "merge: a clause in a predicate": lambda t: (
        t.merge([{"k": 1}]).when_matched_delete("true) THEN DELETE WHEN NOT MATCHED BY SOURCE AND (true").execute()
    ),
    "merge: an action in a predicate": lambda t: t.merge([{"k": 1}]).when_matched_delete("true THEN DELETE").execute(),
    "merge: a clause in the match": lambda t: (
        t.merge([{"k": 1}], predicate="source.k = target.k WHEN NOT MATCHED BY SOURCE THEN DELETE")
        .when_matched_delete("false")
        .execute()
    ),
    "merge: a second value": lambda t: (
        t.merge([{"k": 99}]).when_not_matched_insert({"k": "source.k", "n": "1, 2"}).execute()
    ),
    "merge: a second row": lambda t: (
        t.merge([{"k": 99}]).when_not_matched_insert({"k": "source.k", "n": "1), (2, 3"}).execute()
    ),
}


@pytest.mark.parametrize("change", MORE.values(), ids=MORE)
def test_an_expression_is_one_expression(table, change):
    before, files = table.at().resolved.version, data_files(table._store)
    with pytest.raises(sl.errors.InvalidInput):
        change(table)
    assert table.at().resolved.version == before
    assert data_files(table._store) == files


def test_names_are_quoted(session):
    names = {"order": "int?", "Where": "string?", "source": "int?", "target": "int?", "values": "int?"}
    table = session.create_table("select", sl.Schema({"Group": "int"}, {}, names))
    row = {"Group": 1, "order": 2, "Where": "it's", "source": 3, "target": 4, "values": 5}
    table.upsert([row])
    table.upsert([{**row, "order": 7}, {**row, "Group": 2}])
    table.update({"source": '"source" + "target"'}, '"order" = 7', new_values={"where": "x' OR 1=1"})
    table.merge([{"Group": 2, "target": 9}]).when_matched_update_all().execute()
    table.merge([{"Group": 3, "values": 9}]).when_not_matched_insert_all().execute()
    found = session.sql('SELECT * FROM "select" ORDER BY "group"').to_arrow().to_pylist()
    assert [tuple(each.values()) for each in found] == [
        (1, 7, "x' OR 1=1", 7, 4, 5), (2, 2, "it's", 3, 9, 5), (3, None, None, None, None, 9),
    ]  # fmt: skip
    session.sql('DELETE FROM "select" AS "a b" WHERE "a b"."ORDER" = 2')
    assert session.sql('SELECT count(*) AS n FROM "select"').to_arrow().to_pylist() == [{"n": 2}]


@pytest.mark.parametrize("name", ["source", "target", "SOURCE", "new_rows"])
def test_a_table_may_be_called_as_the_parts_of_a_merge(session, name):
    table = session.create_table(name, SCHEMA)
    table.ingest([{"k": 1, "n": 1}, {"k": 2, "n": 2}])
    assert table.upsert([{"k": 2, "n": 20}, {"k": 3, "n": 30}]).counts == EditCounts(1, 1)
    done = table.merge([{"k": 1, "n": 5}]).when_matched_update({"n": "source.n + target.n"}).execute()
    assert done.updated == 1
    table.overwrite([{"k": 3, "n": 31}], where="k = 3")
    assert {key: n for key, (n, _) in rows_of(table).items()} == {1: 6, 2: 20, 3: 31}


def test_a_merge_updates_rows_that_the_source_lacks(session):
    table = session.create_table("t9", SCHEMA)
    table.ingest([{"k": 1, "n": 1}, {"k": 2, "n": 2}, {"k": 3, "n": 3}])
    merge = table.merge([{"k": 1, "n": 5}])
    done = merge.when_not_matched_by_source_update({"n": "target.n * 10"}, "target.k < 3").execute()
    assert done.updated == 1
    assert {key: n for key, (n, _) in rows_of(table).items()} == {1: 1, 2: 20, 3: 3}


def test_parameters_keep_their_names(table):
    names = {f"{name}_{number}": 3 for name in ("new_value", "bound") for number in range(3)}
    table.update({}, "k = :new_value_0 AND k = :bound_0", new_values={"n": 77}, params=names)
    assert rows_of(table)[3] == (77, "3")
    assert [key for key, (n, _) in rows_of(table).items() if n == 77] == [3]


# Dry runs whose rows are read later.


def test_rows_of_a_dry_run_are_those_that_it_found(table):
    plan = table.update({"n": "n + floor(random() * 1000)::INT"}, "random() < 0.5", dry_run=True)
    first = plan.changed_rows()
    table.delete("k < 9")
    assert plan.changed_rows().equals(first)
    assert first.num_rows == 2 * plan.updated
    table.maintenance.compact(strategy="all")
    now = timedelta(0)
    table.maintenance.expire(dry_run=False, time_retained=now, num_retained_min=1)
    table.maintenance.collect_garbage(dry_run=False, delay=now)
    if plan.updated:
        with pytest.raises(sl.errors.NotFound, match="are gone") as caught:
            plan.changed_rows()
        assert caught.value.hint == "make the dry run again"


def test_a_column_may_be_called_as_that_of_the_kinds(session):
    table = session.create_table("t", sl.Schema({"k": "int"}, {}, {"Change": "string?", "_change": "int?"}))
    table.ingest([{"k": 1, "Change": "x", "_change": 1}])
    found = table.update({"change": "'y'"}, "k = 1", dry_run=True).changed_rows()
    assert found.column_names == ["__change", "k", "Change", "_change"]
    assert found.column(0).to_pylist() == ["update_preimage", "update_postimage"]


# Values that are other ones the next time.


def test_a_condition_by_chance_is_asked_once_for_each_row(session):
    table = session.create_table("t", SCHEMA)
    table.ingest([{"k": i, "n": 0, "s": "old"} for i in range(200)])
    done = session.sql(
        "MERGE INTO t USING (SELECT k + 100 AS k FROM t) s ON t.k = s.k "
        "WHEN MATCHED AND random() < 0.5 THEN UPDATE SET n = 1 WHEN MATCHED AND random() < 0.5 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET n = 2 "
        "WHEN NOT MATCHED AND random() < 0.5 THEN INSERT (k, n) VALUES (s.k, 3) "
        "WHEN NOT MATCHED AND random() < 0.5 THEN DO NOTHING WHEN NOT MATCHED THEN INSERT (k, n) VALUES (s.k, 4) "
        "WHEN NOT MATCHED BY SOURCE AND random() < 0.5 THEN UPDATE SET n = 5 "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = 6"
    )
    found = Counter(n for n, _ in rows_of(table).values())
    assert set(found) == {1, 2, 3, 4, 5, 6}
    assert found[1] + found[2] + found[5] + found[6] == done.updated == 200 - done.deleted
    assert found[3] + found[4] == done.inserted


def test_a_value_by_chance_is_the_one_that_is_written(session, table):
    done = session.sql("UPDATE t SET n = floor(random() * 1000)::INT, s = uuid()::VARCHAR WHERE random() < 0.5")
    changed = {k: row for k, row in rows_of(table).items() if row != (k, str(k))}
    assert len(changed) == done.updated
    assert len({s for _, s in changed.values()}) == done.updated


def test_a_value_is_computed_only_for_rows_of_its_clause(session, table):
    session.sql("UPDATE t SET s = 'none' WHERE k = 5")
    done = session.sql(
        "MERGE INTO t USING (SELECT k FROM t) x ON t.k = x.k WHEN MATCHED AND s = 'none' THEN DO NOTHING "
        "WHEN MATCHED THEN UPDATE SET n = CAST(t.s AS INT) + 1000"
    )
    assert done.updated == 9
    assert rows_of(table)[6] == (1006, "6")
    assert rows_of(table)[5] == (5, "none")


# Rows as a whole would have our own columns in them.


@pytest.mark.parametrize("statement", [
    "UPDATE t SET s = t::VARCHAR WHERE k = 1",
    "UPDATE t AS x SET s = to_json(x) WHERE k = 1",
    'UPDATE t AS "a b" SET s = ("a b")::VARCHAR WHERE k = 1',
    "UPDATE t SET s = struct_pack(t.*)::VARCHAR WHERE k = 1",
    "DELETE FROM t WHERE t IN (SELECT t FROM t)",
    "DELETE FROM t WHERE COLUMNS(*) IS NOT NULL",
    "DELETE FROM t WHERE hash(T) > 0",
    "MERGE INTO t USING (SELECT * FROM t) s ON t = s WHEN MATCHED THEN DELETE",
    "MERGE INTO t USING (SELECT * FROM t) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET s = s::VARCHAR",
    "MERGE INTO t USING (SELECT * FROM t) s2 ON t.k = s2.k WHEN MATCHED THEN UPDATE SET s = s2::VARCHAR",
    "INSERT INTO t REPLACE WHERE t IS NOT NULL SELECT * FROM t",
    "DELETE FROM t WHERE EXISTS (SELECT 1 FROM u b WHERE b = t)",
    "DELETE FROM t WHERE EXISTS (SELECT 1 FROM (SELECT * FROM u) b, LATERAL (SELECT t AS r) WHERE b = r)",
    "DELETE FROM t WHERE EXISTS (SELECT 1 FROM t AS other WHERE hash(t) > 0)",
    "DELETE FROM t WHERE EXISTS (SELECT 1 FROM u WHERE k IN (SELECT k FROM t) AND t::VARCHAR LIKE '%1%')",
    "DELETE FROM t WHERE EXISTS (SELECT COLUMNS(t.*) FROM u)",
    "DELETE FROM t WHERE k IN (SELECT k FROM t UNION SELECT k FROM u WHERE u IS DISTINCT FROM t)",
    "DELETE FROM t WHERE EXISTS (FROM u WHERE (t).k = 1)",
    "DELETE FROM t WHERE EXISTS (SELECT t.* FROM t)",
    "DELETE FROM t WHERE EXISTS (SELECT 1 FROM t WHERE t IS NOT NULL)",
    'DELETE FROM t AS "a b" WHERE EXISTS (SELECT 1 FROM u WHERE u = "A B")',
    "UPDATE t SET s = (SELECT t::VARCHAR FROM u LIMIT 1) WHERE k = 1",
    "MERGE INTO t USING u ON t.k = u.k WHEN MATCHED AND EXISTS (SELECT 1 FROM u x WHERE x = u) THEN DELETE",
    "MERGE INTO t USING u ON EXISTS (SELECT 1 FROM u x WHERE x = t) WHEN MATCHED THEN DELETE",
    "INSERT INTO t REPLACE WHERE EXISTS (SELECT 1 FROM u WHERE u = t) SELECT * FROM t",
])  # fmt: skip
def test_a_row_as_a_whole_is_refused(session, table, statement):
    session.sql("CREATE TABLE u ROW KEYS (k) AS SELECT * FROM t")
    before = table.at().resolved.version
    is_column = "SET s = s::" in statement  # the table's own column
    if is_column:
        with pytest.raises(sl.errors.InvalidInput, match="Ambiguous"):
            session.sql(statement)
    else:
        with pytest.raises(sl.errors.InvalidInput, match="stands for a whole row here"):
            session.sql(statement)
    assert table.at().resolved.version == before


@pytest.mark.parametrize("condition", [
    "k * n > 1", "EXISTS (SELECT x.* FROM t x)", "EXISTS (SELECT 1 FROM (SELECT * FROM t) AS t WHERE t.k > 0)",
    "EXISTS (SELECT 1 FROM (SELECT * FROM t) t WHERE t.k > 0)",
    "EXISTS (SELECT 1 FROM t VERSION AS OF 2 AS t WHERE t.k > 0)", "k IN (SELECT t2.k FROM t t2 JOIN t ON t2.k = t.k)",
    "k IN (WITH x AS MATERIALIZED (SELECT k FROM t) SELECT x.k FROM x)",
    "(SELECT count(*) FROM t) > 1", "EXISTS (SELECT * FROM t AS t2 WHERE t2.k = t.k AND t2 IS NOT NULL)",
    "k IN (SELECT max(t.k) FROM t GROUP BY ALL HAVING t.k > 1)",



    "k IN (SELECT v.t FROM (SELECT k AS t FROM t) v)",

    "t.n * t.k >= 0", "len({t: k}::VARCHAR) > 0", "struct_pack(t := k).t >= 0", "k IN (FROM (SELECT k FROM t))",
])  # fmt: skip
def test_what_only_looks_like_a_row_as_a_whole_is_allowed(session, table, condition):
    assert session.sql(f"DELETE FROM t WHERE {condition}", dry_run=True).deleted > 0


def test_tables_called_like_types_and_units_take_conditions(session):
    table = session.create_table("date", sl.Schema({"k": "int"}, {}, {"d": "date?"}))
    table.upsert([{"k": 1, "d": "2026-01-31"}])
    condition = "d + INTERVAL 1 day > DATE '2026-01-31' AND CAST(d AS date) = d AND extract(day FROM d) = 31"
    assert table.delete(condition, dry_run=True).deleted == 1


def test_rows_match_by_one_column_at_least(table):
    with pytest.raises(sl.errors.InvalidInput, match="on names no column"):
        table.upsert([{"k": 1}], on=[])


@pytest.mark.usefixtures("table")
def test_a_column_that_is_called_as_the_table_needs_its_own_table_in_a_subquery(session):
    session.sql("CREATE TABLE u ROW KEYS (t) AS SELECT 1 AS t")
    with pytest.raises(sl.errors.InvalidInput, match="t stands for a whole row here") as caught:
        session.sql("DELETE FROM t WHERE k IN (SELECT t FROM u)")
    assert "for a column t of another table write u.t" in caught.value.hint
    assert caught.value.place.splitlines()[-1].index("^") == caught.value.place.splitlines()[0].index("t FROM u")
    assert session.sql("DELETE FROM t WHERE k IN (SELECT u.t FROM u)", dry_run=True).deleted == 1
