"""What each table's rows must meet to be in an answer, as Spark's optimizer knows it; no row is read.

The statement is planned over empty frames that stand in for the tables. In the optimized plan, the conditions of each
table stand directly above it, with constants and parameters computed. The columns of a stand-in have names of their
own, so that a name in a condition is that column and no alias. Whatever is not understood is not pushed down.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.engines.spark.frames import NAMES_AND_SETTINGS
from sleeper_nb.engines.spark.gateway import java_class, java_context, java_session, query_execution, session_state
from sleeper_nb.model.deletions import PLACES
from sleeper_nb.model.sql_values import quoted_name
from sleeper_nb.read.predicate import (
    ALWAYS_TRUE,
    MOST_REGIONS,
    UNKNOWN,
    And,
    ComparisonOperator,
    IsIn,
    IsNull,
    Or,
    Predicate,
    PushedPredicates,
    comparison_of,
    starts_with,
)
from sleeper_nb.sql.statement import Statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


logger = logging.getLogger(__name__)

_OPERATORS: Final[Mapping[str, ComparisonOperator]] = {
    "EqualTo": "=", "EqualNullSafe": "=", "LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}  # fmt: skip
_NUMBERS: Final = frozenset({"integer", "long"})

_LONGEST_IN: Final = "spark.sql.optimizer.inSetConversionThreshold"
_CONDITIONS: Final = frozenset({"WHERE", "HAVING", "ON", "USING", "NATURAL", "QUALIFY"})


def why_not_planned(statements: Iterable[Statement]) -> str:
    """Return why the conditions of a statement, or of a view that it reads, are not planned; "" when they are."""
    words = {token.word for statement in statements for token in statement.tokens}
    return "" if words & _CONDITIONS else "the statement has no conditions"


@contextmanager
def with_whole_lists(spark: SparkSession) -> Iterator[None]:
    """Let plans that are made in a block keep long lists of ``IN``: Spark makes a set of them, which its JSON lacks."""
    with NAMES_AND_SETTINGS:
        had_own = session_state(spark).conf().contains(_LONGEST_IN)
        before = spark.conf.get(_LONGEST_IN)
        spark.conf.set(_LONGEST_IN, str(MOST_REGIONS))
        try:
            yield
        finally:
            if had_own:
                spark.conf.set(_LONGEST_IN, str(before))
            else:
                spark.conf.unset(_LONGEST_IN)


@dataclass(frozen=True, slots=True)
class EmptyFrame:
    """An empty frame that stands in for a table or a variable.

    Parameters
    ----------
    columns
        Its own names of the columns, which occur nowhere else.
    names, types
        The real names, and the types in Spark's words.
    """

    columns: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[str, ...]

    @classmethod
    def of(cls, number: int, mark: str, columns: Iterable[tuple[str, str]]) -> EmptyFrame:
        """Return the stand-in with a number for columns of some names and types; its own names begin with `mark`."""
        named = list(columns)
        return cls(
            tuple(f"{mark}{number}_{at}" for at in range(len(named))),
            tuple(name for name, _ in named),
            tuple(kind for _, kind in named),
        )

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the frame, with the names of the real columns."""
        from pyspark.sql import DataFrame

        ddl = ", ".join(f"{name} {kind}" for name, kind in zip(self.columns, self.types, strict=True))
        struct = java_class(spark, "org.apache.spark.sql.types.StructType").fromDDL(ddl)
        # rows that the optimizer does not know to be empty: it would leave them out
        rows = DataFrame(
            java_session(spark).createDataFrame(java_context(spark.sparkContext).emptyRDD(), struct), spark
        )
        names = zip(self.columns, self.names, strict=True)
        return rows.selectExpr(*[f"{own} AS {quoted_name(real, '`')}" for own, real in names])


def push_down(frame: DataFrame, stand_ins: Mapping[str, EmptyFrame]) -> PushedPredicates:
    """Return what the rows of each stand-in must meet, by its name; none of one that the plan does not read."""
    try:
        return _pushed(plans_of(frame), stand_ins, _PlanClock(frame.sparkSession))
    except RecursionError:
        return PushedPredicates({}, "the conditions are nested too deeply")
    except Exception as error:  # noqa: BLE001 - of whatever kind: the statement itself runs after this, and may raise it
        logger.debug("no partition is pruned, as Spark's plan cannot be read: %s", error)
        return PushedPredicates({}, "the plan of Spark cannot be read")


def _pushed(plans: Sequence[JsonNode], stand_ins: Mapping[str, EmptyFrame], clock: _PlanClock) -> PushedPredicates:
    owners = {column: name for name, each in stand_ins.items() for column in each.columns}
    scans: dict[str, list[Predicate]] = {}
    for columns, conditions in (leaf for each in plans for leaf in _leaves(each)):
        name = next((owners[column] for column in columns if column in owners), None)
        if name is not None:
            names = zip(stand_ins[name].columns, stand_ins[name].names, strict=True)
            real = {own: column for own, column in names if column not in PLACES.names}  # no place tells keys
            reader = _Reader(real, clock)
            parts = tuple(reader.predicate(tree(condition)) for condition in conditions)
            scans.setdefault(name, []).append(And(parts))
    return PushedPredicates({name: Or(tuple(each)) for name, each in scans.items()})


def _leaves(plan: JsonNode) -> Iterator[tuple[list[str], list[Any]]]:
    """Yield the columns of each frame in a plan, and the conditions directly above it."""
    waiting: list[tuple[JsonNode, list[Any]]] = [(plan, [])]
    while waiting:
        node, conditions = waiting.pop()
        if node.kind == "LogicalRDD":
            yield [attribute[0]["name"] for attribute in node.values["output"]], conditions
        kept = [*conditions, node.values["condition"]] if node.kind == "Filter" else []
        waiting += [(child, kept) for child in node.inner]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the conditions of one table.

    Parameters
    ----------
    columns
        The table's own names of the columns.
    clock
        In which plans show timestamps.
    """

    columns: Mapping[str, str]
    clock: _PlanClock

    def predicate(self, node: JsonNode) -> Predicate:
        """Return the predicate of an expression; `ALWAYS_TRUE` for one that is not understood."""
        if node.kind in {"And", "Or"}:
            parts = tuple(self.predicate(each) for each in node.inner)
            return And(parts) if node.kind == "And" else Or(parts)
        if node.kind in _OPERATORS:
            return comparison_of(
                _OPERATORS[node.kind], *((self._column(each), self._value(each)) for each in node.inner)
            )
        column = self._column(node.inner[0]) if node.inner else None
        if column is None:
            return ALWAYS_TRUE
        if node.kind == "IsNull":
            return IsNull(column)
        if node.kind == "StartsWith":
            prefix = self._value(node.inner[1])
            return starts_with(column, prefix) if isinstance(prefix, str) else ALWAYS_TRUE
        if node.kind == "In":
            values = tuple(self._value(each) for each in node.inner[1:])
            return ALWAYS_TRUE if UNKNOWN in values else IsIn(column, values)
        return ALWAYS_TRUE

    def _column(self, node: JsonNode) -> str | None:
        return self.columns.get(node.values["name"]) if node.kind == "AttributeReference" else None

    def _value(self, node: JsonNode) -> Any:
        """Return the value of a whole number, a text, a date or a timestamp; `UNKNOWN` of any other expression."""
        kind, value = node.values.get("dataType"), node.values.get("value")
        if node.kind != "Literal" or value is None:
            return UNKNOWN
        if not isinstance(kind, str):  # an array, a map or a struct
            return UNKNOWN
        if kind in _NUMBERS:
            return int(value)
        try:
            if kind == "date":
                return date.fromisoformat(value)
            if kind == "timestamp":
                return self.clock.instant(value)
        except (ValueError, OverflowError):  # beyond the years 1 to 9999
            return UNKNOWN
        return str(value) if kind == "string" else UNKNOWN


@dataclass(frozen=True, slots=True)
class _PlanClock:
    """The time zone in which plans show timestamps, by the rules of Java: those of Python differ for many zones.

    It is that of the session that this thread used last, which need not be the session of the plan.
    """

    session: SparkSession

    def instant(self, shown: str) -> Any:
        """Return the instant of a local time; `UNKNOWN` when a clock shows it twice or never."""
        local = datetime.fromisoformat(shown)
        settings = java_class(self.session, "org.apache.spark.sql.internal.SQLConf").get()
        times = java_class(self.session, "org.apache.spark.sql.catalyst.util.DateTimeUtils")
        zone = times.getZoneId(settings.sessionLocalTimeZone())
        parsed = java_class(self.session, "java.time.LocalDateTime").parse(shown.replace(" ", "T"))
        offsets = zone.getRules().getValidOffsets(parsed)
        if offsets.size() != 1:
            return UNKNOWN
        return (local - timedelta(seconds=offsets.get(0).getTotalSeconds())).replace(tzinfo=UTC)


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
    return query_execution(frame).optimizedPlan()


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
