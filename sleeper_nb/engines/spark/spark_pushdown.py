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
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.engines.spark.frames import NAMES_AND_SETTINGS, type_text
from sleeper_nb.engines.spark.gateway import java_class
from sleeper_nb.model.deletions import FILE_NUMBER, PLACES, POSITION
from sleeper_nb.model.schema import Schema
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
    PlannedCondition,
    Predicate,
    PushedPredicates,
    ShiftedColumn,
    comparison_of,
    starts_with,
    swapped,
)
from sleeper_nb.sql.statement import Statement

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


logger = logging.getLogger(__name__)

_OPERATORS: Final[Mapping[str, ComparisonOperator]] = {
    "EqualTo": "=", "EqualNullSafe": "=", "LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
}  # fmt: skip
_BITS: Final[Mapping[str, int]] = {"integer": 32, "long": 64}
_NUMBERS: Final = _BITS.keys()

_LONGEST_IN: Final = "spark.sql.optimizer.inSetConversionThreshold"
_CONDITIONS: Final = frozenset({"WHERE", "HAVING", "ON", "USING", "NATURAL", "QUALIFY"})


def why_not_planned(statements: Iterable[Statement]) -> str:
    """Return why the conditions of a statement, or of a view that it reads, are not planned; "" when they are."""
    words = {token.word for statement in statements for token in statement.tokens}
    return "" if words & _CONDITIONS else "the statement has no conditions"


@contextmanager
def with_whole_lists(spark: SparkSession) -> Iterator[None]:
    """Let plans that are made in a block keep long lists of ``IN``: Spark makes a set of them, which its JSON lacks."""
    jvm: Any = spark
    with NAMES_AND_SETTINGS:
        had_own = jvm._jsparkSession.sessionState().conf().contains(_LONGEST_IN)  # noqa: SLF001 - PySpark has no other way
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
    def of(cls, number: int, schema: Schema, mark: str, *, with_places: bool = False) -> EmptyFrame:
        """Return the stand-in with a number for a table; its own names begin with `mark`.

        With `with_places`, the columns `place_columns.PLACES` follow those of the schema.
        """
        names, types = list(schema.names), [type_text(field.type) for field in schema.fields]
        if with_places:
            names, types = [*names, FILE_NUMBER, POSITION], [*types, "int", "bigint"]
        return cls._made(number, mark, names, types)

    @classmethod
    def like(cls, number: int, frame: DataFrame, mark: str) -> EmptyFrame:
        fields = frame.schema.fields
        return cls._made(number, mark, frame.columns, [field.dataType.simpleString() for field in fields])

    @classmethod
    def _made(cls, number: int, mark: str, names: Sequence[str], types: Sequence[str]) -> EmptyFrame:
        return cls(tuple(f"{mark}{number}_{i}" for i in range(len(names))), tuple(names), tuple(types))

    def frame(self, spark: SparkSession) -> DataFrame:
        """Return the frame, with the names of the real columns."""
        from pyspark.sql import DataFrame

        ddl = ", ".join(f"{name} {kind}" for name, kind in zip(self.columns, self.types, strict=True))
        jvm: Any = spark
        struct = java_class(spark, "org.apache.spark.sql.types.StructType").fromDDL(ddl)
        # rows that the optimizer does not know to be empty: it would leave them out
        rows = DataFrame(jvm._jsparkSession.createDataFrame(jvm._jsc.emptyRDD(), struct), spark)  # noqa: SLF001 - no other way
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
    scans: dict[str, list[list[PlannedCondition]]] = {}
    joins: dict[str, list[PlannedCondition]] = {}
    for columns, conditions, above in (leaf for each in plans for leaf in _leaves(each)):
        name = next((owners[column] for column in columns if column in owners), None)
        if name is not None:
            names = dict(zip(stand_ins[name].columns, stand_ins[name].names, strict=True))
            real = {own: column for own, column in names.items() if column not in PLACES.names}  # no place tells keys
            reader = _Reader(real, clock)
            parts = [part for condition in conditions for part in _parts(tree(condition))]
            scans.setdefault(name, []).append(
                [PlannedCondition(_text(each, names), reader.predicate(each)) for each in parts]
            )
            joins.setdefault(name, []).extend(PlannedCondition(each, ALWAYS_TRUE, is_join=True) for each in above)
    return PushedPredicates(
        {name: Or(tuple(And(tuple(each.predicate for each in one)) for one in each)) for name, each in scans.items()},
        conditions={name: (*filter(_is_written, chain.from_iterable(scans[name])), *joins[name]) for name in scans},
    )


def _leaves(plan: JsonNode) -> Iterator[tuple[list[str], list[Any], tuple[str, ...]]]:
    """Yield the columns of each frame in a plan, the conditions directly above it, and the texts of all above these."""
    waiting: list[tuple[JsonNode, list[Any], tuple[str, ...]]] = [(plan, [], ())]
    while waiting:
        node, conditions, above = waiting.pop()
        if node.kind == "LogicalRDD":
            yield [attribute[0]["name"] for attribute in node.values["output"]], conditions, above
        kept, left = [], conditions  # what stays here is tested after the rows were read
        if node.kind == "Filter":
            kept, left = [*conditions, node.values["condition"]], []
        above = (*above, *_texts(left), *(f"join on {each}" for each in _texts(filter(None, [_join_of(node)]))))
        waiting += [(child, kept, above) for child in node.inner]


def _join_of(node: JsonNode) -> Any:
    return node.values.get("condition") if node.kind == "Join" else None


def _texts(conditions: Iterable[Any]) -> Iterator[str]:
    return (_text(part, {}) for condition in conditions for part in _parts(tree(condition)))


def _parts(condition: JsonNode) -> Iterator[JsonNode]:
    """Yield the conditions that a condition joins by AND."""
    if condition.kind != "And":
        yield condition
        return
    for each in condition.inner:
        yield from _parts(each)


def _is_written(condition: PlannedCondition) -> bool:
    """Return whether a condition may be one of the statement: Spark adds that columns are not null."""
    return not condition.text.endswith(_NOT_NULL)


_NOT_NULL: Final = " IS NOT NULL"
_BETWEEN: Final[Mapping[str, str]] = {
    "EqualTo": "=", "EqualNullSafe": "<=>", "LessThan": "<", "LessThanOrEqual": "<=", "GreaterThan": ">",
    "GreaterThanOrEqual": ">=", "And": "AND", "Or": "OR", "Add": "+", "Subtract": "-", "Multiply": "*", "Divide": "/",
    "Remainder": "%",
}  # fmt: skip


def _text(node: JsonNode, names: Mapping[str, str], *, inside: bool = False) -> str:
    """Return an expression of a plan in readable form, with the real names of columns."""
    if node.kind == "AttributeReference":
        return names.get(node.values["name"], str(node.values["name"]))
    if node.kind == "Literal":
        value = node.values.get("value")
        return f"'{value}'" if node.values.get("dataType") in ("string", "date", "timestamp") else f"{value}"
    inner = [_text(each, names, inside=node.kind in _BETWEEN) for each in node.inner]
    if node.kind in _BETWEEN and len(inner) == 2:
        text = f"{inner[0]} {_BETWEEN[node.kind]} {inner[1]}"
        return f"({text})" if inside else text
    if node.kind in {"IsNull", "IsNotNull"}:
        return f"{inner[0]}{_NOT_NULL if node.kind == 'IsNotNull' else ' IS NULL'}"
    if node.kind == "In":
        return f"{inner[0]} IN ({', '.join(inner[1:])})"
    return f"{node.kind.lower()}({', '.join(inner)})"


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
        if node.inner and node.inner[0].kind == "CreateNamedStruct":
            return self._row_predicate(node)
        if (of_sum := self._sum_predicate(node)) is not None:
            return of_sum
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

    def _sum_predicate(self, node: JsonNode) -> Predicate | None:
        """Return the predicate that compares a sum of a column and a constant with constants; None of another."""
        operator = _OPERATORS.get(node.kind, "=")
        if node.kind in _OPERATORS:
            (left, right), is_swapped = node.inner, node.inner[0].kind == "Literal"
            operands = [right, left] if is_swapped else [left, right]
            operator = swapped(operator) if is_swapped else operator
        else:
            operands = list(node.inner) if node.kind == "In" else []
        shifted = self._shifted(operands[0]) if operands else None
        values = [self._value(each) for each in operands[1:]]
        if shifted is None or not all(isinstance(value, int) for value in values):
            return None
        return Or(tuple(shifted.compared(operator, value) for value in values))

    def _shifted(self, node: JsonNode) -> ShiftedColumn | None:
        """Return an expression that is a column of whole numbers plus or minus a constant of its type."""
        if node.kind not in {"Add", "Subtract"}:
            return None
        left, right = node.inner
        is_negated = node.kind == "Subtract" and right.kind == "AttributeReference"
        column, constant = (left, right) if left.kind == "AttributeReference" else (right, left)
        name, offset, kind = self._column(column), self._value(constant), column.values.get("dataType")
        if name is None or not isinstance(offset, int) or kind not in _BITS or constant.values["dataType"] != kind:
            return None
        offset = -offset if node.kind == "Subtract" and not is_negated else offset
        return ShiftedColumn(name, offset, is_negated, _BITS[kind])

    def _row_predicate(self, node: JsonNode) -> Predicate:
        """Return the predicate of ``(a, b) = (1, 'x')``, or of an ``IN`` of such rows."""
        if node.kind not in {"EqualTo", "EqualNullSafe", "In"}:
            return ALWAYS_TRUE
        columns = [self._column(each) for each in node.inner[0].inner[1::2]]  # each after its name
        return Or(tuple(_row_of(columns, each) for each in node.inner[1:]))

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


def _row_of(columns: Sequence[str | None], literal: JsonNode) -> Predicate:
    """Return the predicate that columns have the values of a row, which Spark shows as ``[1,x]``, without quotes.

    Where a comma or ``null`` could belong to a text, nothing is known.
    """
    kind, shown = literal.values.get("dataType"), literal.values.get("value")
    if literal.kind != "Literal" or not isinstance(kind, dict) or not isinstance(shown, str):
        return ALWAYS_TRUE
    fields, values = kind["fields"], shown.removeprefix("[").removesuffix("]").split(",")
    if not len(fields) == len(values) == len(columns):
        return ALWAYS_TRUE
    pairs = ((column, _value_in_row(each, text)) for column, each, text in zip(columns, fields, values, strict=True))
    return And(tuple(comparison_of("=", (column, UNKNOWN), (None, value)) for column, value in pairs))


def _value_in_row(field: Mapping[str, Any], shown: str) -> Any:
    """Return the value of a field: days of a date, microseconds of a timestamp; `UNKNOWN` of another type."""
    kind = field["type"]
    if shown == "null" or field["metadata"]:  # such as a collation, by which other texts are equal
        return UNKNOWN
    if kind == "string":
        return shown
    if kind not in {*_NUMBERS, "date", "timestamp"}:
        return UNKNOWN
    try:
        if kind == "date":
            return _EPOCH.date() + timedelta(days=int(shown))
        return _EPOCH + timedelta(microseconds=int(shown)) if kind == "timestamp" else int(shown)
    except OverflowError:  # beyond the years 1 to 9999
        return UNKNOWN


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


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
