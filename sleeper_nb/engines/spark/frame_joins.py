"""Spark's optimized plan as operators, by which joins prune rows of tables; no row is read.

Each column of the plan has an id, by which the operators above refer to it. An operator that is not listed here says
nothing of its columns; a plan in which an expression may have another value each time says nothing at all.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sleeper_nb.engines.spark.spark_pushdown import EmptyFrame, JsonNode, is_deterministic, plans_of, tree
from sleeper_nb.read import join_rules
from sleeper_nb.read.join_rules import NOTHING_KNOWN, Operator, Origin, ScanKeys

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger(__name__)

_PRUNES_LEFT: Final = frozenset({"Inner", "Cross", "LeftSemi", "RightOuter"})
_PRUNES_RIGHT: Final = frozenset({
    "Inner", "Cross", "LeftSemi", "LeftOuter", "LeftSingle", "LeftAnti", "ExistenceJoin",
})  # fmt: skip
"""The joins in which a row of that side has no effect when the other side has no row with its key."""

_KEEPS_LEFT: Final = frozenset({"Inner", "Cross", "LeftSemi", "LeftAnti", "LeftOuter", "LeftSingle", "ExistenceJoin"})
_KEEPS_RIGHT: Final = frozenset({"Inner", "Cross", "RightOuter"})
"""The joins whose rows each come from one row of that side, with its values."""
_ONLY_LEFT: Final = frozenset({"LeftSemi", "LeftAnti", "ExistenceJoin"})
_JOINS: Final = _PRUNES_LEFT | _PRUNES_RIGHT | {"FullOuter"}

_EQUAL: Final = frozenset({"EqualTo", "EqualNullSafe"})
"""A value equals itself only, by both; a key that is read is never null."""
_ROW_BY_ROW: Final = frozenset({"Filter", "Sort"})
_SOME_ROWS: Final = frozenset({"GlobalLimit", "LocalLimit", "Offset", "Tail", "Sample"})
_BITS: Final = {"byte": 8, "short": 16, "integer": 32, "long": 64}
"""The types of whole numbers."""
_COMPARED: Final = _BITS.keys() | {"string", "binary", "date", "timestamp"}

_Ids = tuple[int | None, ...]


def joined_keys_in(frame: DataFrame, stand_ins: Mapping[str, EmptyFrame]) -> dict[str, tuple[ScanKeys, ...]]:
    """Return what the rows of each scan of a stand-in must meet, by its name; empty when that is not known."""
    try:
        if not is_deterministic(frame):
            return {}
        operators = _Operators(
            {own: (name, at) for name, each in stand_ins.items() for at, own in enumerate(each.columns)}
        )
        return join_rules.joined_keys([operators.read(plan)[0] for plan in plans_of(frame)])
    except Exception as error:  # noqa: BLE001 - of whatever kind: the statement itself runs after this, and may raise it
        logger.debug("no keys are read first, as Spark's plan cannot be read: %s", error)
        return {}


@dataclass(frozen=True, slots=True)
class _Operators:
    """Reads plans: `owners` has the table of each column of a stand-in, by its own name, and the column's place."""

    owners: Mapping[str, tuple[str, int]]

    def read(self, node: JsonNode) -> tuple[Operator, _Ids]:
        """Return an operator, and the ids of its columns; none when it is not understood."""
        below = [self.read(child) for child in node.inner]
        inputs, ids = tuple(operator for operator, _ in below), [each for _, each in below]
        if node.kind == "LogicalRDD":
            return self._scan(node)
        if node.kind == "Join":
            return _join(node, inputs, ids)
        if node.kind == "Union" and len({len(each) for each in ids}) == 1:
            return Operator(inputs, tuple(Origin(0, at) for at in range(len(ids[0]))), all_of=True), ids[0]
        columns = list(_columns(node, ids[0])) if len(ids) == 1 else []
        return Operator(inputs, tuple(origin for _, origin in columns)), tuple(each for each, _ in columns)

    def _scan(self, node: JsonNode) -> tuple[Operator, _Ids]:
        output = [tree(each) for each in node.values["output"]]
        owners = [self.owners.get(each.values["name"]) for each in output]
        known = [owner for owner in owners if owner is not None]
        if not known or len(known) < len(owners):
            return NOTHING_KNOWN, ()
        return Operator(table=known[0][0], scanned=tuple(at for _, at in known)), tuple(map(_id, output))


def _columns(node: JsonNode, ids: _Ids) -> Iterator[tuple[int | None, Origin | None]]:
    """Yield the id of each column of an operator that has one input, and where the column comes from."""
    if node.kind in _ROW_BY_ROW | _SOME_ROWS | {"Window"}:
        yield from ((each, Origin(0, at, passes=node.kind in _ROW_BY_ROW)) for at, each in enumerate(ids))
    if node.kind == "Window":
        yield from ((_id(tree(each)), None) for each in node.values["windowExpressions"])
    if node.kind == "Project":
        yield from (_named(tree(each), ids) for each in node.values["projectList"])
    if node.kind == "Aggregate":  # a column that is no value of a function is one that rows are grouped by
        yield from (_named(tree(each), ids) for each in node.values["aggregateExpressions"])


def _named(expression: JsonNode, ids: _Ids) -> tuple[int | None, Origin | None]:
    below = _reference(expression.inner[0] if expression.kind == "Alias" else expression, ids)
    return _id(expression), None if below is None else Origin(0, below)


def _join(node: JsonNode, inputs: tuple[Operator, ...], ids: Sequence[_Ids]) -> tuple[Operator, _Ids]:
    kind = node.values["joinType"]
    name = str(kind.get("object") or kind["product-class"]).rpartition(".")[2].rstrip("$")
    if name not in _JOINS:
        return Operator(inputs), ()
    columns = [Origin(0, at, name in _KEEPS_LEFT) for at in range(len(ids[0]))]
    output = ids[0]
    if name not in _ONLY_LEFT:
        columns += [Origin(1, at, name in _KEEPS_RIGHT) for at in range(len(ids[1]))]
        output = (*output, *ids[1])
    prunable = frozenset(at for at, kinds in enumerate((_PRUNES_LEFT, _PRUNES_RIGHT)) if name in kinds)
    condition = node.values.get("condition")
    equal = tuple(_equal_columns(tree(condition), ids)) if condition else ()
    return Operator(inputs, tuple(columns), equal=equal, prunable=prunable), output


def _equal_columns(condition: JsonNode, ids: Sequence[_Ids]) -> Iterator[tuple[int, int]]:
    """Yield the places of two columns, of the left and of the right side, that are equal in rows that match."""
    if condition.kind == "And":
        for part in condition.inner:
            yield from _equal_columns(part, ids)
    elif condition.kind in _EQUAL:
        for one, other in (condition.inner, condition.inner[::-1]):
            left, right = _reference(one, ids[0]), _reference(other, ids[1])
            if left is not None and right is not None:
                yield left, right


def _reference(expression: JsonNode, ids: _Ids) -> int | None:
    """Return the place of the column that an expression is, or whose whole numbers it has; None of any other."""
    kind = expression.values.get("dataType")
    if expression.kind == "Cast":
        inner = expression.inner[0]
        of = inner.values.get("dataType")
        if inner.kind != "AttributeReference" or not (_bits(of) and _bits(of) <= _bits(kind)):
            return None
        expression = inner
    elif not isinstance(kind, str) or kind not in _COMPARED:
        return None
    if expression.kind != "AttributeReference" or (found := _id(expression)) not in ids:
        return None
    return ids.index(found)


def _bits(kind: Any) -> int:
    return _BITS.get(kind, 0) if isinstance(kind, str) else 0


def _id(expression: JsonNode) -> int:
    return int(expression.values["exprId"]["id"])
