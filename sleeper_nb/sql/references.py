"""How a SQL statement begins, and every table that it names, with its version clause and its alias.

One pass over the tokens, without a parser's tree: a statement that no SQL library can parse yet still works, and what
this module does not know reaches the engine unchanged, for the engine to judge. The rules:

* A relation follows FROM, JOIN, a comma of a FROM list, USING of DELETE and MERGE, and TABLE, PIVOT or UNPIVOT at the
  beginning of a query. FROM inside a call (``extract(year FROM d)``) or after IS DISTINCT begins none.
* A relation is a table unless it is a subquery, a call, a string, VALUES, or a name of a WITH in scope. A WITH name
  is in scope from the end of its own body (inside it too when RECURSIVE) to the end of the query that has the WITH. So
  under RECURSIVE, a body that names itself never means the table, although DuckDB allows it when the body has no UNION.
* A version clause follows the name or the alias. On anything that is no table it is an error.
* Any kind of statement is read: the table that DESCRIBE, SHOW or SUMMARIZE is about has the role ``"describe"``, the
  target of INSERT, UPDATE, DELETE, MERGE, COPY, CREATE, DROP, ALTER and the like has the role ``"write"``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from sleeper_nb.errors import Action, InvalidInput
from sleeper_nb.model.sql_values import Dialect
from sleeper_nb.sql.dialects import RULES
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import DEEPEST, depth_of, skip_brackets, spells, unquote
from sleeper_nb.sql.version_clause import RESERVED, VersionClause, read_clause

NameRole = Literal["read", "describe", "write"]

_JOIN_KINDS = frozenset({"ASOF", "POSITIONAL", "SEMI", "ANTI"})


@dataclass(frozen=True, slots=True)
class TableReference:
    """One table that a statement names, without quotes: ``("db", "flights")``; the newest version without a clause.

    `start` and `end` are the span that a view's name replaces: the name, and the clause when it follows directly. An
    alias has to be added at `alias_at` once the name is replaced; None when there is one, or none is allowed. The
    options of ``WITH (…)`` are silently ignored by Spark on views.
    """

    parts: tuple[str, ...]
    clause: VersionClause | None
    alias: str | None
    start: int
    end: int
    role: NameRole = "read"
    alias_at: int | None = None
    has_options: bool = False

    @property
    def name(self) -> str:
        return ".".join(self.parts)


LAKES: Final = frozenset({"DELTA", "ICEBERG"})
"""The calls that name tables of other formats."""
_END_OF_FROM = frozenset({
    "SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "QUALIFY", "WINDOW", "FETCH", "UNION",
    "INTERSECT", "EXCEPT", "MINUS", "SET", "VALUES", "INSERT", "RETURNING",
})  # fmt: skip
_BEFORE_QUERY = frozenset({"UNION", "INTERSECT", "EXCEPT", "MINUS", "ALL", "DISTINCT", "NAME", "AS"})
_EXPLAIN = frozenset({"EXPLAIN", "ANALYZE", "EXTENDED", "FORMATTED", "CODEGEN", "COST"})
_PIVOTS = frozenset({"PIVOT", "UNPIVOT", "PIVOT_WIDER", "PIVOT_LONGER"})
_DESCRIBES = frozenset({"DESCRIBE", "DESC", "SUMMARIZE", "SHOW"})
_QUERIES = frozenset({"SELECT", "WITH", "FROM", "VALUES", "PIVOT", "UNPIVOT"})
_NO_TABLES = frozenset({"FUNCTION", "DATABASE", "SCHEMA", "CATALOG", "NAMESPACE", "ALL", "TABLES", "DATABASES"})
_CHANGES = frozenset({"INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "COPY"})
_DEFINITIONS = frozenset({"CREATE", "DROP", "ALTER", "REPLACE", "CACHE", "UNCACHE", "REFRESH", "ANALYZE"})
_BEFORE_TARGET = frozenset({
    "INTO", "OVERWRITE", "TABLE", "VIEW", "TEMP", "TEMPORARY", "GLOBAL", "LOCAL", "OR", "REPLACE", "IGNORE", "IF",
    "NOT", "EXISTS", "FROM", "MATERIALIZED", "EXTERNAL", "LAZY", "RECURSIVE",
})  # fmt: skip


def table_references(statement: Statement) -> tuple[TableReference, ...]:
    """Return the tables that a statement names, in the order of the text. A blank statement has none.

    Raises
    ------
    InvalidInput
        There is more than one statement; a version clause names no version, or follows something that is no table or
        is written to; brackets are nested more than 200 deep.
    """
    return tuple(sorted(_walked(statement).references, key=lambda reference: reference.start))


def file_references(statement: Statement) -> tuple[TableReference, ...]:
    """Return the files that a statement of DuckDB names in place of tables, as ``'a.csv'`` or ``"a.csv"``.

    Errors are those of `table_references`. The role of one that may not get an alias is ``"describe"``.
    """
    walk = _walked(statement)
    quoted = (each for each in walk.references if statement.text[each.start] == '"' and len(each.parts) == 1)
    return tuple(sorted((*walk.files, *quoted), key=lambda reference: reference.start))


def lake_references(statement: Statement) -> tuple[TableReference, ...]:
    """Return the calls ``delta('path', 12)`` and ``iceberg('path', 'tag')`` in place of tables, brackets included."""
    if LAKES.isdisjoint([token.word for token in statement.tokens]):
        return ()
    return tuple(sorted(_walked(statement).lakes, key=lambda reference: reference.start))


def _walked(statement: Statement) -> _Walk:
    tokens = statement.tokens
    check_alone(statement)
    if depth_of(tokens) > DEEPEST:
        raise InvalidInput(f"the statement has more than {DEEPEST} brackets inside each other", hint="use WITH")
    walk = _Walk(statement)
    at = 0
    while at < len(tokens):  # a bracket too many ends a group early; the engine reports it
        at = walk.walk_group(at, frozenset(), top=at == 0)
    return walk


def check_alone(statement: Statement) -> None:
    for token in statement.tokens:
        if token.symbol == ";":
            line = statement.text.count("\n", 0, token.start) + 1
            raise InvalidInput(f"a second statement follows the ';' on line {line}", hint="run one statement at a time")


def names_of_with(statement: Statement, at: int) -> tuple[tuple[str, ...], int]:
    """Return the names that the ``WITH`` at an index defines, and the index of the token after their queries.

    Without a ``WITH`` there, or when it cannot be read, there are no names, and the index is the same.
    """
    walk = _Walk(statement)
    if walk.word(at) != "WITH":
        return (), at
    names: list[str] = []
    name, after = at + 2 if walk.word(at + 1) == "RECURSIVE" else at + 1, at
    while (body := walk.body(name)) is not None:
        names.append(unquote(statement.tokens[name], dialect=statement.dialect))
        after = skip_brackets(statement.tokens, body)
        name = after + 1 if spells(statement.tokens, after, ",") else len(statement.tokens)
    return tuple(names), after


@dataclass(slots=True)
class _Group:
    """The state of the walk at a position between two brackets."""

    scope: frozenset[str]
    expects: bool = False  # a relation comes next
    in_from: bool = False  # a comma leads to another relation
    query: bool = False  # FROM opens a FROM clause here
    fresh: bool = True  # a query may begin here
    head: bool = False  # a statement may begin here
    using: bool = False  # USING leads to a relation
    alias: str | None = None  # DuckDB's alias before the table: ``FROM a: tbl``


def _with_name(name: str) -> str:
    return f"{name!r}, a name of this statement's WITH,"


class _Walk:
    """Walks through the tokens of one statement by index; each method returns the index after what it read.

    It notes tables (`references`), strings in place of tables (`files`), and calls for tables of other formats
    (`lakes`).
    """

    def __init__(self, statement: Statement) -> None:
        self.tokens, self.dialect, self.rules = statement.tokens, statement.dialect, statement.rules
        self.statement = statement
        self.references: list[TableReference] = []
        self.files: list[TableReference] = []
        self.lakes: list[TableReference] = []

    def walk_group(self, at: int, scope: frozenset[str], *, expects: bool = False, top: bool = False) -> int:
        """Walk to the bracket that closes this group, and return the index after it."""
        group = _Group(scope, expects=expects, in_from=expects, head=top)
        while at < len(self.tokens) and self.tokens[at].symbol != ")":
            fresh, head, group.fresh, group.head = group.fresh, group.head, False, False
            after = self._relation(at, group, fresh=fresh) if group.expects else None
            at = self._other(at, group, fresh=fresh, head=head) if after is None else after
        return at + 1

    def _other(self, at: int, group: _Group, *, fresh: bool, head: bool) -> int:
        """Read a token that is no relation."""
        token = self.tokens[at]
        if token.symbol == "(":
            group.head = head and spells(self.tokens, at - 1, "EXPLAIN")
            group.fresh = group.head
            return self.walk_group(at + 1, group.scope)
        if token.symbol == ",":
            group.expects = group.in_from
        elif token.symbol == "|>":  # Spark's pipes follow a whole FROM clause
            group.in_from, group.query = False, True
        elif token.word and not (at and self.tokens[at - 1].symbol == "."):
            return self._keyword(at, group, fresh=fresh, head=head)
        return at + 1

    def _keyword(self, at: int, group: _Group, *, fresh: bool, head: bool) -> int:
        """Read a word that begins a clause or a statement."""
        word = self.tokens[at].word
        if head and word in _EXPLAIN and (word != "ANALYZE" or at):  # a first ANALYZE is a statement
            group.head = group.fresh = True
            return at + 1
        is_insert = word == "INSERT" and self.word(at + 1) in {"INTO", "OVERWRITE"}
        if is_insert or (head and word in _CHANGES | _DEFINITIONS):
            return self._target(at, group)
        if fresh and word in _DESCRIBES:
            return self._described(at, group)
        if word == "WITH":
            return self._with(at, group, head=head)
        if word == "TABLE" and (fresh or (not group.query and self.tokens[at - 1].text in {",", "=>"})):
            return self._table_word(at, group)
        self._clause_word(at, group, fresh=fresh)
        return at + 1

    def _table_word(self, at: int, group: _Group) -> int:
        """Read ``TABLE name`` or, as the argument of a call, ``TABLE(name)``."""
        bracket = spells(self.tokens, at + 1, "(")
        name = at + 1 + bracket
        if at + 1 < len(self.tokens) and self.tokens[at + 1].kind == "string":
            self.note_file(at + 1, "describe", None)
            return at + 2
        if not self.is_name(name):
            return at + 1
        after = self.read_clause(self.read_parts(name)[1])[1]
        closed = not bracket or spells(self.tokens, after, ")")
        return self._named(name, group, "read") + bracket if closed else at + 1

    def _clause_word(self, at: int, group: _Group, *, fresh: bool) -> None:
        """Note what a word of a clause says about the tokens after it."""
        word = self.tokens[at].word
        if word in _END_OF_FROM or (word in {"SORT", "CLUSTER", "DISTRIBUTE"} and self.word(at + 1) == "BY"):
            group.in_from = group.expects = False
            group.query = group.query or word in {"SELECT", "VALUES"}
        elif word == "FROM" and (group.query or fresh) and not self._is_call_from(at):
            group.query = group.in_from = group.expects = True
        elif word == "JOIN" and (group.query or group.in_from):
            group.in_from = group.expects = True
        elif word == "LATERAL":  # LATERAL VIEW names columns, with commas, after the last relation
            group.in_from = False
        elif word == "USING" and group.using:
            group.in_from = group.expects = True
            group.using = False
        elif word in _PIVOTS and fresh:
            group.expects, group.in_from = True, False
        if word in _BEFORE_QUERY:
            group.fresh = True

    def _is_call_from(self, at: int) -> bool:
        """Return whether a FROM belongs to a call or to IS DISTINCT."""
        before, earlier = self.word(at - 1), self.word(at - 2)
        is_distinct = before == "DISTINCT" and earlier in {"IS", "NOT"}
        return is_distinct or (spells(self.tokens, at - 1, "(") and earlier == "TRIM")

    def _with(self, at: int, group: _Group, *, head: bool) -> int:
        """Walk the list of a WITH, if it is one: ``name [(columns)] [AS] [NOT] [MATERIALIZED] (body), …``."""
        name = at + 2 if self.word(at + 1) == "RECURSIVE" else at + 1
        body = self.body(name)
        if body is None:
            return at + 1
        while body is not None:
            own = frozenset({unquote(self.tokens[name], dialect=self.dialect).casefold()})
            recursive = self.word(at + 1) == "RECURSIVE"
            after = self.walk_group(body + 1, group.scope | own if recursive else group.scope)
            group.scope |= own
            name = after + 1
            body = self.body(name) if spells(self.tokens, after, ",") else None
        group.fresh, group.head, group.expects = True, head, False
        return after

    def body(self, name: int) -> int | None:
        """Return the index of the bracket that opens the body of a WITH name; None when this is none."""
        if not self.is_name(name):
            return None
        at = name + 1
        columns = skip_brackets(self.tokens, at) if spells(self.tokens, at, "(") else at
        if self.word(columns) in {"AS", "USING", "MAX"} or spells(self.tokens, columns, "("):
            at = columns
        if spells(self.tokens, at, "USING", "KEY", "("):
            at = skip_brackets(self.tokens, at + 2)
        at += 4 if spells(self.tokens, at, "MAX", "RECURSION", "LEVEL") else 0
        for word in ("AS", "NOT", "MATERIALIZED"):
            at += self.word(at) == word
        return at if spells(self.tokens, at, "(") else None

    def _relation(self, at: int, group: _Group, *, fresh: bool) -> int | None:
        """Read the relation at an index; None when there is a keyword or anything else."""
        token, word = self.tokens[at], self.word(at)
        if word == "LATERAL":
            return at + 1
        if fresh and self.rules.describes_in_queries and word in _DESCRIBES:
            return None
        prefix, group.alias, group.expects = group.alias, None, False
        if token.symbol == "(":
            return self.skip_other_relation(self.walk_group(at + 1, group.scope, expects=True), "a subquery")
        if token.kind == "string":
            alias = None if prefix or self.read_alias(at + 1)[0] else token.end
            self.note_file(at, "read", alias)
            return self.skip_other_relation(at + 1, token.text)
        if word == "VALUES":
            return self._values(at + 1, group)
        if not self.is_name(at):
            return None
        if self.rules.alias_before_table and spells(self.tokens, at + 1, ":"):
            group.expects, group.alias = True, unquote(token, dialect=self.dialect)
            return at + 2
        return self._named_relation(at, group, prefix)

    def _named_relation(self, at: int, group: _Group, prefix: str | None) -> int:
        """Read a relation that begins with a name: a table, a call, or a name of a WITH."""
        parts, after = self.read_parts(at)
        if spells(self.tokens, after, "("):
            if self.word(at) in LAKES and len(parts) == 1:
                self.note_lake(at, skip_brackets(self.tokens, after), prefix)
            return self.skip_other_relation(self.walk_group(after + 1, group.scope), f"the call {'.'.join(parts)}(…)")
        if len(parts) == 1 and parts[0].casefold() in group.scope:
            return self.skip_other_relation(after, _with_name(parts[0]))
        return self.read_table(at, after, parts, prefix)

    def _values(self, at: int, group: _Group) -> int:
        """Pass over the rows of VALUES in a FROM list; their commas lead to rows, not to relations."""
        if not spells(self.tokens, at, "("):
            group.in_from = False
            return at
        at = self.walk_group(at + 1, group.scope)
        while spells(self.tokens, at, ",", "("):
            at = self.walk_group(at + 2, group.scope)
        return self.skip_other_relation(at, "VALUES")

    def _described(self, at: int, group: _Group) -> int:
        """Read what DESCRIBE, SHOW or SUMMARIZE is about."""
        show = self.word(at) == "SHOW"
        at += 1
        for words in (("COLUMNS", "FROM"), ("COLUMNS", "IN"), ("CREATE", "TABLE"), ("PARTITIONS",), ("TBLPROPERTIES",)):
            if show and spells(self.tokens, at, *words):
                return self._named(at + len(words), group, "describe")
        if show and self.rules.shows_only_lists:
            return at
        while self.word(at) in {"TABLE", "EXTENDED", "FORMATTED", "QUERY"} and not self.ends(at + 1):
            at += 1
        if self.word(at) in _QUERIES or spells(self.tokens, at, "("):
            group.fresh, group.expects = True, False
            return at
        if self.word(at) in _NO_TABLES:
            group.expects = False
            return at
        return self._named(at, group, "describe")

    def _target(self, at: int, group: _Group) -> int:
        """Read what a statement writes to or defines."""
        verb, first = self.word(at), at + 1
        at = first
        while self.word(at) in _BEFORE_TARGET:
            at += 1
        group.query = group.query or verb in _CHANGES - {"COPY"}
        group.using = verb in {"DELETE", "MERGE"}
        group.in_from = group.expects = False
        skipped = {token.word for token in self.tokens[first:at]}
        if verb in _DEFINITIONS and not skipped & {"TABLE", "VIEW"}:
            return at
        columns = self.read_parts(at)[1] if verb == "COPY" and self.is_name(at) else at
        columns = skip_brackets(self.tokens, columns) if spells(self.tokens, columns, "(") else columns
        return self._named(at, group, "read" if verb == "COPY" and self.word(columns) == "TO" else "write")

    def _named(self, at: int, group: _Group, role: NameRole) -> int:
        """Read a table that is no relation with an alias: the name, and perhaps a clause."""
        group.expects = False
        if role == "describe" and at < len(self.tokens) and self.tokens[at].kind == "string":
            self.note_file(at, role, None)
        if not self.is_name(at):
            return at
        parts, after = self.read_parts(at)
        if len(parts) == 1 and parts[0].casefold() in group.scope:
            return self.skip_other_relation(after, _with_name(parts[0]))
        clause, after = self.read_clause(after)
        if role == "write" and clause is not None:
            raise InvalidInput(f"{'.'.join(parts)!r} cannot be written to at a version", hint="leave the clause out")
        end = clause.end if clause else self.tokens[after - 1].end
        self.references.append(TableReference(parts, clause, None, self.tokens[at].start, end, role))
        return after

    def read_table(self, first: int, after: int, parts: tuple[str, ...], prefix: str | None) -> int:
        """Read what follows the name of a relation that is a table; `prefix` is an alias that came before it."""
        clause, after = self.read_clause(after)
        end = clause.end if clause else self.tokens[after - 1].end
        has_options = spells(self.tokens, after, "WITH", "(")
        if has_options:
            after = skip_brackets(self.tokens, after + 1)
        if self.rules.sample_before_alias and spells(self.tokens, after, "TABLESAMPLE", "("):
            after = skip_brackets(self.tokens, after + 1)
            if spells(self.tokens, after, "REPEATABLE", "("):
                after = skip_brackets(self.tokens, after + 1)
        alias_at = max(end, self.tokens[after - 1].end)
        alias, after = self.read_alias(after)
        if clause is None:
            clause, after = self.read_clause(after)
        alias = alias or prefix
        reference = TableReference(
            parts, clause, alias, self.tokens[first].start, end, "read", None if alias else alias_at, has_options
        )
        self.references.append(reference)
        return after

    def note_file(self, at: int, role: NameRole, alias_at: int | None) -> None:
        token = self.tokens[at]
        name = unquote(token, dialect=self.dialect)
        self.files.append(TableReference((name,), None, None, token.start, token.end, role, alias_at))

    def note_lake(self, at: int, after: int, prefix: str | None) -> None:
        alias, end = self.read_alias(after)[0] or prefix, self.tokens[after - 1].end
        parts, alias_at = (self.word(at).lower(),), None if alias else end
        self.lakes.append(TableReference(parts, None, alias, self.tokens[at].start, end, "read", alias_at))

    def skip_other_relation(self, at: int, what: str) -> int:
        """Pass over the alias of a relation that is no table, and refuse a version clause before or after it."""
        for after in (at, self.read_alias(at)[1]):
            if self.read_clause(after)[0] is not None:
                raise InvalidInput(f"{what} has no versions", hint="put the version clause after a table's name")
        return self.read_alias(at)[1]

    def read_alias(self, at: int) -> tuple[str | None, int]:
        """Read ``[AS] alias [(columns)]``, if it is there."""
        named = at + 1 if self.word(at) == "AS" else at
        token = self.tokens[named] if named < len(self.tokens) else None
        if token is None or token.kind in {"symbol", "number"} or (named == at and not self.is_alias(at)):
            return None, at
        after = named + 1
        if spells(self.tokens, after, "("):
            after = skip_brackets(self.tokens, after)
        return unquote(token, dialect=self.dialect), after

    def is_alias(self, at: int) -> bool:
        """Return whether what follows a relation without AS is an alias, not the next clause."""
        word, following = self.word(at), self.word(at + 1)
        if self.tokens[at].kind == "quoted":
            return True
        is_sorting = following == "BY" and word in {"SORT", "CLUSTER", "DISTRIBUTE"}
        clause = is_sorting or self.read_clause(at)[0] is not None
        join = word in _JOIN_KINDS and following in {"JOIN", "LEFT", "RIGHT", "INNER", "FULL", "OUTER"}
        minus = word == "MINUS" and self.rules.subtracts_by_minus
        return bool(word) and word not in RESERVED and not (clause or join or minus)

    def read_clause(self, at: int) -> tuple[VersionClause | None, int]:
        return read_clause(self.statement, at) or (None, at)

    def read_parts(self, at: int) -> tuple[tuple[str, ...], int]:
        parts = [unquote(self.tokens[at], dialect=self.dialect)]
        at += 1
        while spells(self.tokens, at, ".") and at + 1 < len(self.tokens) and self.tokens[at + 1].kind != "symbol":
            parts.append(unquote(self.tokens[at + 1], dialect=self.dialect))
            at += 2
        return tuple(parts), at

    def is_name(self, at: int) -> bool:
        if at >= len(self.tokens):
            return False
        token = self.tokens[at]
        if token.kind == "number":
            return self.rules.names_begin_with_digits and not token.text.isdigit()
        return token.kind == "quoted" or (token.kind == "word" and token.word not in RESERVED)

    def word(self, at: int) -> str:
        """Return the word at an index in upper case; empty when there is no plain word."""
        return self.tokens[at].word if 0 <= at < len(self.tokens) else ""

    def ends(self, at: int) -> bool:
        return at >= len(self.tokens) or self.tokens[at].symbol == ")"


# How a statement begins.

NOT_ALONE: Final = "run one statement at a time"
OUR_WORDS: Final = frozenset({
    "INSERT", "DELETE", "UPDATE", "MERGE", "CREATE", "DROP", "TRUNCATE", "ALTER", "COMMENT", "DESCRIBE", "DESC", "CALL",
    "REPLACE", "UPSERT", "COPY", "VACUUM", "OPTIMIZE", "RESTORE", "BEGIN", "START", "COMMIT", "ROLLBACK", "SHOW",
})  # fmt: skip
"""The words that a statement of our own grammar begins with, or one of another database that it refuses."""


def may_be_ours(statement: Statement) -> bool:
    """Return whether a statement begins, after EXPLAIN and WITH, with one of `OUR_WORDS`; a query does not."""
    _, verb = names_of_with(statement, end_of_explain(statement))
    return verb < len(statement.tokens) and statement.tokens[verb].word in OUR_WORDS


def end_of_explain(statement: Statement) -> int:
    """Return the index of the token after ``EXPLAIN`` and its options; 0 when the statement has none."""
    tokens = statement.tokens
    if not spells(tokens, 0, "EXPLAIN"):
        return 0
    at = 1
    if options := statement.rules.explain_options:
        while at < len(tokens) and tokens[at].word in options:
            at += 1
        return at
    if spells(tokens, at, "ANALYZE"):
        at += 1
    if spells(tokens, at, "(", "ANALYZE") or spells(tokens, at, "(", "FORMAT"):
        at = skip_brackets(tokens, at)
    return at


def first_word(statement: Statement) -> str:
    """Return the first token after opening brackets, words in upper case; empty for a blank statement."""
    return next((token.word or token.text for token in statement.tokens if token.symbol != "("), "")


def no_query(dialect: Dialect, problem: str = "there is no query") -> InvalidInput:
    return InvalidInput(problem, hint=RULES[dialect].how_queries_begin)


def no_query_begins_with(statement: Statement, what: str = "") -> InvalidInput:
    """Return the error of a statement that begins as no query does; `what` says in words what it would do."""
    word = next((token.text for token in statement.tokens if token.symbol != "("), "")
    return no_query(statement.dialect, f"no query begins with {word!r}{what}")


def no_call(name: str, effect: str, hint: str = "leave it out") -> InvalidInput:
    return InvalidInput(f"a query cannot call {name!r}, which {effect}", hint=hint)


def check_takes_no_notes(message: str | None, job_id: str | None) -> None:
    """Raise when a message or job id is given with a statement that makes no version from rows."""
    name = "a message" if message is not None else "a job id" if job_id is not None else None
    if name is not None:
        raise InvalidInput(
            f"{name} is for INSERT, UPDATE, DELETE and MERGE",
            hint=("leave out ", Action("-m", "message=") if message is not None else Action("--job-id", "job_id=")),
        )


def lists_columns(statement: Statement, table: str) -> bool:
    """Return whether a statement is ``DESCRIBE table``, or means the same."""
    tokens, dialect = statement.tokens, statement.dialect
    if not tokens or tokens[0].word not in statement.rules.lists_columns:
        return False
    at = 1
    while at < len(tokens) and tokens[at].word in {"TABLE", "EXTENDED", "FORMATTED"}:
        at += 1
    return [unquote(token, dialect=dialect) for token in tokens[at:]] == [table]
