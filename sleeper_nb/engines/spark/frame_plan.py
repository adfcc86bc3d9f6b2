"""What an import of a Spark DataFrame would do, as its tasks see: differences, broken rules, and rows by leaf."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from sleeper_nb.engines.spark.load_frames import frame_of
from sleeper_nb.engines.spark.spark_runtime import SparkRuntime
from sleeper_nb.load.conform import Conformed, Difference, RawColumns, compare, grouped, no_place
from sleeper_nb.load.ingest import plan_of_counts, rows_by_leaf
from sleeper_nb.load.load_options import EXACT, Matching
from sleeper_nb.load.load_report import IngestPlan
from sleeper_nb.load.row_checks import JudgedRows, OpenedChecks, RowCheck, opened_checks
from sleeper_nb.load.sources import IngestSource
from sleeper_nb.model.partitions import PartitionTree
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOKED_AT = pa.schema(
    [("leaf", pa.string()), ("rows", pa.int64()), ("difference", pa.binary()), ("judged", pa.binary())]
)


def plan_frame(
    engine: SparkRuntime,
    state: TableState,
    sources: Sequence[IngestSource],
    matching: Matching = EXACT,
    *,
    strategy: str,
    checks: Sequence[RowCheck] = (),
) -> IngestPlan:
    """Return what an import of a Spark DataFrame would do; each task looks at its own rows."""
    schema, tree = state.schema, state.tree
    in_tasks = [check.picklable() for check in checks]

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with opened_checks(in_tasks) as opened:
            for batch in batches:
                yield _looked_at(_compared(pa.Table.from_batches([batch]), schema, matching), opened, schema, tree)

    def action(spark: SparkSession) -> tuple[list[Any], Conformed]:
        frame = frame_of(spark, sources, schema, matching)
        of_names = _compared(frame.limit(0).toArrow(), schema, matching)
        return frame.mapInArrow(task, "leaf string, rows long, difference binary, judged binary").collect(), of_names

    answers, of_names = engine.run(action, "planning the import")
    return _summed(answers, of_names, state, strategy)


def _looked_at(rows: Conformed, checks: OpenedChecks, schema: Schema, tree: PartitionTree) -> pa.RecordBatch:
    """Return what a task says about some rows: their number, each difference, and how many are for each leaf."""
    differences = rows.differences or tuple(checks.differences(rows.table(schema)))
    answers: list[dict[str, Any]] = [{"rows": rows.rows}]
    answers += [{"difference": pickle.dumps(each)} for each in differences]
    if not differences:
        answers.append({"judged": pickle.dumps(checks.judged(rows.table(schema)))})
        keys = pa.table({key.name: rows.columns[key.name] for key in schema.row_keys})
        answers += [{"leaf": leaf, "rows": n} for leaf, n in rows_by_leaf(keys, tree, schema).items()]
    return pa.RecordBatch.from_pylist(answers, schema=_LOOKED_AT)


def _summed(answers: Iterable[Any], of_names: Conformed, state: TableState, strategy: str) -> IngestPlan:
    """Return the plan of an import, of what its tasks say and of how the names of the columns compare."""
    total = 0
    by_leaf: Counter[str] = Counter()
    of_values: list[Difference] = []
    judged = JudgedRows()
    for row in answers:
        if row["leaf"] is not None:
            by_leaf[row["leaf"]] += row["rows"]
        elif row["difference"] is not None:
            of_values.append(pickle.loads(row["difference"]))  # noqa: S301 - our own tasks made it
        elif row["judged"] is not None:
            judged = judged.plus(pickle.loads(row["judged"]))  # noqa: S301 - as above
        else:
            total += row["rows"]
    named = {each.column for each in of_names.differences}
    order = {name: place for place, name in enumerate(state.schema.names)}
    more = grouped(sorted((d for d in of_values if d.column not in named), key=lambda d: order.get(d.column, -1)))
    plan = plan_of_counts(state, total, by_leaf, [*of_names.differences, *more], strategy=strategy, through_spark=True)
    return replace(plan, notes=of_names.notes, broken=tuple(judged.broken.values()))


def _compared(rows: pa.Table, schema: Schema, matching: Matching) -> Conformed:
    return compare(RawColumns.of(rows, no_place, partial(matching.names, schema=schema)), schema, matching)
