"""Every public call with values of every wrong type: only errors of the package come out, and nothing is changed."""

from __future__ import annotations

import inspect
import threading
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sleeper_nb as sl
from sleeper_nb.clock import ManualClock
from sleeper_nb.errors import SleeperError

SCHEMA = sl.Schema({"city": "string"}, {"at": "timestamp"}, {"fare": "double?"})
ROW = {"city": "rome", "at": datetime(2026, 1, 1, tzinfo=UTC), "fare": 1.5}
VALUES = {
    "None": None, "a bool": True, "a number": 5, "minus one": -1, "a large number": 10**30, "a fraction": 1.5,
    "NaN": float("nan"), "a decimal": Decimal("1.5"), "an empty text": "", "a text": "x", "NUL": "a\0b",
    "a surrogate": "\ud800", "dots": "../x/../../nowhere", "bytes": b"x", "an empty list": [], "a list": [1, None, "x"],
    "nested lists": [[["x"]]], "a set": {"x"}, "a dict": {"x": 5}, "a dict of None": {None: None},
    "a number as key": {1: "x"}, "a function": len, "a class": int, "an object": object(), "a date": date(2026, 1, 1),
    "the first time": datetime.min.replace(tzinfo=UTC), "the last time": datetime.max.replace(tzinfo=UTC),
    "NaT": pd.NaT,
    "a duration": timedelta(days=-1), "an array": np.array([1, 2]), "a series": pd.Series([1, 2]),
    "a frame": pd.DataFrame({"x": [1]}), "an Arrow table": pa.table({"x": [1]}),
    "an Arrow schema": pa.schema({"x": pa.int32()}),
    "a path": Path("nowhere"), "a schema": SCHEMA, "a slice": slice(1), "an error": ValueError("x"),
    "a generator": (x for x in "ab"),
}  # fmt: skip
HOLDERS = (
    *("session", "table", "version", "scan", "changes", "result", "inspect", "version inspect", "maintenance"),
    "savepoint manager",
)
ONLY_WITH_SPARK = {"spark", "bulk_import", "to_spark", "spark_session"}
STARTS_SPARK = ("doctor", "a bool")
"""A call that is right, whose Spark would be the second one of a parallel run."""


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with sl.connect(tmp_path / "w", clock=ManualClock()) as opened:
        table = opened.create_table("trips", SCHEMA, ["g"])
        table.ingest([ROW])
        table.create_savepoint("first")
        yield opened


def holders(session):
    """The objects that a user holds, by name."""
    table = session.table("trips")
    return {
        "session": session,
        "table": table,
        "version": table.at(version=2),
        "scan": table.scan(),
        "changes": table.changes(1, 2),
        "result": session.sql("SELECT * FROM trips", engine="duckdb"),
        "inspect": table.inspect,
        "version inspect": table.at(version=2).inspect,
        "maintenance": table.maintenance,
        "savepoint manager": table.savepoint_manager,
    }


def methods(held):
    """The public methods that take something, and what each takes."""
    for name, function in inspect.getmembers(type(held), inspect.isfunction):
        taken = [p for p in list(inspect.signature(function).parameters.values())[1:] if p.kind is not p.VAR_KEYWORD]
        if not name.startswith("_") and name not in ONLY_WITH_SPARK and taken:
            yield name, taken


def right(name, parameters):
    """Values that fit what has no default, so that one wrong value at a time is looked at."""
    known = {
        "name": "trips", "old": "trips", "new": "journeys", "schema": SCHEMA, "data": [ROW], "sql": "SELECT 1",
        "to": "TransactionLogStateStore", "declared": {"tables": {}}, "changes": {}, "version": 2, "a": 1,
        "from_version": 1, "statement": "SELECT 1",
        "savepoint": 1, "savepoint_id": 1, "destination": "out", "lease": "x", "suffix": "files", "size": 1,
        "asked": None, "claimed": (), "files": "no/such/file.parquet",
        "which": "all", "kinds": ("added",), "rows": 1, "kind": "bar", "snapshot_id": 2, "names": (), "footer": "",
        "row_keys": ["city"], "folder": "no/such/folder",
        "holder": "a process", "stop": threading.Event(), "after_round": print,
    }  # fmt: skip
    if name == "create_table":
        known["name"] = "fresh"
    needed = {p.name: known[p.name] for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL}
    if name == "watch":  # another call may have made the folder
        needed["once"] = True
    return needed | {"schema": SCHEMA} if name == "create_table" else needed


@pytest.mark.parametrize("holder", HOLDERS)
def test_only_errors_of_the_package_come_out_of_public_calls(session, holder):
    wrong = []
    held = holders(session)[holder]
    for name, parameters in methods(held):
        for parameter in parameters:
            for label, value in VALUES.items():
                if (name, label) == STARTS_SPARK:
                    continue
                problem = outcome(session, getattr(held, name), parameters, parameter, value)
                if problem:
                    wrong.append(f"{holder}.{name}({parameter.name}={label}): {problem}")
    assert not wrong, "\n" + "\n".join(wrong)


def outcome(session, call, parameters, parameter, value):
    """Return what is wrong with how one call ended; a call that failed has changed nothing."""
    before = versions(session)
    arguments = right(call.__name__, parameters) | {parameter.name: value}
    positional = [arguments.pop(parameter.name)] if parameter.kind is parameter.VAR_POSITIONAL else []
    try:
        repr(call(*positional, **arguments))
    except SleeperError as error:
        lines = str(error).splitlines()
        if len(lines) > 3 + len(error.place.splitlines()) or max(map(len, lines)) > 400:
            return f"too long: {error}"
        return "it failed, and changed a table" if versions(session) != before else ""
    except Exception as error:  # noqa: BLE001 - this is what the test looks for
        return f"{type(error).__name__}: {str(error)[:200]}"
    mend(session)
    return ""


def versions(session):
    catalog = session._components.catalog
    return {entry.name: catalog.current(entry.id).id for entry in catalog.tables()}


def mend(session):
    """Take back what a call that was right did to the names of tables."""
    names = versions(session)
    if "fresh" in names:
        session.drop_table("fresh", force=True)
    if "trips" not in names:
        session.rename_table(next(name for name in names if name != "fresh"), "trips")


@pytest.mark.parametrize(
    "argument", ["warehouse", "instance", "region", "endpoint_url", "author", "spark_config", "properties"]
)
def test_only_errors_of_the_package_come_out_of_connect(tmp_path, monkeypatch, argument):
    monkeypatch.chdir(tmp_path)
    wrong = {}
    for label, value in VALUES.items():
        try:
            sl.connect(**{"warehouse": "w", argument: value}).close()
        except SleeperError:
            continue
        except Exception as error:  # noqa: BLE001 - this is what the test looks for
            wrong[label] = error
    assert wrong == {}


@pytest.mark.parametrize("argument", ["row_keys", "sort_keys", "values", "retired"])
def test_only_errors_of_the_package_come_out_of_a_schema(argument):
    wrong = {}
    for label, value in VALUES.items():
        for given in (value, {"k": value}, [value], {value: "int"} if value.__hash__ else {}):
            try:
                sl.Schema(**{"row_keys": {"id": "int"}, argument: given})
            except SleeperError:
                continue
            except Exception as error:  # noqa: BLE001 - this is what the test looks for
                wrong[label] = error
    assert wrong == {}


def test_a_field_is_made_of_a_name_and_a_type():
    for name, of_type in (("a", "string"), (5, sl.Schema({"k": "int"}).row_keys[0].type), (None, None)):
        with pytest.raises(sl.InvalidInput, match="a field cannot be made of"):
            sl.Field(name, of_type)
