"""Why a statement is one for Spark, as its words or another engine's error show; and what its words change there."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from typing import Final

from sleeper_nb.errors import InvalidInput, NotFound, SleeperError
from sleeper_nb.model.sql_values import DIALECTS
from sleeper_nb.sql.statement import Composition, SqlText, Statement
from sleeper_nb.sql.tokens import Token, spells, unquote

_CHANGE_SPARK: Final = frozenset({"CACHE", "CLEAR", "DECLARE", "REFRESH", "RESET", "SET", "UNCACHE", "USE"})
"""How statements begin that change the Spark session; DuckDB would refuse them."""

_SHOWN: Final = frozenset({"CATALOGS", "COLUMNS", "CREATE", "FUNCTIONS", "NAMESPACES", "TBLPROPERTIES", "VIEWS"})
_DESCRIBED: Final = frozenset({"DATABASE", "EXTENDED", "FORMATTED", "FUNCTION", "NAMESPACE", "QUERY"})
_PHRASES: Final = (
    ("LATERAL", "VIEW"), ("DISTRIBUTE", "BY"), ("CLUSTER", "BY"), ("SORT", "BY"), ("LEFT", "ANTI"), ("LEFT", "SEMI"),
    ("ARRAY", "("), ("ARRAY", "<"), ("MAP", "<"), ("STRUCT", "<"), ("|>",), ("LIKE", "ANY"),
    ("LIKE", "ALL"),
)  # fmt: skip
"""What only Spark can read."""

_WORDS: Final = frozenset({"DIV", "MINUS", "REGEXP", "RLIKE"})
"""Operators of Spark, which DuckDB takes for names, so that it stops at the word after them."""

_NEAR: Final = re.compile(r'Parser Error: syntax error at or near "(.*)"')
_DROP: Final = ("DROP", "VIEW", "IF", "EXISTS")
_NO_FUNCTION: Final = re.compile(r"(?:Function with name |cannot call table function )[\"']?(\w+)", re.IGNORECASE)


def why_only_spark(sql: SqlText | Composition, views: Callable[[], Container[str]]) -> str:
    """Return why a text can be no statement for DuckDB, as its first words show; "" when it may be one.

    `views` returns the names, in lower case, of the views that only Spark keeps.
    """
    if isinstance(sql, Composition):  # a SELECT of this package
        return ""
    try:
        statement = sql.query("spark")
    except InvalidInput:
        return ""
    words = statement.words()
    first, second, *others = (*words[:4], "", "")
    if (first, second, *others[:2]) == _DROP and (name := _kept(statement.tokens[4:], views())):
        return f"Spark keeps view {name}"
    if first == "CREATE" and "USING" in words and "AS" not in words:
        return "CREATE … USING is Spark's SQL"
    if first in _CHANGE_SPARK:
        return f"{first} is for Spark"
    has_more = len(words) > 2 or second not in {"COLUMNS", *_DESCRIBED}  # else it is the name of a table
    if has_more and (
        (first == "SHOW" and second in _SHOWN) or (first in {"DESCRIBE", "DESC"} and second in _DESCRIBED)
    ):
        return f"{first} {second} is Spark's SQL"
    return ""


def why_spark_after(
    error: SleeperError,
    sql: SqlText | Composition,
    views: Callable[[], Container[str]],
    has_function: Callable[[str], bool],
) -> str:
    """Return why a statement that DuckDB refused is one for Spark; "" when nothing shows that.

    Parameters
    ----------
    error
        DuckDB's error, or ours about a text without an end.
    views
        Returns the names, in lower case, of the views that Spark keeps.
    has_function
        Returns whether Spark has a function of a name in lower case.
    """
    missing = _NO_FUNCTION.search(error.message)
    if missing is not None:
        return f"DuckDB has no function {missing[1]}" if has_function(missing[1].lower()) else ""
    try:
        tokens = sql.query("spark").tokens
    except InvalidInput:
        return ""
    try:
        sql.query(DIALECTS[0])
    except InvalidInput:
        return "its texts are written as in Spark's SQL"
    if words := _spark_words(tokens, error.message):
        return f"{words} is Spark's SQL"
    view = _kept(tokens, views()) if isinstance(error, NotFound) else ""
    return f"Spark keeps view {view}" if view else ""


def _spark_words(tokens: Sequence[Token], message: str) -> str:
    """Return the words, among tokens that DuckDB refused with a message, that only Spark can read; "" for none."""
    near = _NEAR.search(message)
    for at, token in enumerate(tokens):
        if spells(tokens, at, "<", "=>"):
            return "<=>"
        if names_file(tokens, at):
            return f"{token.text}.`…`"
        if near is None:  # DuckDB could parse it
            continue
        phrase = next((phrase for phrase in _PHRASES if spells(tokens, at, *phrase)), ())
        if phrase:
            return " ".join(phrase)
        if token.word in _WORDS and [each.text for each in tokens[at + 1 : at + 2]] == [near[1]]:
            return token.word
    return ""


_FILE_FORMATS: Final = frozenset({"PARQUET", "CSV", "JSON", "ORC", "TEXT", "AVRO", "BINARYFILE"})


def names_file(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a file is named at a place among tokens, as Spark's SQL does: ``csv.`data.csv```."""
    if tokens[at].word not in _FILE_FORMATS or not spells(tokens, at + 1, "."):
        return False
    return [each.kind for each in tokens[at + 2 : at + 3]] == ["quoted"]


def _kept(tokens: Sequence[Token], views: Container[str]) -> str:
    names = (unquote(token, dialect="spark") for token in tokens if token.kind in {"word", "quoted"})
    return next((name for name in names if name.casefold() in views), "")


def changes_spark(statement: Statement) -> bool:
    """Return whether a statement changes the Spark session, or a view."""
    return statement.words()[:1] in {(word,) for word in (*_CHANGE_SPARK, "CREATE", "DROP")}
