"""Which statements Spark may run: those that read, as Spark's own parser sees them.

A command is allowed when it is known to read, or to change nothing but the Spark session; any other is refused, also
one that a later Spark adds. Spark's grammar has commands at the top of a statement only, and in ``EXPLAIN``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.engines.spark.gateway import gateway_of, java_array, java_class, session_state
from sleeper_nb.engines.spark.sql_rules import (
    check_change,
    check_format,
    check_mode,
    check_options,
    check_path,
    is_format,
)
from sleeper_nb.errors import Action, InvalidInput, NotFound
from sleeper_nb.sql.references import end_of_explain, first_word, no_call, no_query_begins_with
from sleeper_nb.sql.statement import Statement
from sleeper_nb.sql.tokens import spells
from sleeper_nb.storage.local_files import no_local_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_LOGICAL: Final = "org.apache.spark.sql.catalyst.plans.logical"
_QUERY_WORDS: Final = frozenset({"SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE"})
"""How statements begin that are no commands."""

_READS: Final = re.compile(r"(Show|Describe|List)\w+")
_OF_SESSION: Final = frozenset({
    "SetCommand", "ResetCommand", "SetCatalogAndNamespace", "SetNamespaceCommand", "CacheTable", "UncacheTable",
    "ClearCacheCommand", "RefreshTable", "CreateVariable", "SetVariable", "DropVariable", "CreateTempViewUsing",
})  # fmt: skip
"""Commands that change nothing but the Spark session, and end with it."""

_CALLS_JAVA: Final = frozenset({"reflect", "try_reflect", "java_method"})
_OPENS_FILES: Final = frozenset({"from_avro", "schema_of_avro", "from_protobuf", "to_protobuf"})
"""Functions whose arguments may name a file."""

_JUDGED: Final = {
    "UnresolvedRelation": 2,
    "UnresolvedFunction": 1,
    "UnresolvedTableValuedFunction": 1,
    "PlanWithUnresolvedIdentifier": 0,
    "ExpressionWithUnresolvedIdentifier": 0,
    "ScriptTransformation": 0,
    "CreateTempViewUsing": 6,
    "SetCommand": 1,
    "ResetCommand": 1,
    "SetNamespaceCommand": 1,
}
"""The kinds of nodes that can do more than read tables, and how many of their fields say so."""

_TABLE_HINT: Final = "make the table with create and load it with ingest"


def check_reads(session: SparkSession, statement: Statement, *, local_files: bool = True) -> None:
    """Make sure that a statement writes nothing, runs no program, and reads no local file that it may not.

    Parameters
    ----------
    session
        Whose parser judges; nothing is run.

    Raises
    ------
    InvalidInput
        When it does, naming the word that it begins with, or the function.
    pyspark.errors.ParseException
        When Spark cannot read it.
    """
    parser = session_state(session).sqlParser()
    plan = parser.parsePlan(statement.text)
    _check_substitution(session, statement.text)
    if any(spells(statement.tokens, at, "IDENTIFIER", "(") for at in range(len(statement.tokens))):
        raise _no_computed_name()  # the parser leaves a name where the argument is a constant
    _check_command(session, statement, plan)
    for node in nodes_of(session, plan, _JUDGED):
        _check_node(session, node, local_files=local_files)


def is_query(statement: Statement) -> bool:
    """Return whether a statement is a query, and not a command or the ``EXPLAIN`` of a query."""
    return first_word(statement) in _QUERY_WORDS


def is_command(statement: Statement) -> bool:
    """Return whether a statement that only reads is no query: Spark runs a command as soon as it has a frame."""
    return not is_query(statement.after(end_of_explain(statement)))


def _check_command(session: SparkSession, statement: Statement, plan: Any) -> None:
    """Raise unless a plan is a query, or a command that reads or changes only the Spark session."""
    kind = _kind(plan)
    if kind == "ExplainCommand":
        _check_command(session, statement.after(end_of_explain(statement)), plan.logicalPlan())
    elif kind == "UnresolvedWith":
        _check_command(session, statement, plan.child())
    elif kind == "SetCatalogAndNamespace" and _kind(plan.child()) == "UnresolvedNamespace":
        names = plan.child().multipartIdentifier()
        _check_namespace(session, [names.apply(index) for index in range(names.size())])
    elif _is_command(session, plan):
        if not (_READS.fullmatch(kind) or kind in _OF_SESSION or _drops_own_view(session, plan, kind)):
            raise _no_query(statement, kind)
    elif not is_query(statement) or any(_is_command(session, each) for each in _children(plan, kind)):
        raise _no_query(statement, kind)


def _kind(plan: Any) -> str:
    return str(plan.getClass().getSimpleName()).rstrip("$")


def _is_command(session: SparkSession, plan: Any) -> bool:
    from py4j.java_gateway import is_instance_of

    gateway = gateway_of(session)
    kinds = ("Command", "ParsedStatement", "InsertIntoDir", "CreateTableAsSelect", "ReplaceTableAsSelect")
    return any(is_instance_of(gateway, plan, f"{_LOGICAL}.{kind}") for kind in kinds)


def _children(plan: Any, kind: str) -> Iterator[Any]:
    """Yield the parts of ``FROM … INSERT … INSERT …``, which Spark reads as a union of inserts."""
    if kind == "Union":
        children = plan.children()
        yield from (children.apply(index) for index in range(children.size()))


def _drops_own_view(session: SparkSession, plan: Any, kind: str) -> bool:
    if kind != "DropView":
        return False
    name, catalog = plan.child().nameParts(), session_state(session).catalog()
    if not catalog.isTempView(name):
        raise NotFound(f"no view {name.mkString('.')!r}", hint="SQL can drop only temporary views")
    return True


def _no_query(statement: Statement, kind: str) -> InvalidInput:
    if "Table" in kind and kind.startswith(("Create", "Replace")):
        return InvalidInput("SQL cannot create tables", hint=_TABLE_HINT)
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.removesuffix("Command").removesuffix("Statement")).lower()
    return no_query_begins_with(statement, f" and does {words!r}")


def _check_substitution(session: SparkSession, sql: str) -> None:
    """Raise when Spark would put a setting, or a variable of the process, into a statement: ``${env:HOME}``."""
    if "${" not in sql:
        return
    if java_class(session, "org.apache.spark.sql.internal.VariableSubstitution")().substitute(sql) != sql:
        raise InvalidInput("SQL does not substitute ${…}", hint="write :name, and give its value as a parameter")


def _no_computed_name() -> InvalidInput:
    return InvalidInput("SQL does not accept computed names: IDENTIFIER(…)", hint="write the name itself")


def _check_node(session: SparkSession, node: PlanNode, *, local_files: bool) -> None:
    match node.kind, node.fields:
        case "UnresolvedRelation", (parts, options):
            is_file = _check_relation(session, parts, local_files=local_files)
            check_options(session, options.items(), local_files=local_files)
            if is_file:
                check_mode(parts[0], parts[1], options)
        case "UnresolvedFunction" | "UnresolvedTableValuedFunction", (parts,):
            _check_function(parts[-1])
        case "PlanWithUnresolvedIdentifier" | "ExpressionWithUnresolvedIdentifier", _:
            raise _no_computed_name()
        case "ScriptTransformation", _:
            hint = ("read the rows in Python: ", Action("--as pandas", "result.to_pandas()"))
            raise InvalidInput("SQL cannot run programs: TRANSFORM … USING", hint=hint)
        case "CreateTempViewUsing", (*_, form, options):
            check_format(form)
            if not local_files:
                raise no_local_files(dict(options).get("path", f"USING {form}"))
            check_options(session, options, local_files=local_files)
            check_mode(form, dict(options).get("path", ""), dict(options))
        case "SetCommand", ([key, value],) if value is not None:
            check_change(key)
        case "ResetCommand", (key,):
            check_change(key)
        case "SetNamespaceCommand", (parts,):
            _check_namespace(session, parts)


def _check_function(name: str) -> None:
    if name.lower() in _CALLS_JAVA:
        raise no_call(name, "runs Java")
    if name.lower() in _OPENS_FILES:
        raise no_call(name, "opens files", hint="call it in Python, on a DataFrame")


def _check_relation(session: SparkSession, parts: Sequence[str], *, local_files: bool) -> bool:
    """Judge a name of two parts, which may be a file: csv.`data.csv`; return whether it is one."""
    if len(parts) != 2 or _is_table(session, *parts) or not _is_source(session, parts[0]):
        return False
    check_format(parts[0])
    check_path(session, parts[1], local_files=local_files)
    return True


def _is_table(session: SparkSession, database: str, name: str) -> bool:
    """Return whether a name is that of a table in a database of the Spark session, which Spark prefers to a file."""
    catalog = session_state(session).catalog()
    some = java_class(session, "scala.Option").apply(database)
    identifier = java_class(session, "org.apache.spark.sql.catalyst.TableIdentifier")(name, some)
    return bool(catalog.databaseExists(database) and catalog.tableExists(identifier))


def _is_source(session: SparkSession, name: str) -> bool:
    """Return whether Spark knows a format, or a class, of a name; without one it looks for no file."""
    from py4j.protocol import Py4JJavaError

    if is_format(name):
        return True
    conf = session_state(session).conf()
    try:
        java_class(session, "org.apache.spark.sql.execution.datasources.DataSource").lookupDataSource(name, conf)
    except Py4JJavaError:
        return False
    return True


def _check_namespace(session: SparkSession, parts: Sequence[str]) -> None:
    if len(parts) != 1 or not session_state(session).catalog().databaseExists(parts[0]):
        name = ".".join(parts)
        hint = "name the catalog before the table: catalog.schema.table"
        raise InvalidInput(
            f"SQL cannot USE {name!r}, which is not a database in the Spark session's catalog", hint=hint
        )


_CODEGEN: Final = "org.apache.spark.sql.catalyst.expressions.codegen"
# Spark's own JSON of a plan leaves out what is in maps, tuples and lists of lists: windows, rows of VALUES, names of
# WITH. So these lines walk through all fields of all nodes, in one call; Spark compiles and caches them like its own.
_WALK: Final = """
public Object generate(Object[] references) throws Exception {
  com.fasterxml.jackson.databind.ObjectMapper json = new com.fasterxml.jackson.databind.ObjectMapper();
  java.util.Map wanted = (java.util.Map) json.readValue((String) references[1], java.util.Map.class);
  java.util.LinkedHashSet found = new java.util.LinkedHashSet();
  java.util.ArrayDeque waiting = new java.util.ArrayDeque();
  waiting.push(references[0]);
  while (!waiting.isEmpty()) {
    Object each = waiting.pop();
    scala.collection.Iterator parts = null;
    if (each instanceof scala.collection.Iterable) {
      parts = ((scala.collection.Iterable) each).iterator();
    } else if (each instanceof scala.Product) {
      parts = ((scala.Product) each).productIterator();
      String name = each.getClass().getName();
      String kind = name.substring(name.lastIndexOf('.') + 1);
      Object fields = wanted.get(kind);
      if (fields != null) {
        java.util.ArrayList node = new java.util.ArrayList();
        node.add(kind);
        for (int i = 0; i < ((Integer) fields).intValue(); i++) {
          node.add(plain(((scala.Product) each).productElement(i)));
        }
        found.add(node);
      }
    }
    while (parts != null && parts.hasNext()) {
      Object part = parts.next();
      if (part != null) { waiting.push(part); }
    }
  }
  return json.writeValueAsString(found);
}

private Object plain(Object value) {
  if (value instanceof java.util.Map) { return new java.util.TreeMap((java.util.Map) value); }
  if (value instanceof scala.Option) {
    return ((scala.Option) value).isEmpty() ? null : plain(((scala.Option) value).get());
  }
  scala.collection.Iterator parts = null;
  if (value instanceof scala.collection.Iterable) {
    parts = ((scala.collection.Iterable) value).iterator();
  } else if (value instanceof scala.Tuple2) {
    parts = ((scala.Product) value).productIterator();
  }
  if (parts == null) { return value == null ? null : String.valueOf(value); }
  java.util.ArrayList all = new java.util.ArrayList();
  while (parts.hasNext()) { all.add(plain(parts.next())); }
  return all;
}
"""


@dataclass(frozen=True, slots=True)
class PlanNode:
    """A node of a plan.

    Parameters
    ----------
    kind
        The name of its class, without the package.
    fields
        Its first fields: texts, lists of them, and dictionaries or lists of pairs for maps. None for nothing.
    """

    kind: str
    fields: tuple[Any, ...]


def nodes_of(session: SparkSession, plan: Any, wanted: Mapping[str, int]) -> tuple[PlanNode, ...]:
    """Return the nodes of some kinds that a plan has, each once.

    Parameters
    ----------
    session
        Whose JVM has the plan.
    wanted
        The kinds of nodes, and how many of their fields matter.
    """
    no_comments = java_class(session, "org.apache.spark.api.python.PythonUtils").toScalaMap({})
    source = java_class(session, f"{_CODEGEN}.CodeAndComment")(_WALK, no_comments)
    compiled = java_class(session, f"{_CODEGEN}.CodeGenerator").compile(source)
    found = json.loads(compiled.productElement(0).generate(java_array(session, plan, json.dumps(wanted))))
    return tuple(PlanNode(kind, tuple(fields)) for kind, *fields in found)
