"""The nodes of a statement's plan, as Spark's parser returns it, wherever they are in it.

Spark's own JSON of a plan leaves out what is in maps, tuples and lists of lists: windows, rows of ``VALUES``, names of
``WITH``. So a few lines of Java walk through all fields of all nodes, in one call, whatever the length of the plan.
Spark compiles them as it compiles its own generated code, and caches the result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.engines.spark.gateway import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CODEGEN: Final = "org.apache.spark.sql.catalyst.expressions.codegen"
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
    plan
        As the session's parser returned it.
    wanted
        The kinds of nodes, and how many of their fields matter.
    """
    no_comments = java_class(session, "org.apache.spark.api.python.PythonUtils").toScalaMap({})
    source = java_class(session, f"{_CODEGEN}.CodeAndComment")(_WALK, no_comments)
    compiled = java_class(session, f"{_CODEGEN}.CodeGenerator").compile(source)
    arguments = session.sparkContext._gateway.new_array(java_class(session, "java.lang.Object"), 2)  # type: ignore[union-attr]  # noqa: SLF001
    arguments[0] = plan
    arguments[1] = json.dumps(wanted)
    found = json.loads(compiled.productElement(0).generate(arguments))
    return tuple(PlanNode(kind, tuple(fields)) for kind, *fields in found)
