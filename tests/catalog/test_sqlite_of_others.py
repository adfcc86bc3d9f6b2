"""A catalog file that somebody else made runs nothing, and an interrupt ends every statement on it."""

from __future__ import annotations

import contextlib
import signal
import sqlite3

import pytest

import sleeper_nb as sl
from sleeper_nb.catalog.sqlite import SqliteCatalog
from sleeper_nb.catalog.sqlite_file import NamesInFile, SqliteFile
from sleeper_nb.errors import CatalogDamaged

NUMBERS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
ENDLESS = f"{NUMBERS} SELECT count(*) FROM c"
FOREIGN = {
    "view 'tables'": f"DROP TABLE tables; CREATE VIEW tables AS SELECT ({ENDLESS}) AS id, '' AS name, 1 AS online",
    "view 'deleted'": f"DROP TABLE deleted; CREATE VIEW deleted AS {NUMBERS} SELECT x AS id FROM c",
    "view 'mine'": "CREATE VIEW mine AS SELECT 1",
    "trigger 'on_lease'": f"CREATE TRIGGER on_lease AFTER INSERT ON leases BEGIN SELECT ({ENDLESS}); END",
    "table 'mine'": "CREATE TABLE mine (a)",
    "index 'mine'": "CREATE INDEX mine ON tables (hex(zeroblob(length(name) * 100000000)))",
    "table 'log' with computed columns": "ALTER TABLE log ADD COLUMN more TEXT AS (hex(zeroblob(100000000)))",
    "table 'deleted' with computed columns or rules": "DROP TABLE deleted; CREATE TABLE deleted (id TEXT, "
    """[a"] TEXT, more TEXT AS (hex(zeroblob(100000000))), [b"] TEXT)""",
    "table 'services' with computed": 'DROP TABLE services; CREATE TABLE services (id TEXT, more"TEXT"AS(upper(id)))',
    "table 'deleted' with computed": "DROP TABLE deleted; CREATE TABLE deleted (id TEXT CHECK (length(id) < 9))",
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_catalog_with_more_than_our_tables_is_refused_by_name(tmp_path, what):
    with sl.connect(tmp_path / "house") as session:
        session.create_table("t", sl.Schema({"city": "string"}))
    file = tmp_path / "house" / "default" / "catalog.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as theirs:
        theirs.executescript(FOREIGN[what])
    before = file.read_bytes()
    with pytest.raises(CatalogDamaged, match=f"has the {what}.*which sleeper_nb did not make"):
        sl.connect(tmp_path / "house")
    assert file.read_bytes() == before
    if "view" in what or "trigger" in what:
        assert NamesInFile(file).tables() == ()  # for Tab, which opens no session


def test_a_file_of_another_program_gets_no_tables_of_ours(tmp_path):
    (tmp_path / "default").mkdir()
    with contextlib.closing(sqlite3.connect(tmp_path / "default" / "catalog.sqlite")) as theirs:
        theirs.execute("CREATE TABLE notes (a)")
    with pytest.raises(CatalogDamaged, match="table 'notes'"):
        sl.connect(tmp_path)


def test_statistics_of_sqlite_are_no_foreign_tables(tmp_path):
    SqliteCatalog(tmp_path / "catalog.sqlite").close()
    with contextlib.closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as behind:
        behind.execute("ANALYZE")
    assert SqliteCatalog(tmp_path / "catalog.sqlite").tables() == ()


def test_an_interrupt_ends_a_statement_and_the_catalog_goes_on(tmp_path):
    path = tmp_path / "f.sqlite"
    file = SqliteFile(
        path, sync=False, format_version=1, tables={"a"}, upgrade=lambda run: run.execute("CREATE TABLE a (b)")
    )

    def write_without_end():
        with file.transaction() as run:
            run.execute("INSERT INTO a VALUES (1)")
            run.execute(ENDLESS)

    usual = signal.signal(signal.SIGALRM, signal.default_int_handler)
    try:
        for endless in (lambda: file.rows(ENDLESS), write_without_end, lambda: NamesInFile(path)._rows(ENDLESS)):
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            with pytest.raises(KeyboardInterrupt):
                endless()
    finally:
        signal.signal(signal.SIGALRM, usual)
    with file.transaction() as run:
        run.execute("INSERT INTO a VALUES (2)")
    assert file.rows("SELECT b FROM a") == [(2,)]
    file.close()
