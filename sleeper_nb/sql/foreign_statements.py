"""Statements that other databases have: each is refused, with what does the same here."""

from __future__ import annotations

import shlex
from typing import Final

from sleeper_nb.errors import Action, Hint, InvalidInput
from sleeper_nb.sql.grammar import StatementReader, opens_query
from sleeper_nb.sql.tokens import skip_brackets

_UPDATE_AND_INSERT: Final = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
_ONE_COMMIT: Final = "there are no transactions of several statements"
_TO_GO_BACK: Final = "each statement is one commit; to be able to go back, create a savepoint first: "


def to_update_rows(table: str) -> Hint:
    """Return the hint of a statement that would update the rows which have the keys of new rows."""
    upsert = Action(f"upsert {table} $df", f"session.table({table!r}).upsert(df)")
    merge = f"MERGE INTO {table} USING s ON {table}.k = s.k"
    return "to update rows that exist: ", upsert, f", or {merge} {_UPDATE_AND_INSERT}"


def to_add_new_rows(table: str) -> Hint:
    """Return the hint of a statement that would leave the rows alone which have the keys of new rows."""
    return (
        f"to add only rows that are new: MERGE INTO {table} USING s ON {table}.k = s.k WHEN NOT MATCHED THEN INSERT *"
    )


def refuse_replace(reader: StatementReader) -> None:
    """Refuse ``REPLACE INTO`` of MySQL and ``REPLACE TABLE`` of Spark."""
    start = reader.offset
    reader.skip("REPLACE")
    if reader.skip("TABLE"):
        hint = f"write CREATE OR REPLACE TABLE {_table(reader)} ROW KEYS (…) AS SELECT …"
        raise reader.error("there is no REPLACE TABLE", hint, start)
    if reader.skip("INTO"):
        raise reader.error("there is no REPLACE INTO", to_update_rows(_table(reader)), start)


def refuse_upsert(reader: StatementReader) -> None:
    """Refuse ``UPSERT INTO``."""
    start = reader.offset
    reader.skip("UPSERT")
    if reader.skip("INTO"):
        raise reader.error("there is no UPSERT INTO", to_update_rows(_table(reader)), start)


def refuse_copy(reader: StatementReader) -> None:
    """Refuse ``COPY``, which loads and writes files."""
    start = reader.offset
    reader.skip("COPY")
    reader.skip("INTO")
    query = ""
    if opens_query(reader):
        opened = reader.at
        reader.at = skip_brackets(reader.tokens, reader.at)
        query = reader.statement.text[reader.tokens[opened].end : reader.tokens[reader.at - 1].start].strip()
    table = "" if query else _table(reader)
    if reader.spells("("):
        reader.at = skip_brackets(reader.tokens, reader.at)
    is_load = reader.skip("FROM")
    file = _file(reader if is_load or reader.skip("TO") else None)
    raise reader.error("there is no COPY", _instead_of_copy(table, query, file, is_load=is_load), start)


def _instead_of_copy(table: str, query: str, file: str, *, is_load: bool) -> Hint:
    if query:
        rows = Action(f"sql --as pandas -o df {query}", f"df = session.sql({query!r}).to_pandas()")
        return "to write a file: ", rows, f", then df.to_csv({file!r})"
    if is_load:
        return "to load a file: ", Action(
            f"ingest {table} {shlex.quote(file)}", f"session.table({table!r}).ingest({file!r})"
        )
    return "to write a file: ", Action(
        f"export {table} {shlex.quote(file)}", f"session.table({table!r}).export({file!r})"
    )


def refuse_vacuum(reader: StatementReader) -> None:
    """Refuse ``VACUUM``, which deletes files that no version needs."""
    start = reader.offset
    reader.skip("VACUUM")
    if reader.is_at_end:
        instead = Action("maintain --dry-run", "session.maintain(dry_run=True)")
    else:
        table = _table(reader)
        instead = Action(f"collect-garbage {table}", f"session.table({table!r}).maintenance.collect_garbage()")
    raise reader.error("there is no VACUUM", ("to see which old files could be deleted: ", instead), start)


def refuse_optimize(reader: StatementReader) -> None:
    """Refuse ``OPTIMIZE``, which merges small files."""
    start = reader.offset
    reader.skip("OPTIMIZE")
    reader.skip("TABLE")
    table = _table(reader)
    instead = Action(f"compact {table}", f"session.table({table!r}).maintenance.compact()")
    raise reader.error("there is no OPTIMIZE", ("to merge files: ", instead), start)


def refuse_restore(reader: StatementReader) -> None:
    """Refuse ``RESTORE``, which goes back to a version."""
    start = reader.offset
    reader.skip("RESTORE")
    reader.skip("TABLE")
    table = _table(reader)
    last = reader.tokens[-1]
    version = last.text if last.kind in {"number", "string"} else "1"
    in_python = f"timestamp={version}" if last.kind == "string" else version
    instead = Action(f"rollback {table} {version}", f"session.table({table!r}).rollback({in_python})")
    raise reader.error("there is no RESTORE", ("to restore a version: ", instead), start)


def refuse_show_create(reader: StatementReader) -> None:
    """Refuse ``SHOW CREATE TABLE``, which shows how a table is defined."""
    start = reader.offset
    if not reader.skip("SHOW", "CREATE", "TABLE"):
        return
    table = _table(reader)
    columns = Action(f"describe {table} --fields", f"session.table({table!r}).schema")
    hint = ("to see its columns and rules: ", columns, f"; to make a table like it: CREATE TABLE u LIKE {table}")
    raise reader.error("there is no SHOW CREATE TABLE", hint, start)


def refuse_transaction(reader: StatementReader) -> None:
    """Refuse ``BEGIN``, ``COMMIT`` and the like."""
    save = Action("create-savepoint T", "table.create_savepoint()")
    raise reader.error(_ONE_COMMIT, (_TO_GO_BACK, save), reader.offset)


def no_index(reader: StatementReader) -> InvalidInput:
    """Return the error of ``CREATE INDEX``."""
    return reader.error(
        "there are no indexes", "a table is sorted by its keys, and files have statistics", reader.offset
    )


def _table(reader: StatementReader) -> str:
    """Return the table's name, as it was written; a placeholder where there is none."""
    token = reader.peek()
    if token is None or token.kind not in {"word", "quoted"}:
        return "t"
    start = reader.offset
    try:
        reader.read_path("a table", "")
    except InvalidInput:
        return token.text
    return reader.statement.text[start : reader.tokens[reader.at - 1].end]


def _file(reader: StatementReader | None) -> str:
    """Return the path that is next; a placeholder where there is none."""
    token = None if reader is None else reader.peek()
    if reader is None or token is None or token.kind != "string":
        return "a.csv"
    return reader.read_text("a file", "")
