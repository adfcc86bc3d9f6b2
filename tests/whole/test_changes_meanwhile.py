"""What others commit while a change of rows is computed: no row is lost, doubled or comes back, and no rule is broken.

The change of one session stops where it is told to; another session works on the table, and the change goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput, NotFound, SleeperError
from tests.support.builders import NOW

SCHEMA = sl.Schema({"k": "int"}, {}, {"n": "int?", "text": "string?"})
FOUND, READ = "writing", "finding rows"
"""When others come: once the rows are found, and once the version is chosen but nothing is found in it."""


@dataclass
class Others:
    """A progress callback that lets others work on the table, once, at one step of a change."""

    step: str = ""
    work: Callable[[], object] | None = None
    seen: list[str] = field(default_factory=list)

    def update(self, text: str, done: int = 0, total: int = 0) -> None:  # noqa: ARG002 - the callback's own form
        self.seen.append(text)
        if text == self.step and self.work is not None:
            work, self.work = self.work, None
            work()

    def finish(self, text: str = "") -> None:
        pass

    @property
    def attempts(self) -> int:
        """How often the rows were looked for."""
        return self.seen.count(READ)


@dataclass
class Race:
    """A table, as two sessions have it: the one whose change is interrupted, and the other."""

    session: sl.Session
    other: sl.Session
    others: Others

    @property
    def mine(self) -> sl.Table:
        return self.session.table("t")

    @property
    def theirs(self) -> sl.Table:
        return self.other.table("t")

    def meanwhile(self, work: Callable[[sl.Table], object], at: str = FOUND) -> None:
        """Let the other session work at a step of the next change."""
        self.others.step, self.others.work, self.others.seen = at, lambda: work(self.theirs), []

    @property
    def rows(self) -> list[tuple[int, int | None]]:
        """The columns k and n of all rows, in order."""
        return sorted(tuple(row.values()) for row in self.theirs.scan(columns=["k", "n"]).to_arrow().to_pylist())


@pytest.fixture(params=[(0, 100), (1 << 30, 0)], ids=["vectors", "files"])
def race(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Race]:
    least, most = request.param
    others = Others()
    with sl.connect(tmp_path, progress=others) as session, sl.connect(tmp_path) as other:
        table = session.create_table("t", SCHEMA, [100])
        table.set_properties({
            "sleeper.table.deletion.vector.file.bytes.min": str(least),
            "sleeper.table.deletion.vector.percent.max": str(most),
        })  # fmt: skip
        yield Race(session, other, others)


def rows(*pairs: tuple[int, int | None]) -> list[dict[str, Any]]:
    return [{"k": k, "n": n} for k, n in pairs]


def is_sound(race: Race) -> bool:
    return race.other.table("t").maintenance.check(deep=True).ok


# The table's rules.


@pytest.mark.parametrize(
    ("alteration", "refused"),
    [
        ({"not_null": {"n": True}}, "n"),
        ({"checks": {"small": "n < 50"}}, "small"),
        ({"unique_keys": True}, "unique keys"),
    ],
    ids=["not null", "check", "unique keys"],
)
def test_a_rule_that_the_table_gets_meanwhile_is_kept(race: Race, alteration: dict[str, Any], refused: str):
    race.mine.ingest(rows((1, 1), (2, 2)))
    race.meanwhile(lambda table: table.alter(**alteration))
    values = {"unique keys": {"k": "2"}, "small": {"n": "99"}, "n": {"n": "NULL"}}[refused]
    with pytest.raises(SleeperError, match=refused):
        race.mine.update(values, "k = 1")
    assert race.rows == [(1, 1), (2, 2)]
    assert is_sound(race)


def test_a_column_that_is_dropped_or_renamed_meanwhile_is_missed_by_name(race: Race):
    race.mine.ingest(rows((1, 1), (2, 2)))
    race.meanwhile(lambda table: table.alter(drop_columns=["n"]))
    race.mine.update({"text": "'new'"}, "k = 1")
    assert race.theirs.scan().to_arrow().to_pylist() == [{"k": 1, "text": "new"}, {"k": 2, "text": None}]
    race.meanwhile(lambda table: table.alter(rename_columns={"text": "words"}))
    race.mine.update({"text": "'newer'"}, "k = 1")
    assert race.theirs.scan().to_arrow().to_pylist()[0] == {"k": 1, "words": "newer"}
    assert is_sound(race)


def test_a_column_that_becomes_wider_meanwhile_keeps_new_and_old_values(race: Race):
    race.mine.ingest(rows((1, 1), (2, 2)))
    race.meanwhile(lambda table: table.alter(types={"n": "long"}))
    race.mine.update({"n": "n + 1"}, "k = 1")
    race.theirs.upsert(rows((2, 2**40)))
    assert race.rows == [(1, 2), (2, 2**40)]
    assert is_sound(race)


def test_rows_that_queries_come_to_show_otherwise_meanwhile_are_not_changed(race: Race):
    race.mine.ingest(rows((1, 1), (1, 2)))
    race.mine.alter(drop_columns=["text"], not_null={"n": True})
    race.meanwhile(lambda table: table.set_properties({"sleeper.table.aggregations": "sum(n)"}))
    with pytest.raises(InvalidInput, match="cannot be changed"):
        race.mine.update({"n": "n + 1"}, "k = 1")
    race.theirs.set_properties({"sleeper.table.aggregations": ""})
    assert race.rows == [(1, 1), (1, 2)]


# The table itself.


def test_a_table_that_is_cleared_meanwhile_has_what_the_change_makes_of_no_rows(race: Race):
    race.mine.ingest(rows((1, 1), (200, 2)))
    race.meanwhile(lambda _: race.other.admin.reinitialise("t", force=True))
    done = race.mine.upsert(rows((1, 10), (3, 30)))
    assert (done.inserted, done.updated) == (2, 0)
    assert race.rows == [(1, 10), (3, 30)]
    assert is_sound(race)


def test_rows_are_inserted_by_what_is_there_when_others_took_rows_away(race: Race):
    race.mine.ingest(rows((1, 1), (200, 2)))
    race.meanwhile(lambda table: table.delete(force=True))
    source = rows((1, 10), (3, 30))
    done = race.mine.merge(source).when_not_matched_insert_all().execute()
    # before the deletion or after it: never one row of the two
    assert done.inserted == 2
    assert race.rows == [(1, 10), (3, 30)]


def test_a_table_that_is_replaced_meanwhile_is_changed_as_it_is_then(race: Race):
    race.mine.ingest(rows((1, 1)))
    race.meanwhile(lambda _: race.other.sql("CREATE OR REPLACE TABLE t ROW KEYS (k) AS SELECT 1::INT k, 5::INT n"))
    race.mine.update({"n": "n + 1"}, "k = 1")
    assert race.rows == [(1, 6)]
    race.meanwhile(lambda _: race.other.sql("CREATE OR REPLACE TABLE t ROW KEYS (name) AS SELECT 'x' AS name, 1 AS n"))
    with pytest.raises(SleeperError, match="k"):
        race.mine.upsert(rows((1, 1)))
    assert is_sound(race)


def test_a_table_that_is_deleted_meanwhile_is_named(race: Race):
    race.mine.ingest(rows((1, 1)))
    race.meanwhile(lambda _: race.other.drop_table("t", force=True))
    with pytest.raises(NotFound, match="'t'"):
        race.mine.update({"n": "n + 1"}, "k = 1")


# Rows that a change reads.


@pytest.mark.parametrize("at", [READ, FOUND])
def test_of_two_upserts_of_one_new_key_one_updates(race: Race, at: str):
    race.meanwhile(lambda table: table.upsert(rows((1, 1))), at)
    done = race.mine.upsert(rows((1, 2)))
    assert (done.inserted, done.updated) == (0, 1)
    assert race.rows == [(1, 2)]


@pytest.mark.parametrize("at", [READ, FOUND])
def test_rows_that_are_added_meanwhile_are_not_lost_by_an_overwrite_that_reads_the_table(race: Race, at: str):
    race.mine.ingest(rows((1, 1)))
    race.meanwhile(lambda table: table.ingest(rows((2, 2))), at)
    race.session.sql("INSERT OVERWRITE t SELECT k, n + 10 AS n, text FROM t", force=True)
    assert race.rows in ([(1, 11), (2, 12)], [(1, 11), (2, 2)])


@pytest.mark.parametrize("at", [READ, FOUND])
def test_an_update_meanwhile_is_not_lost_by_a_merge_whose_source_reads_the_table(race: Race, at: str):
    race.mine.ingest(rows((1, 1)))
    race.meanwhile(lambda table: table.update({"n": "n + 100"}, "k = 1"), at)
    race.session.sql(
        "MERGE INTO t USING (SELECT k, n + 1 AS n FROM t) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = s.n"
    )
    assert race.rows == [(1, 102)]


def test_values_that_are_read_elsewhere_in_the_table_are_the_newest(race: Race):
    race.mine.ingest(rows((1, 1), (200, 5)))
    race.meanwhile(lambda table: table.update({"n": "50"}, "k = 200"))
    race.mine.update({"n": "(SELECT max(n) + 1 FROM t)"}, "k = 1")
    assert race.rows == [(1, 51), (200, 50)]


def test_rows_that_no_source_has_go_also_when_they_come_meanwhile(race: Race):
    race.mine.ingest(rows((1, 1), (2, 2)))
    race.meanwhile(lambda table: table.ingest(rows((200, 3))))
    merge = race.mine.merge(rows((1, 10))).when_matched_update_all().when_not_matched_by_source_delete()
    merge.execute()
    assert race.rows == [(1, 10)]


def test_of_two_changes_of_rows_of_one_file_none_is_lost(race: Race):
    race.mine.ingest(rows(*((k, 0) for k in range(10))))
    race.meanwhile(lambda table: table.delete("k = 3"))
    race.mine.update({"n": "n + 1"}, "k = 4")
    assert race.rows == [(k, int(k == 4)) for k in range(10) if k != 3]
    assert race.others.attempts == 2
    assert is_sound(race)


def test_appends_do_not_make_an_update_of_other_keys_start_again(race: Race):
    race.mine.ingest(rows((1, 0), (50, 0)))
    race.meanwhile(lambda table: table.ingest(rows((60, 0), (200, 0))))
    race.mine.update({"n": "1"}, "k < 10")
    assert race.others.attempts == 1
    assert race.rows == [(1, 1), (50, 0), (60, 0), (200, 0)]


# The property sleeper.table.change.isolation.


def isolated(race: Race, isolation: str) -> None:
    race.mine.set_properties({"sleeper.table.change.isolation": isolation})


@pytest.mark.parametrize(("isolation", "attempts", "left"), [("serializable", 2, []), ("snapshot", 1, [(3, 0)])])
def test_rows_that_are_added_where_a_delete_looks_stay_with_snapshot_isolation(
    race: Race, isolation: str, attempts: int, left: list[tuple[int, int]]
):
    race.mine.ingest(rows((1, 0), (2, 0)))
    isolated(race, isolation)
    race.meanwhile(lambda table: table.ingest(rows((3, 0))))
    race.mine.delete("k < 10", force=True)
    assert race.others.attempts == attempts
    assert race.rows == left


def test_a_purge_leaves_no_row_that_is_added_meanwhile_whatever_the_isolation(race: Race):
    race.mine.ingest(rows((1, 0), (50, 0)))
    isolated(race, "snapshot")
    race.meanwhile(lambda table: table.ingest(rows((3, 0))))
    race.mine.maintenance.purge("k < 10", force=True)
    assert race.rows == [(50, 0)]


def test_an_update_leaves_added_rows_as_they_are_with_snapshot_isolation(race: Race):
    race.mine.ingest(rows((1, 0), (2, 0)))
    isolated(race, "snapshot")
    race.meanwhile(lambda table: table.ingest(rows((1, 5), (3, 0))))
    race.session.sql("UPDATE t SET n = n + 1 WHERE n = 0 AND k IN (SELECT k FROM t)")
    assert race.others.attempts == 1
    assert race.rows == [(1, 1), (1, 5), (2, 1), (3, 0)]
    assert is_sound(race)


def test_changes_of_the_same_rows_and_upserts_start_again_also_with_snapshot_isolation(race: Race):
    race.mine.ingest(rows(*((k, 0) for k in range(4))))
    isolated(race, "snapshot")
    race.meanwhile(lambda table: table.update({"n": "10"}, "k = 1"))
    race.mine.update({"n": "n + 1"}, "k < 3")
    assert race.rows == [(0, 1), (1, 11), (2, 1), (3, 0)]
    race.meanwhile(lambda table: table.delete("k = 0"))
    race.mine.update({"n": "n + 1"}, "k < 3")
    assert race.rows == [(1, 12), (2, 2), (3, 0)]
    race.meanwhile(lambda table: table.ingest(rows((7, 1))))
    assert race.mine.upsert(rows((7, 2))).updated == 1
    race.meanwhile(lambda table: table.ingest(rows((8, 1))))
    race.session.sql("INSERT OVERWRITE t SELECT k, n + 10 AS n, text FROM t", force=True)
    assert race.rows == [(1, 22), (2, 12), (3, 10), (7, 12), (8, 11)]
    race.meanwhile(lambda table: table.ingest(rows((9, 1))))
    race.mine.merge(rows((1, 0))).when_not_matched_by_source_delete().execute()
    assert race.rows == [(1, 22)]
    assert is_sound(race)


def test_a_unique_key_that_is_added_meanwhile_is_found_also_with_snapshot_isolation(race: Race):
    race.mine.ingest(rows((1, 1)))
    race.mine.alter(unique_keys=True)
    isolated(race, "snapshot")
    race.meanwhile(lambda table: table.ingest(rows((2, 2))))
    with pytest.raises(SleeperError, match="unique keys"):
        race.mine.update({"k": "2"}, "k = 1")
    assert race.rows == [(1, 1), (2, 2)]


# The files.


def compacted(table: sl.Table) -> None:
    table.maintenance.compact(strategy="all")


def compacted_and_cleaned(table: sl.Table) -> None:
    table.maintenance.compact(strategy="all")
    table.maintenance.expire(dry_run=False, time_retained=NOW, num_retained_min=1, num_retained_max=1)
    table.maintenance.collect_garbage(dry_run=False, delay=NOW)


WORK: dict[str, Callable[[sl.Table], object]] = {
    "compacts": compacted,
    "splits": lambda table: table.maintenance.split(at=5),
    "compacts and cleans": compacted_and_cleaned,
    "rolls back": lambda table: table.rollback(table.at().resolved.snapshot_id - 2),
}


@pytest.mark.parametrize("at", [READ, FOUND])
@pytest.mark.parametrize("work", WORK)
def test_upkeep_meanwhile_and_a_change_both_count(race: Race, work: str, at: str):
    race.mine.ingest(rows(*((k, 0) for k in range(8))))
    race.mine.ingest(rows((8, 0), (9, 0)))
    race.mine.delete("k = 9")
    before = race.rows
    race.meanwhile(WORK[work], at)
    race.mine.update({"n": "n + 1"}, "k IN (1, 8)")
    assert race.others.work is None
    kept = [(k, n) for k, n in before if work != "rolls back" or k < 8]
    assert race.rows == [(k, n + (k in {1, 8})) for k, n in kept]
    assert is_sound(race)
