"""Which statements Spark may run: those that read, as Spark's own parser sees them.

A command is allowed when it is known to read, or to change nothing but the Spark session; any other is refused, also
one that a later Spark adds. Spark's grammar has commands at the top of a statement only, and in ``EXPLAIN``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.engines.local_files import absolute, check_outside, refused
from sleeper_nb.engines.sql.tokens import tokenize
from sleeper_nb.errors import InvalidInput, NotFound

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGICAL: Final = "org.apache.spark.sql.catalyst.plans.logical"
_BEGINNINGS: Final = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"})
"""How statements begin that are no commands."""

_READS: Final = re.compile(r"(Show|Describe|List)\w+")
_OF_SESSION: Final = frozenset({
    "SetCommand", "ResetCommand", "SetCatalogAndNamespace", "SetNamespaceCommand", "SetCatalogCommand", "CacheTable",
    "UncacheTable", "ClearCacheCommand", "RefreshTable", "CreateVariable", "SetVariable", "DropVariable",
    "CreateTempViewUsing",
})  # fmt: skip
"""Commands that change nothing but the Spark session, and end with it."""

_EFFECTS: Final = re.compile(r"reflect|java_method|using", re.IGNORECASE)
"""What stands in the text of every statement that runs a program or calls Java."""

_FILE: Final = re.compile(r"\.\s*`")
"""What stands in the text of most statements that read a file by its path: csv.`data.csv`."""

_CALLS_JAVA: Final = frozenset({"reflect", "try_reflect", "java_method"})
_HINT: Final = "begin with SELECT, WITH, FROM, SHOW or DESCRIBE; tables are changed by commands"
_TABLE_HINT: Final = "make the table with create and load it with ingest"


def check_reads(session: SparkSession, sql: str, *, local_files: bool = True) -> None:
    """Make sure that a statement writes nothing, runs no program, and reads no local file that it may not.

    Parameters
    ----------
    session
        Whose parser judges; nothing is run.
    sql
        One statement.
    local_files
        Whether SQL may read local files.

    Raises
    ------
    InvalidInput
        When it does, naming the word that it begins with, or the function.
    pyspark.errors.ParseException
        When Spark cannot read it.
    """
    parser = session._jsparkSession.sessionState().sqlParser()  # noqa: SLF001 - PySpark shows no parser
    plan = parser.parsePlan(sql)
    _check_command(session, sql, plan)
    if _kind(plan) == "CreateTempViewUsing" and not local_files:
        raise refused("USING")
    if not local_files or _FILE.search(sql) or _EFFECTS.search(sql):
        _check_nodes(session, plan, local_files=local_files)


def _check_command(session: SparkSession, sql: str, plan: Any) -> None:
    kind = _kind(plan)
    if kind == "ExplainCommand":
        _check_command(session, _after_explain(sql), plan.logicalPlan())
    elif kind == "UnresolvedWith":
        _check_command(session, sql, plan.child())
    elif _is_command(session, plan):
        if not (_READS.fullmatch(kind) or kind in _OF_SESSION or _drops_own_view(session, plan, kind)):
            raise _no_query(sql, kind)
    elif _first_word(sql) not in _BEGINNINGS or any(_is_command(session, each) for each in _children(plan, kind)):
        raise _no_query(sql, kind)


def _kind(plan: Any) -> str:
    return str(plan.getClass().getSimpleName()).rstrip("$")


def _is_command(session: SparkSession, plan: Any) -> bool:
    from py4j.java_gateway import is_instance_of

    gateway = session.sparkContext._gateway  # noqa: SLF001 - the only way to the JVM
    kinds = ("Command", "ParsedStatement", "InsertIntoDir", "CreateTableAsSelect", "ReplaceTableAsSelect")
    return any(is_instance_of(gateway, plan, f"{_LOGICAL}.{kind}") for kind in kinds)


def _children(plan: Any, kind: str) -> Iterator[Any]:
    """Yield the parts of ``FROM … INSERT … INSERT …``, which Spark reads as a union of inserts."""
    if kind == "Union":
        children = plan.children()
        yield from (children.apply(index) for index in range(children.size()))


def _drops_own_view(session: SparkSession, plan: Any, kind: str) -> bool:
    """Whether a command drops a view that is Spark's own and temporary."""
    if kind != "DropView":
        return False
    name, catalog = plan.child().nameParts(), session._jsparkSession.sessionState().catalog()  # noqa: SLF001
    if not catalog.isTempView(name):
        raise NotFound(f"no view {name.mkString('.')!r}", hint="SQL drops temporary views alone")
    return True


def _after_explain(sql: str) -> str:
    tokens = tokenize(sql, dialect="spark")
    options = {"EXPLAIN", "EXTENDED", "FORMATTED", "CODEGEN", "COST", "LOGICAL"}
    first = next((token for token in tokens if token.word not in options), tokens[-1])
    return sql[first.start :]


def _first_word(sql: str) -> str:
    return next((token.word for token in tokenize(sql, dialect="spark") if not token.is_symbol("(")), "")


def _no_query(sql: str, kind: str) -> InvalidInput:
    if "Table" in kind and kind.startswith(("Create", "Replace")):
        return InvalidInput("SQL makes no tables", hint=_TABLE_HINT)
    return InvalidInput(f"no query begins with {_first_word(sql)!r} and does {_in_words(kind)!r}", hint=_HINT)


def _in_words(kind: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.removesuffix("Command").removesuffix("Statement"))
    return words.lower()


def _check_nodes(session: SparkSession, plan: Any, *, local_files: bool) -> None:
    """Judge every node of a plan, as Spark writes it in JSON; names of WITH are among its nodes then."""
    jvm: Any = session._jvm  # noqa: SLF001 - the only way to the JVM
    tree = json.loads(jvm.org.apache.spark.sql.catalyst.analysis.CTESubstitution.apply(plan).toJSON())
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            _check_node(session, node, local_files=local_files)
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def _check_node(session: SparkSession, node: dict[str, Any], *, local_files: bool) -> None:
    kind = str(node.get("class")).rpartition(".")[2]
    if kind == "ScriptTransformation":
        raise InvalidInput("SQL runs no programs: TRANSFORM … USING", hint="read the rows in Python: --as pandas")
    if kind == "UnresolvedFunction":
        name = str(node["nameParts"]).strip("[]").rpartition(", ")[2]
        if name.lower() in _CALLS_JAVA:
            raise InvalidInput(f"a query cannot call {name!r}, which runs Java", hint="leave it out")
    if kind == "UnresolvedRelation":
        _check_relation(session, str(node["multipartIdentifier"])[1:-1], local_files=local_files)


def _check_relation(session: SparkSession, name: str, *, local_files: bool) -> None:
    """Judge a name of two parts that is a file: csv.`data.csv`."""
    form, comma, path = name.partition(", ")
    if not comma or session.catalog.databaseExists(form):
        return
    if not local_files:
        raise refused(path)
    check_outside(absolute(path))
