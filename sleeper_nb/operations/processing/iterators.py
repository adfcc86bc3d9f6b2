"""Iterators: Python functions that change rows, found by name and held to what they promise.

An iterator is a function ``(batch: pa.RecordBatch, config: str) -> pa.RecordBatch``. It gets every column of the table
and all rows of a row key in one batch, sorted by row keys and sort keys; it gives rows with the same columns, still
sorted, and with keys between the first and the last that it got. Rows of other row keys must not matter to it, nor
which of several rows that are equal on all keys comes first.

Compaction runs it on some files of a leaf, and queries run it on what compaction left. So it must not matter either
whether it has seen a part of the rows before: ``f(f(a) + b) == f(a + b)``. To keep the last row of each key, to drop
rows or to round values are such functions; to number rows, or to double values, are none.

::

    def last_only(batch, config):  # of a table with one row key, "id"
        id = batch["id"]
        return batch.filter(pa.concat_arrays([pc.not_equal(id[:-1], id[1:]), pa.array([True])]))
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.permissions import Function
from sleeper_nb.model.processing import PythonIterator
from sleeper_nb.model.schema import Schema
from sleeper_nb.storage.sorted_keys import is_sorted, run_starts

ENTRY_POINTS = "sleeper_nb.iterators"
"""The group of entry points in which packages offer iterators by a short name."""


def find(iterator: PythonIterator) -> Function:
    """Return the function that an iterator's name means, if the user has allowed that name.

    Nothing is imported before: the name comes from a file of the warehouse.

    Raises
    ------
    NotAllowed
        When the user has not allowed it; the hint says how to.
    NotFound
        When there is no such entry point, module or function; the nearest is named.
    InvalidInput
        When the module cannot be imported, or the name is of something that cannot be called.
    """
    name = iterator.name
    given = iterator.permissions.function(name)
    if given is not None:
        return given
    if ":" in name:
        return _function(name)
    points = importlib.metadata.entry_points(group=ENTRY_POINTS)
    if name not in points.names:
        known = sorted(points.names)
        error = NotFound.of("iterator", name, known)
        raise error if known else NotFound(error.message, hint="write package.module:function")
    return _called(name, _imported(name, points[name].load))


def _function(name: str) -> Function:
    module_name, _, path = name.partition(":")
    module = _imported(name, lambda: importlib.import_module(module_name))
    found = module
    for part in path.split("."):
        if not hasattr(found, part):
            functions = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
            raise NotFound.of("function", path, functions, where=f" in {module_name}")
        found = getattr(found, part)
    return _called(name, found)


def _imported(name: str, load: Callable[[], object]) -> object:
    try:
        return load()
    except Exception as error:  # whatever the import of somebody's module raises
        raise InvalidInput(
            f"iterator {name!r} cannot be imported: {type(error).__name__}: {error}",
            hint="its package must be installed wherever the table is read, on Spark's executors too",
        ) from error


def _called(name: str, found: object) -> Function:
    if not callable(found):
        raise InvalidInput(f"iterator {name!r} is a {type(found).__name__}", hint="name a function of (batch, config)")
    return found


def iterated(
    batches: Iterable[pa.RecordBatch], function: Function, iterator: PythonIterator, schema: Schema
) -> Iterator[pa.RecordBatch]:
    """Yield what an iterator makes of sorted rows that have every column; of all rows of a row key at once.

    Holds the rows of one row key, and a batch. Raises `InvalidInput`, naming the iterator, when it fails or breaks its
    promise.
    """
    for batch in _whole_keys(batches, [key.name for key in schema.row_keys]):
        try:
            found = function(batch, iterator.config)
        except Exception as error:
            raise InvalidInput(
                f"iterator {iterator.name!r} failed: {type(error).__name__}: {error}",
                hint="mend the function; no row was changed",
            ) from error
        yield _checked(found, batch, iterator.name, schema)


def _whole_keys(batches: Iterable[pa.RecordBatch], keys: list[str]) -> Iterator[pa.RecordBatch]:
    """Cut a sorted stream anew, so that no two batches have rows of the same row key."""
    held: list[pa.RecordBatch] = []  # rows of one row key, which may go on
    for batch in batches:
        if not batch.num_rows:
            continue
        cut = int(run_starts(batch, keys)[-1])
        if cut or not (held and _same_key(held[-1], batch, keys)):
            yield from _joined([*held, batch.slice(0, cut)])
            held = []
        held.append(batch.slice(cut))
    yield from _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = [batch for batch in batches if batch.num_rows]
    if rows:
        yield pa.concat_batches(rows)


def _same_key(one: pa.RecordBatch, other: pa.RecordBatch, keys: list[str]) -> bool:
    return all(one[key][0] == other[key][0] for key in keys)


def _checked(found: object, given: pa.RecordBatch, name: str, schema: Schema) -> pa.RecordBatch:
    if not isinstance(found, pa.RecordBatch):
        raise InvalidInput(
            f"iterator {name!r} gave a {type(found).__name__}, no RecordBatch", hint="return a pyarrow.RecordBatch"
        )
    if found.schema.names != given.schema.names:
        raise InvalidInput(
            f"iterator {name!r} gave the columns {', '.join(found.schema.names)}",
            hint=f"it must give those that it got: {', '.join(given.schema.names)}",
        )
    try:
        rows = found.cast(schema.arrow)
        rows.validate(full=True)  # Arrow trusts that text is UTF-8
    except (ValueError, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(
            f"iterator {name!r} gave rows that do not fit the table: {str(error).splitlines()[0]}",
            hint="it must keep the types of the columns, and give no null where it got none",
        ) from error
    keys = list(schema.sort_order)
    # Between the ends of what it got, each batch follows the one before, in this leaf's part of the table too.
    ends = [given.slice(0, 1), rows, given.slice(given.num_rows - 1)]
    if not is_sorted(pa.Table.from_batches(ends).select(keys)):
        raise InvalidInput(
            f"iterator {name!r} gave rows that are not sorted, or whose keys it did not get",
            hint=f"keep the rows in order of {', '.join(keys)}",
        )
    return rows
