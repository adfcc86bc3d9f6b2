"""Put view names in place of the versioned tables of a SQL statement: text in, text out, for Spark and for DuckDB.

The whole face of SQL time travel; ``sleeper_nb.engines.sql.table_references`` holds the rules of what is a table::

    statement = "select f.carrier from flights version as of 'savepoint.1' f"
    (flights,) = table_references(statement, dialect="duckdb")   # name "flights", clause.literal "savepoint.1"
    splice(statement, {flights: "flights_7"}, dialect="duckdb")  # select f.carrier from "flights_7" f
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sleeper_nb.engines.sql.relations import TableReference
from sleeper_nb.engines.sql.table_references import table_references
from sleeper_nb.engines.sql.tokens import Dialect, bind_names, quote_name, to_duckdb_parameters, tokenize
from sleeper_nb.engines.sql.version_clause import VersionClause
from sleeper_nb.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Dialect",
    "TableReference",
    "VersionClause",
    "bind_names",
    "splice",
    "start_of",
    "statement_alone",
    "table_references",
    "to_duckdb_parameters",
]


def statement_alone(sql: str, *, dialect: Dialect) -> str:
    """Return a statement without the ``;`` at its end, and without comments behind that: DuckDB takes none there."""
    tokens = tokenize(sql, dialect=dialect)
    last = next((index for index in reversed(range(len(tokens))) if not tokens[index].is_symbol(";")), -1)
    return sql[: tokens[last + 1].start] if last + 1 < len(tokens) else sql


def start_of(sql: str, *, dialect: Dialect) -> int:
    """Return where a statement begins, after the comments before it."""
    return next((token.start for token in tokenize(sql, dialect=dialect)), 0)


def splice(sql: str, replacements: Mapping[TableReference, str], *, dialect: Dialect) -> str:
    """Replace references by views; every other character of the statement stays as it is.

    Parameters
    ----------
    sql
        The statement from which `table_references` read the keys of `replacements`.
    replacements
        The name of a view, not quoted, for each reference to replace; references left out stay as written.
    dialect
        How the names are quoted.

    Returns
    -------
    The statement. A relation without an alias gets its own name as one, so that ``flights.carrier`` still resolves.

    Raises
    ------
    InvalidInput
        A replaced table carries ``WITH (…)`` options, which a view would silently ignore, or a reference is not of this
        statement.
    """
    edits: list[tuple[int, int, str]] = []
    for reference, view in replacements.items():
        if reference.has_options:
            raise InvalidInput(
                f"{reference.name!r} takes no WITH (…) options",
                hint=f"write {reference.name} VERSION AS OF 'savepoint.3'",
            )
        edits.append((reference.start, reference.end, quote_name(view, dialect=dialect)))
        clause = reference.clause
        if clause is not None and clause.start >= reference.end:
            edits.append((clause.start, clause.end, ""))
        if reference.alias_at is not None:
            alias = quote_name(reference.parts[-1], dialect=dialect)
            edits.append((reference.alias_at, reference.alias_at, f" AS {alias}"))
    edits += _quoted_uses(sql, replacements, dialect)
    pieces, at = [], 0
    for start, end, text in sorted(edits):
        if start < at or end > len(sql):
            raise InvalidInput("these table references are not of this statement", hint="read them from the same text")
        pieces += [sql[at:start], text]
        at = end
    return "".join([*pieces, sql[at:]])


def _quoted_uses(sql: str, replaced: Mapping[TableReference, str], dialect: Dialect) -> list[tuple[int, int, str]]:
    """Quote ``flights$files`` where it stands before a column: Spark's parser takes no ``$``, DuckDB's does."""
    names = {r.parts[-1].casefold() for r in replaced if r.alias_at is not None and "$" in r.parts[-1]}
    if dialect != "spark" or not names:
        return []
    return [
        (token.start, token.end, quote_name(token.text, dialect=dialect))
        for token in tokenize(sql, dialect=dialect)
        if token.kind == "word"
        and token.text.casefold() in names
        and not any(r.start <= token.start < r.end for r in replaced)
    ]
