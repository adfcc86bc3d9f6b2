"""Rows of equal keys combined by DuckDB itself, as our own reader combines them; and which tables that works for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import duckdb

from sleeper_nb.model.processing import COMPARED, FIRST, LAST_NOT_NULL, Aggregation, DataProcessing
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.model.sql_values import quoted_name

_TYPES = {"tinyint": "TINYINT", "smallint": "SMALLINT", "int": "INTEGER", "long": "BIGINT"}
_HUGEINT_DIGITS = 38
"""A sum of decimals with so many digits can overflow unnoticed."""
_FLOATS = {"float": "FLOAT", "double": "DOUBLE"}
_HIDDEN = quoted_name("is deleted")  # with a space, which no field's name has


def is_exact(processing: DataProcessing, schema: Schema) -> bool:
    """Return whether DuckDB combines rows with the same result to the last digit."""
    fields = {field.name: field for field in schema.fields}
    for each in processing.aggregations:
        if each.sequence:
            if any(fields[name].type.name not in COMPARED for name in (each.field, each.sequence)):
                return False  # lists, maps and structs have another order there
        elif _computed(each, fields[each.field]) is None:
            return False
    return True


def combined(rows: duckdb.DuckDBPyRelation, processing: DataProcessing, schema: Schema) -> duckdb.DuckDBPyRelation:
    """Return one row for each key that is not deleted; `is_exact` must hold."""
    fields = {field.name: field for field in schema.fields}
    chosen = {name: (quoted_name(name), quoted_name(name)) for name in schema.sort_order}
    groups: dict[tuple[str, ...], str] = {}
    for each in processing.aggregations:
        name = quoted_name(each.field)
        if not each.sequence:
            chosen[each.field] = f"{_computed(each, fields[each.field])} AS {name}", name
        elif each.field == each.sequence:  # what wins by itself does not need the fields that go with it
            chosen[each.field] = f"{_own_winner(each, fields)} AS {name}", name
        else:
            together = processing.chosen_together(each)
            alias = groups.setdefault(together, quoted_name(f"winner {len(groups)}"))
            values = f"{_winner(each, together, processing.delete_column, fields)} AS {alias}"
            chosen[each.field] = values, _member_of(alias, together.index(each.field), fields[each.field])
    aggregates = dict.fromkeys(computed for computed, _ in chosen.values())
    if processing.delete_column:
        aggregates[_hidden(processing, fields)] = None
    one_each = rows.aggregate(", ".join(aggregates), ", ".join(map(quoted_name, schema.sort_order)))
    if processing.delete_column:
        one_each = one_each.filter(f"NOT {_HIDDEN}")
    return one_each.project(", ".join(f"{chosen[name][1]} AS {quoted_name(name)}" for name in schema.names))


def _computed(each: Aggregation, field: Field) -> str | None:
    """Return an aggregation in DuckDB's SQL, which fails when a sum does not fit its field; None when it differs."""
    if each.of_maps:
        return None
    if each.operation != "sum":
        return f"{each.operation}({quoted_name(field.name)})"
    kind = _summed_type(field)
    return None if kind is None else f"CAST(sum({quoted_name(field.name)}) AS {kind})"


def _summed_type(field: Field) -> str | None:
    # not float and double: DuckDB adds them in any order, so each run rounds differently
    if field.type.name == "decimal" and field.type.arguments[0] < _HUGEINT_DIGITS:
        return str(field.type)
    return _TYPES.get(field.type.name)


def _own_winner(each: Aggregation, fields: dict[str, Field]) -> str:
    name, order = quoted_name(each.field), _order(each, (), fields)
    if fields[each.field].type.name == "float":  # kept as a sort key, which has no -0.0; doubles are kept as they are
        return f"CAST(arg_max(CAST({name} AS DOUBLE), {order}) AS FLOAT)"
    return f"arg_max({name}, {order})"


def _members(at: int, value: str, field: Field) -> str:
    """Return the members of a struct that have a value; a struct is kept as a sort key, which has no -0.0."""
    sign = f", n{at} := {value} = 0 AND signbit({value})" if field.type.name in _FLOATS else ""
    return f"v{at} := {value}{sign}"


def _member_of(winner: str, at: int, field: Field) -> str:
    kind = _FLOATS.get(field.type.name)
    value = f"{winner}.v{at}"
    return value if kind is None else f"CASE WHEN {winner}.n{at} THEN CAST('-0.0' AS {kind}) ELSE {value} END"


def _winner(each: Aggregation, together: Iterable[str], mark: str, fields: dict[str, Field]) -> str:
    """Return the values of the row that wins, as a struct with the members v0, v1 and so on."""
    if each.operation != LAST_NOT_NULL:
        members = ", ".join(_members(at, quoted_name(name), fields[name]) for at, name in enumerate(together))
        return f"arg_max(struct_pack({members}), {_order(each, together, fields)})"
    name = quoted_name(each.field)
    if not mark:
        value = _members(0, name, fields[each.field])
        return f"arg_max(struct_pack({value}), {_order(each, together, fields)}) FILTER ({name} IS NOT NULL)"
    is_deleted = f"coalesce({quoted_name(mark)}, false)"
    value = _members(0, f"CASE WHEN {is_deleted} THEN NULL ELSE {name} END", fields[each.field])
    order = _order(each, (mark, *together), fields)
    return f"arg_max(struct_pack({value}), {order}) FILTER ({name} IS NOT NULL OR {is_deleted})"


def _hidden(processing: DataProcessing, fields: dict[str, Field]) -> str:
    mark = processing.delete_column
    (rule,) = (each for each in processing.aggregations if each.field == mark)
    return f"arg_max(coalesce({quoted_name(mark)}, false), {_order(rule, (mark,), fields)}) AS {_HIDDEN}"


def _order(each: Aggregation, together: Iterable[str], fields: dict[str, Field]) -> str:
    """Return a value that is the greatest in the row that wins; see `sleeper_nb.read.row_processing`."""
    direction = "DESC" if each.operation == FIRST else "ASC"
    keys = [f"{key}, '{direction} NULLS FIRST'" for key in _ordered(fields[each.sequence])]
    keys += [f"{key}, 'ASC NULLS FIRST'" for name in together for key in _ordered(fields[name])]
    return f"create_sort_key({', '.join(keys)})"


def _ordered(field: Field) -> Iterator[str]:
    name = quoted_name(field.name)
    yield name
    if field.type.name in _FLOATS:  # DuckDB takes -0.0 for 0.0, but they are different values
        yield f"{name} = 0 AND NOT signbit({name})"
