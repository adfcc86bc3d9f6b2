from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from sleeper_nb.clock import Retry
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.properties import PROPERTIES, RETAINED_MIN, InstanceProperties, TableProperties


def test_a_property_that_is_not_set_has_its_default():
    properties = TableProperties({})
    assert properties["sleeper.table.compaction.files.batch.size"] == 12
    assert properties["snapshot.time-retained"] == timedelta(days=7)
    assert all(properties[name] is not None or not known.default for name, known in PROPERTIES.items())


def test_properties_come_back_from_their_text():
    texts = {"snapshot.time-retained": "6 h", "sleeper.table.gc.delay.minutes": "0"}
    assert TableProperties.from_text(TableProperties(texts).to_text()) == TableProperties(texts)
    assert (
        TableProperties.from_text("# a comment\n\n  snapshot.num-retained.min = 3\n")["snapshot.num-retained.min"] == 3
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [("sleeper.table.compaction.files.batch.size", "1"), ("sleeper.table.compaction.files.batch.size", "x"),
     ("snapshot.time-retained", "7"), ("snapshot.time-retained", "99999999999999 d"),
     ("snapshot.num-retained.min", "0"),
     ("sleeper.table.compaction.strategy.class", "fastest")],
)  # fmt: skip
def test_a_value_that_cannot_be_is_refused_with_what_can(name: str, text: str):
    with pytest.raises(InvalidInput, match=name) as error:
        TableProperties({name: text})
    assert error.value.hint


def test_an_unknown_name_suggests_the_nearest():
    with pytest.raises(NotFound) as error:
        TableProperties({"snapshot.time-retain": "1 d"})
    assert "snapshot.time-retained" in (error.value.hint or "")


def test_a_line_that_sets_nothing_is_named():
    with pytest.raises(InvalidInput, match="line 2"):
        TableProperties.from_text("# one\nsnapshot\n")


@pytest.mark.parametrize("text", ["0 d", "PT0S", "1", "1 fortnight", "P1M", "-1 d"])
def test_an_interval_of_savepoints_that_cannot_be_says_what_to_type(text: str):
    with pytest.raises(InvalidInput, match=r"savepoint\.create-interval") as error:
        TableProperties({"savepoint.create-interval": text})
    assert error.value.hint == "it must be a duration, such as 7 d, 6 h or PT30M, longer than 0; or empty"


def test_savepoints_are_made_and_retired_only_when_properties_say_so():
    nothing = TableProperties({})
    assert nothing["savepoint.create-interval"] is nothing["savepoint.time-retained"] is None
    assert nothing["savepoint.num-retained.max"] == 2**31 - 1
    some = TableProperties({"savepoint.create-interval": "PT30M", "savepoint.time-retained": "0 d"})
    assert some["savepoint.create-interval"] == timedelta(minutes=30)
    assert some["savepoint.time-retained"] == timedelta(0)


def test_a_default_of_the_instance_counts_where_the_table_sets_nothing():
    instance = InstanceProperties({"sleeper.default.table.gc.delay.minutes": "30", "sleeper.storage.sync": "false"})
    assert instance.table_defaults == {"sleeper.table.gc.delay.minutes": "30"}
    some = TableProperties({}, instance.table_defaults)
    assert some["sleeper.table.gc.delay.minutes"] == 30
    assert some.origin("sleeper.table.gc.delay.minutes") == "instance"
    assert some.origin("snapshot.num-retained.min") == "default"
    own = TableProperties({"sleeper.table.gc.delay.minutes": "5"}, instance.table_defaults)
    assert (own["sleeper.table.gc.delay.minutes"], own.origin("sleeper.table.gc.delay.minutes")) == (5, "table")


def test_a_default_of_the_instance_is_checked_like_the_property():
    with pytest.raises(InvalidInput, match=r"sleeper\.default\.table\.gc\.delay\.minutes cannot be 'soon'"):
        InstanceProperties({"sleeper.default.table.gc.delay.minutes": "soon"})
    with pytest.raises(NotFound) as error:
        InstanceProperties({"sleeper.default.table.gc.delay": "1"})
    assert "sleeper.default.table.gc.delay.minutes" in (error.value.hint or "")
    assert "sleeper.default.table.splits.file" not in InstanceProperties.defined  # it is of one table


def test_a_wrong_value_of_a_file_is_named_by_its_line():
    with pytest.raises(InvalidInput, match=r"line 3 of t\.properties: property snapshot\.num-retained\.min"):
        TableProperties.from_text("# one\n\nsnapshot.num-retained.min=0\n", "t.properties")


NUMBERS = [name for name, each in PROPERTIES.items() if isinstance(TableProperties({})[name], int | timedelta)
           and each.default not in {"true", "false"}]  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_has_a_range_when_it_is_set_and_when_it_is_read(name: str):
    for text in ("9" * 400, "-" + "9" * 400, "1_0", "\u0663", "9" * 400 + " d"):
        with pytest.raises(InvalidInput, match=f"property {re.escape(name)} cannot be") as error:
            TableProperties({name: text})
        assert len(str(error.value)) < 300
        with pytest.raises(InvalidInput, match=r"line 1 of t\.properties"):
            TableProperties.from_text(f"{name}={text}", "t.properties")


def test_the_greatest_numbers_can_be_used():
    assert len(NUMBERS) >= 15
    Retry(max_attempts=2**31 - 1).ceiling(2**31 - 2)
    assert timedelta(
        minutes=TableProperties({"sleeper.table.gc.delay.minutes": str(2**31 - 1)})["sleeper.table.gc.delay.minutes"]
    )


def test_each_text_is_parsed_once(monkeypatch: pytest.MonkeyPatch):
    parsed: list[str] = []
    real = PROPERTIES[RETAINED_MIN]

    def parse(text: str) -> int:
        parsed.append(text)
        return int(text)

    monkeypatch.setitem(PROPERTIES, RETAINED_MIN, replace(real, parse=parse))
    properties = TableProperties.from_text(f"{RETAINED_MIN}=3\n")
    again = replace(properties, defaults={"snapshot.time-retained": "1 d"})
    assert (properties[RETAINED_MIN], again[RETAINED_MIN], again["snapshot.time-retained"]) == (3, 3, timedelta(1))
    assert parsed == ["3"]
    changed = replace(again, texts={RETAINED_MIN: "4"})
    assert (changed[RETAINED_MIN], parsed) == (4, ["3", "4"])


def test_a_text_that_replaces_another_is_checked():
    properties = TableProperties({RETAINED_MIN: "3"})
    with pytest.raises(InvalidInput, match=RETAINED_MIN):
        replace(properties, texts={RETAINED_MIN: "some"})
