"""Generated statements that change rows, as this package and as DuckDB's own tables take them.

A text has marks where the two differ: ``{t@3}`` is the table at snapshot 3, ``{:p}`` a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any, ClassVar, NamedTuple, Self

TYPES = {
    "k": "INTEGER", "h": "VARCHAR", "n": "INTEGER", "m": "BIGINT", "x": "DOUBLE", "s": "VARCHAR", "d": "DATE",
    "ts": "TIMESTAMPTZ", "e": "DECIMAL(10,2)", "l": "INTEGER[]", "r": "STRUCT(a INTEGER, b VARCHAR)", "o": "TIME",
    "u": "VARCHAR", "y": "BOOLEAN",
}  # fmt: skip
"""The columns of the table in DuckDB's types; `k` and `h` are its keys."""
PARAMETERS: Mapping[str, Any] = {"p": 3, "word": "it's", "nothing": None}
_LITERALS = {"p": "3", "word": "'it''s'", "nothing": "NULL"}

_VALUES: Mapping[str, Sequence[str]] = {
    "k": ("0", "1", "2", "3", "4", "5", "7", "-1", "2147483647"),
    "h": ("''", "'a'", "'B'", "'it''s'", "'é\"x'"),
    "n": ("0", "1", "2", "5", "-3", "NULL", "2147483647"),
    "m": ("0", "9223372036854775807", "-5", "NULL"),
    "x": ("0.0", "-0.0", "1.5", "'nan'::DOUBLE", "'inf'::DOUBLE", "1e300", "NULL"),
    "s": ("''", "'a'", "'it''s'", "'é \"q\" -- ;'", "NULL"),
    "d": ("DATE '2026-01-31'", "DATE '0001-01-01'", "NULL"),
    "ts": ("TIMESTAMPTZ '2026-01-01 00:00:00.000001+00'", "TIMESTAMPTZ '1900-01-01 00:00:00+00'", "NULL"),
    "e": ("0.01", "-12345678.90", "1.50", "NULL"),
    "l": ("[1, NULL, 3]", "[]", "NULL"),
    "r": ("{'a': 1, 'b': 'it''s'}", "{'a': NULL, 'b': NULL}", "NULL"),
    "o": ("TIME '23:59:59.999999'", "TIME '00:00:00'", "NULL"),
    "u": ("'123e4567-e89b-12d3-a456-426614174000'", "NULL"),
    "y": ("true", "false", "NULL"),
}
_FROM_ROW: Mapping[str, Sequence[str]] = {
    "k": ("{c}k + 1", "-{c}k", "{c}k % 3", "7", "{c}n", "{{:p}}"),
    "h": ("{c}h || 'x'", "upper({c}h)", "coalesce({c}s, 'none')", "'same'", "{{:word}}"),
    "n": (
        "{c}n + 1",
        "{c}k",
        "CASE WHEN {c}n > 1 THEN {c}n ELSE -1 END",
        "(SELECT max(n) FROM o)",
        "length({c}h)::INT",
    ),
    "m": ("{c}m + 1", "{c}k", "(SELECT count(*) FROM t)", "(SELECT min(o.m) FROM o WHERE o.k = {c}k)"),
    "x": ("-{c}x", "{c}x / 2", "{c}n::DOUBLE", "'nan'::DOUBLE"),
    "s": ("{c}s || '''q\"'", "concat({c}s, {c}k)", "{c}h", "NULL", "{{:word}}", "replace({c}s, 'a', 'é')"),
    "d": ("{c}d + 1", "({c}ts AT TIME ZONE 'UTC')::DATE"),
    "ts": ("{c}ts + INTERVAL 1 DAY", "NULL"),
    "e": ("CAST({c}e * 2 AS DECIMAL(10,2))", "{c}n::DECIMAL(10,2)"),
    "l": ("list_append({c}l, {c}n)", "[{c}k, {c}n]", "{c}l[1:1]"),
    "r": ("{{'a': {c}n, 'b': {c}s}}", "NULL", "{c}r"),
    "o": ("{c}o", "TIME '12:00:00.5'"),
    "u": ("{c}u",),
    "y": ("NOT {c}y", "{c}n > 1", "{c}n IS NULL"),
}


def ours(text: str, table: str = "t") -> str:
    """Return a statement as `Session.sql` takes it."""
    text = re.sub(r"\{t@(\d+)\}", rf"{table} VERSION AS OF \1", text)
    return re.sub(r"\{:(\w+)\}", r":\1", text)


def duckdb_s(text: str) -> str:
    """Return a statement as DuckDB takes it, whose tables ``t_at_3`` have older versions."""
    text = re.sub(r"\{t@(\d+)\}", r"t_at_\1", text)
    return re.sub(r"\{:(\w+)\}", lambda found: _LITERALS[found[1]], text)


_OVERWRITE = re.compile(
    r"INSERT (?:OVERWRITE t|INTO t) BY NAME "
    r"(?:REPLACE (?:USING \((?P<on>[^)]*)\)|WHERE (?P<where>.*?)) )?(?P<query>SELECT .*)",
    re.DOTALL,
)


def in_steps(text: str) -> list[str] | None:
    """Return an overwrite as statements that DuckDB has, the first of which counts wrong rows; None for any other."""
    found = _OVERWRITE.fullmatch(text)
    if found is None:
        return None
    new, where, on = f"CREATE OR REPLACE TEMP TABLE new_rows AS {found['query']}", found["where"], found["on"]
    wrong, gone = "SELECT 0", "true"
    if where is not None:
        wrong, gone = f"SELECT count(*) FROM new_rows AS t WHERE ({where}\n) IS NOT TRUE", where
    if on is not None:
        names = on.split(", ")
        wrong = f"SELECT count(*) FROM new_rows WHERE {' OR '.join(f'{name} IS NULL' for name in names)}"
        equal = " AND ".join(f"new_rows.{name} = t.{name}" for name in names)
        gone = f"EXISTS (SELECT 1 FROM new_rows WHERE {equal})"
    return [new, wrong, f"DELETE FROM t WHERE {gone}", "INSERT INTO t BY NAME FROM new_rows"]


class Clause(NamedTuple):
    """A clause of a MERGE: which rows it is about, its condition, empty for none, and what it does."""

    kind: str
    condition: str
    action: str

    @property
    def text(self) -> str:
        return f"WHEN {self.kind}{f' AND {self.condition}' if self.condition else ''} THEN {self.action}"

    @property
    def branch(self) -> str:
        """The branch of a CASE that names the action."""
        return f"WHEN ({self.condition or 'true'}\n) THEN '{self.action.split(' SET')[0]}'"


class Merge(str):
    """The text of a MERGE, which knows its matches: DuckDB 2.0.1 takes any of several for one row, and counts all."""

    __slots__ = ("several",)
    several: str
    """A query of two numbers: rows that several rows of the source change, and how often rows are deleted again."""

    def __new__(cls, before: str, pairs: str, clauses: Sequence[Clause]) -> Self:
        made = super().__new__(cls, f"{before}MERGE INTO t USING {pairs} {' '.join(each.text for each in clauses)}")
        branches = [each.branch for each in clauses if each.kind == "MATCHED"]
        if not branches:
            made.several = "SELECT 0, 0"
            return made
        actions = f"SELECT t.rowid AS place, CASE {' '.join(branches)} END AS action FROM t JOIN {pairs}"
        made.several = (
            f"{before}SELECT count(*) FILTER (n > 1 AND NOT only_deletes), "
            "coalesce(sum(n - 1) FILTER (only_deletes), 0) "
            "FROM (SELECT count(*) AS n, bool_and(action = 'DELETE') AS only_deletes "
            f"FROM ({actions}) WHERE action <> 'DO NOTHING' GROUP BY place)"
        )
        return made


class StatementMaker:
    """Makes statements by chance.

    Parameters
    ----------
    random
        Chooses.
    versions
        Snapshots of the table that may be read.
    types
        The columns of the table.
    """

    constants: ClassVar = _VALUES
    """Literals by column."""
    from_row: ClassVar = _FROM_ROW
    """Expressions by column; ``{c}`` stands before the columns of a row."""
    aliases: ClassVar = (("", ""), ("", "t."), (" AS x", "x."), (' "a b"', '"a b".'))
    """What follows the name of a table, and what then qualifies its columns."""

    def __init__(self, random: Random, versions: Sequence[int], types: Mapping[str, str] = TYPES) -> None:
        self._random, self._versions, self._types = random, versions, types

    def rows(self, most: int = 8) -> str:
        """Return a query of rows of the table."""
        made = [self._row() for _ in range(self._random.randint(1, most))]
        cast = ", ".join(f"CAST({name} AS {kind}) AS {name}" for name, kind in self._types.items())
        return f"SELECT {cast} FROM (VALUES {', '.join(made)}) v({', '.join(self._types)})"

    def _row(self) -> str:
        return f"({', '.join(self._one_of(self.constants[name]) for name in self._types)})"

    @property
    def changed(self) -> Sequence[str]:
        """The columns that statements set."""
        return list(self._types)

    def statement(self) -> str:
        """Return a statement that changes rows."""
        kinds = (self.delete, self.update, self.update, self.merge, self.merge, self.merge, self.overwrite)
        return self._one_of(kinds)()

    def delete(self) -> str:
        """Return a DELETE."""
        named = self._with()
        alias, c = self._one_of(self.aliases)
        where = "" if self._random.random() < 0.05 else f" WHERE {self.condition(c, bool(named))}"
        return f"{named}DELETE FROM t{alias}{where}"

    def update(self) -> str:
        """Return an UPDATE."""
        named = self._with()
        alias, c = self._one_of((("", ""), ("", "t."), (" AS x", "x.")))
        where = "" if self._random.random() < 0.1 else f" WHERE {self.condition(c, bool(named))}"
        return f"{named}UPDATE t{alias} SET {self._assigned([c])}{where}"

    def merge(self) -> str:
        """Return a MERGE."""
        named = self._with()
        source = self._source(bool(named))
        match = self._one_of((
            "ON t.k = s.k", "ON t.k = s.k AND t.h = s.h", "ON t.k = s.k AND t.h = s.h", "USING (k, h)", "USING (k)",
            "ON t.n = s.n", "ON t.k = s.k + 1 AND s.n > 0", "ON t.k = s.k AND t.n IS NOT DISTINCT FROM s.n",
        ))  # fmt: skip
        clauses = []
        for kind in ("MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"):
            sides = {"MATCHED": ["t.", "s."], "NOT MATCHED": ["s."], "NOT MATCHED BY SOURCE": ["t."]}[kind]
            several = [self._clause(kind, sides, has_condition=True) for _ in range(self._random.randint(0, 2))]
            if self._random.random() < 0.6:
                several.append(self._clause(kind, sides, has_condition=False))
            clauses += several if self._random.random() < 0.7 else []
        if not clauses:
            clauses = [self._clause("MATCHED", ["t.", "s."], has_condition=False)]
        return Merge(named, f"{source} {match}", clauses)

    def overwrite(self) -> str:
        """Return an INSERT that replaces rows; DuckDB has none."""
        source = self._one_of(self._new_rows())
        replaced = self._one_of(("OVERWRITE", "(k)", "(k, h)", "(n)", "WHERE", "WHERE"))
        if replaced == "OVERWRITE":
            return f"INSERT OVERWRITE t BY NAME {source}"
        if replaced != "WHERE":
            return f"INSERT INTO t BY NAME REPLACE USING {replaced} {source}"
        condition = self.condition("t.", subqueries=self._random.random() < 0.2)
        if self._random.random() < 0.8:
            source = f"SELECT * FROM ({source}) AS t WHERE ({condition}) IS TRUE"
        return f"INSERT INTO t BY NAME REPLACE WHERE {condition} {source}"

    def _new_rows(self) -> Sequence[str]:
        """Return queries of rows with all columns."""
        every = ", ".join(self._types)
        return (
            self.rows(5), "SELECT * FROM o", f"SELECT {every} FROM t WHERE k > 1", f"SELECT {every} FROM {self._old()}",
            "SELECT * FROM o WHERE false", f"SELECT {every} FROM t WHERE {self.condition('')}",
        )  # fmt: skip

    def _clause(self, kind: str, sides: Sequence[str], *, has_condition: bool) -> Clause:
        c, separate = self._one_of(sides), self._random.random() < 0.1
        condition = self.condition(c, subqueries=separate) if has_condition else ""
        if kind == "NOT MATCHED":
            names = ["k", "h", *self._some([name for name in self.changed if name not in {"k", "h"}])]
            self._random.shuffle(names)
            values = [self._one_of((f"s.{name}", f"s.{name}", self._value(name, sides))) for name in names]
            insert = f"INSERT ({', '.join(names)}) VALUES ({', '.join(values)})"
            action = self._one_of((insert, insert, "DO NOTHING"))
        else:
            update = f"UPDATE SET {self._assigned(sides)}"
            action = self._one_of((update, update, update, "DELETE", "DO NOTHING"))
        return Clause(kind, condition, action)

    def _source(self, has_with: bool) -> str:
        every = ", ".join(self._types)
        return self._one_of((
            "o AS s", "o s", f"({self.rows(5)}) AS s", f"(SELECT DISTINCT ON (k, h) {every} FROM o ORDER BY ALL) AS s",
            f"(SELECT DISTINCT ON (k) {every} FROM o ORDER BY ALL) AS s", f"(SELECT {every} FROM t WHERE k > 1) AS s",
            f"(SELECT DISTINCT ON (k, h) {every} FROM {self._old()} ORDER BY ALL) AS s",
            "(SELECT * FROM o WHERE false) s",
            *(["(SELECT * FROM o WHERE k IN (SELECT k FROM named)) AS s"] if has_with else []),
        ))  # fmt: skip

    def condition(self, c: str, has_with: bool = False, depth: int = 0, *, subqueries: bool = True) -> str:
        """Return a condition on a row whose columns are qualified by `c`."""
        if depth < 2 and self._random.random() < 0.4:
            left, right = (self.condition(c, has_with, depth + 1, subqueries=subqueries) for _ in range(2))
            return self._one_of((f"({left} AND {right})", f"({left} OR {right})", f"NOT ({left})"))
        if subqueries and self._random.random() < 0.3:
            return self._subquery(c, has_with)
        return self._one_of(self._tests(c))

    def _tests(self, c: str) -> Sequence[str]:
        return (
            f"{c}k > 1", f"{c}k = 3", f"{c}k BETWEEN 1 AND 4", f"{c}n > 1", f"{c}n IS NULL", f"{c}n <> 1", "true",
            f"{c}k = {{:p}}", f"{c}s = {{:word}}", f"{c}s LIKE 'a%' -- a ; comment\n", f"{c}x > 0", f"{c}x = 'nan'",
            f"{c}d < DATE '2000-01-01'", f"{c}ts >= TIMESTAMPTZ '2000-01-01 00:00:00+00'", f"{c}e < 1.5",
            f"CASE WHEN {c}n IS NULL THEN {c}k > 2 ELSE {c}n < 2 END", f"{c}r.a = 1", f"len({c}l) > 1",
            f"{c}h /* h */ < 'b'",
            f"coalesce({c}n, 0) % 2 = 0", f"{c}s || ';' = 'it''s;'", f"{c}u IS NOT NULL", f"{c}y", f"NOT {c}y",
            f"{c}o > TIME '12:00:00'", f"{c}n = {{:nothing}}", f"{c}m > 9223372036854775800", f"{c}x = 0",
        )  # fmt: skip

    def _subquery(self, c: str, has_with: bool) -> str:
        name = c[:-1] or "t"
        return self._one_of((
            f"{c}k IN (SELECT k FROM o WHERE n > 0)", f"{c}n NOT IN (SELECT n FROM o)",
            f"{c}n > (SELECT avg(n) FROM t)", f"EXISTS (SELECT 1 FROM o WHERE o.k = {name}.k)",
            f"{c}k IN (SELECT k FROM {self._old()} WHERE n > 0)", f"(SELECT count(*) FROM {self._old()}) > 3",
            *([f"{c}k IN (SELECT k FROM named)"] if has_with else []),
        ))  # fmt: skip

    def _old(self) -> str:
        return f"{{t@{self._one_of(self._versions)}}}" if self._versions else "t"

    def _with(self) -> str:
        if self._random.random() < 0.8:
            return ""
        return f"WITH named AS (SELECT k, n FROM {self._one_of(('o', 't', self._old()))} WHERE k < 4) "

    def _assigned(self, sides: Sequence[str]) -> str:
        names = list(self.changed) if self._random.random() < 0.1 else self._some(self.changed, least=1, most=4)
        return ", ".join(f"{name} = {self._value(name, sides, can_default=True)}" for name in names)

    def _value(self, name: str, sides: Sequence[str], *, can_default: bool = False) -> str:
        written = self._random.choice(("row", "row", "row", "constant", "other", "default"))
        if written == "default" and can_default and name not in {"k", "h"}:
            return "DEFAULT"
        if written == "constant":
            return self._one_of(self.constants[name])
        c = self._one_of(sides)
        return f"{c}{name}" if written == "other" else self._one_of(self.from_row[name]).format(c=c)

    def _some(self, names: Any, least: int = 0, most: int = 3) -> list[str]:
        return self._random.sample(list(names), self._random.randint(least, most))

    def _one_of(self, choices: Sequence[Any]) -> Any:
        return choices[self._random.randrange(len(choices))]


ON_SPARK = {name: kind for name, kind in TYPES.items() if name != "o"}
"""The columns that Spark has without a setting."""
_SHARED_VALUES: Mapping[str, Sequence[str]] = {
    **{name: _VALUES[name] for name in ("k", "n", "m", "e", "y", "d")},
    "h": ("''", "'a'", "'B'", "'é'"),
    "x": ("CAST(1.5 AS DOUBLE)", "CAST('nan' AS DOUBLE)", "NULL"),
    "s": ("''", "'a'", "'é -- ;'", "NULL"),
}
_SHARED_FROM_ROW: Mapping[str, Sequence[str]] = {
    "k": ("{c}k + 1", "-{c}k", "{c}k % 3", "7", "{{:p}}"),
    "h": ("{c}h || 'x'", "upper({c}h)", "coalesce({c}s, 'none')", "{{:word}}"),
    "n": ("{c}n + 1", "{c}k", "CASE WHEN {c}n > 1 THEN {c}n ELSE -1 END", "(SELECT max(n) FROM o)"),
    "m": ("{c}m + 1", "{c}k", "(SELECT count(*) FROM t)"),
    "x": ("-{c}x", "{c}x / 2", "CAST({c}n AS DOUBLE)"),
    "s": ("{c}s || 'q'", "{c}h", "NULL", "{{:word}}", "replace({c}s, 'a', 'e')"),
    "d": ("{c}d + 1", "{c}d"),
    "e": ("CAST({c}e * 2 AS DECIMAL(10,2))", "{c}e"),
    "y": ("NOT {c}y", "{c}n > 1", "{c}n IS NULL"),
}


class SharedStatementMaker(StatementMaker):
    """Makes statements that DuckDB and Spark take alike; they set fewer columns, and leave the others as they are."""

    constants: ClassVar = _SHARED_VALUES
    from_row: ClassVar = _SHARED_FROM_ROW
    aliases: ClassVar = StatementMaker.aliases[:3]

    @property
    def changed(self) -> Sequence[str]:
        """The columns that statements set."""
        return list(_SHARED_VALUES)

    def rows(self, most: int = 8) -> str:
        """Return a query of rows with the columns that statements set."""
        made = [f"({', '.join(self._one_of(values) for values in _SHARED_VALUES.values())})"
                for _ in range(self._random.randint(1, most))]  # fmt: skip
        types = {**self._types, "h": "STRING", "s": "STRING"}
        cast = ", ".join(f"CAST({name} AS {types[name]}) AS {name}" for name in _SHARED_VALUES)
        return f"SELECT {cast} FROM (VALUES {', '.join(made)}) v({', '.join(_SHARED_VALUES)})"

    def _new_rows(self) -> Sequence[str]:
        every = ", ".join(self._types)
        return (
            self.rows(5), "SELECT * FROM o", f"SELECT {every} FROM t WHERE k > 1", f"SELECT {every} FROM {self._old()}",
            "SELECT * FROM o WHERE false",
        )  # fmt: skip

    def _source(self, has_with: bool) -> str:
        one_each = ", ".join(f"max({name}) AS {name}" for name in _SHARED_VALUES if name not in {"k", "h"})
        return self._one_of((
            "o AS s", f"({self.rows(5)}) AS s", f"(SELECT k, h, {one_each} FROM o GROUP BY k, h) AS s",
            f"(SELECT k, h, {one_each} FROM ({self.rows(5)}) r GROUP BY k, h) AS s",
            f"(SELECT k, min(h) AS h, {one_each} FROM o GROUP BY k) AS s",
            f"(SELECT k, h, {one_each} FROM {self._old()} GROUP BY k, h) AS s", "(SELECT * FROM o WHERE false) s",
            *(["(SELECT * FROM o WHERE k IN (SELECT k FROM named)) AS s"] if has_with else []),
        ))  # fmt: skip

    def _tests(self, c: str) -> Sequence[str]:
        of_table = () if c == "s." else (f"{c}r.a = 1", f"{c}u IS NOT NULL", f"{c}ts IS NULL")
        return (
            *of_table,
            f"{c}k > 1", f"{c}k = 3", f"{c}k BETWEEN 1 AND 4", f"{c}n > 1", f"{c}n IS NULL", f"{c}n <> 1", "true",
            f"{c}k = {{:p}}", f"{c}s = {{:word}}", f"{c}s LIKE 'a%' -- a ; comment\n", f"{c}x > 0",
            f"{c}x = CAST('nan' AS DOUBLE)", f"{c}d < DATE '2000-01-01'", f"{c}e < 1.5",
            f"CASE WHEN {c}n IS NULL THEN {c}k > 2 ELSE {c}n < 2 END", f"{c}h /* h */ < 'b'",
            f"coalesce({c}n, 0) % 2 = 0", f"{c}s || ';' = 'a;'", f"{c}y", f"NOT {c}y",
            f"{c}m > 9223372036854775800", f"{c}x = 0",
        )  # fmt: skip
