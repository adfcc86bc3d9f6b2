"""Spark's optimized plans, of which Spark shows the JSON: as trees of plans and of expressions."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_SUBQUERY: Final = re.compile(r"\.expressions\.(\w*Subquery\w*|Exists|ListQuery)$")


@dataclass(frozen=True, slots=True)
class JsonNode:
    """A node of a plan or an expression, with its inner nodes."""

    kind: str
    values: Mapping[str, Any]
    inner: tuple[JsonNode, ...]


def tree(nodes: Any) -> JsonNode:
    """Return a tree that Spark's JSON has as a list, each node before its inner ones."""
    return _next_tree(iter(nodes))


def _next_tree(nodes: Iterator[Mapping[str, Any]]) -> JsonNode:
    values = next(nodes)
    inner = tuple([_next_tree(nodes) for _ in range(values["num-children"])])
    return JsonNode(str(values["class"]).rpartition(".")[2], values, inner)


def plans_of(frame: DataFrame) -> list[JsonNode]:
    """Return the optimized plan of a frame, and those of the subqueries in its expressions.

    Raises
    ------
    TypeError
        When the JSON has not the whole plan of a subquery.
    """
    plan = _optimized(frame).toJSON()
    return [tree(each) for each in _plans(json.loads(str(plan)))]


def is_deterministic(frame: DataFrame) -> bool:
    """Return whether Spark holds each expression of a frame's plan for one that has the same value every time."""
    return bool(_optimized(frame).deterministic())


def _optimized(frame: DataFrame) -> Any:
    return frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - PySpark has no other way


def _plans(plan: Any) -> Iterator[Any]:
    """Yield a plan and those of the subqueries in its expressions, as Spark's JSON has them."""
    yield plan
    waiting: list[Any] = [plan]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            if _SUBQUERY.search(str(value.get("class"))):
                if not isinstance(value["plan"], list):
                    raise TypeError("the plan of a subquery is not in the JSON")
                yield value["plan"]
