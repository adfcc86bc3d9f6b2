"""Properties of tables and instances: where values come from, and how they are changed, in the files that keep them."""

from __future__ import annotations

from pathlib import Path

import pytest

import sleeper_nb as sl
from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model import property_guide
from sleeper_nb.model.properties import INSTANCE_PROPERTIES, PROPERTIES

DELAY, BATCH = "sleeper.table.gc.delay.minutes", "sleeper.table.compaction.files.batch.size"
SUMMED = sl.Schema({"city": "string"}, {}, {"fare": "long", "note": "string?"})


@pytest.fixture
def session(tmp_path):
    config = tmp_path / "default" / "config" / "instance.properties"
    config.parent.mkdir(parents=True)
    config.write_text("sleeper.default.table.gc.delay.minutes=45\n")
    with sl.connect(tmp_path) as opened:
        yield opened


@pytest.fixture
def trips(session):
    return session.create_table("trips", SUMMED)


def file_of(session, table):
    return Path(session.location) / "config" / "tables" / f"table-{table.entry.id}.properties"


def test_a_value_is_the_tables_or_the_instances_or_the_default(session, trips):
    assert trips.at().properties[DELAY] == 45
    trips.set_properties({BATCH: "5"})
    origins = {each.name: (each.value, each.origin) for each in trips.properties()}
    assert set(origins) == set(PROPERTIES)
    assert (origins[DELAY], origins[BATCH]) == (("45", "instance"), ("5", "table"))
    assert origins["snapshot.num-retained.min"] == ("10", "default")
    rows = trips.inspect.query("select key, value, is_set from properties where is_set or value = '45'").to_dict()
    assert dict(zip(rows["key"], rows["value"], strict=True))[DELAY] == "45"
    assert dict(zip(rows["key"], rows["is_set"], strict=True))[DELAY] is False


def test_a_change_counts_from_the_next_time_the_table_is_opened(session, trips):
    before = session.table("trips")
    changed = trips.set_properties({DELAY: "5"})
    assert [(each.name, each.value, each.default, each.origin) for each in changed] == [(DELAY, "5", "15", "table")]
    assert (
        trips.at().properties[DELAY],
        session.table("trips").at().properties[DELAY],
        before.at().properties[DELAY],
    ) == (5, 5, 45)
    session.table("trips").set_properties({DELAY: None})
    assert session.table("trips").at().properties[DELAY] == 45


def test_what_an_instance_is_told_is_in_its_file_and_counts_for_its_tables(tmp_path, session, trips):
    config = Path(session.location) / "config" / "instance.properties"
    config.write_text(f"# mine\n{config.read_text()}")
    changes = {"sleeper.default.table.gc.delay.minutes": "50", "sleeper.storage.sync": "false"}
    told = session.set_properties(changes)
    assert [(each.name, each.value, each.origin) for each in told] == [(n, t, "instance") for n, t in changes.items()]
    assert config.read_text() == "# mine\n" + "".join(f"{name}={text}\n" for name, text in changes.items())
    assert session.table("trips").at().properties[DELAY] == 50
    with sl.connect(tmp_path) as again:
        assert [each.value for each in again.properties(changes)] == ["50", "false"]
    session.set_properties(dict.fromkeys(changes))
    assert config.read_text() == "# mine\n"
    assert session.table("trips").at().properties[DELAY] == 15
    assert [each.origin for each in session.properties(["sleeper.storage.sync"])] == ["default"]


def test_an_instance_without_a_file_of_properties_can_be_told_some(tmp_path):
    with sl.connect(tmp_path) as session:
        session.set_properties({"sleeper.storage.sync": "false"})
    assert (tmp_path / "default" / "config" / "instance.properties").read_text() == "sleeper.storage.sync=false\n"


@pytest.mark.parametrize(
    ("name", "value", "error", "message", "hint"),
    [
        ("sleeper.storage.sync", "no", InvalidInput,
         "property sleeper.storage.sync cannot be 'no'", "it must be true or false"),
        ("sleeper.storage.sinc", "true", NotFound,
         "no property 'sleeper.storage.sinc'", "did you mean 'sleeper.storage.sync'?"),
        (DELAY, "5", NotFound, f"no property '{DELAY}' of an instance",
         (f"it belongs to a table: table.set_properties({{{DELAY!r}: …}}); "
         "sleeper.default.table.gc.delay.minutes sets the default of all tables")),
        ("sleeper.table.aggregations", None, NotFound, "no property 'sleeper.table.aggregations' of an instance",
         "it belongs to a table: table.set_properties({'sleeper.table.aggregations': …})"),
    ],
)  # fmt: skip
def test_a_wrong_change_of_an_instance_changes_nothing(session, name, value, error, message, hint):
    config = Path(session.location) / "config" / "instance.properties"
    before = config.read_text()
    with pytest.raises(error) as caught:
        session.set_properties({"sleeper.storage.sync": "false"} | {name: value})
    assert (caught.value.message, caught.value.hint) == (message, hint)
    assert config.read_text() == before
    if value is None or error is NotFound:
        with pytest.raises(NotFound) as caught:
            session.properties([name])
        assert (caught.value.message, caught.value.hint) == (message, hint)


def test_what_a_user_wrote_into_the_file_stays(session, trips):
    path = file_of(session, trips)
    schema = next(line for line in path.read_text().splitlines() if line.startswith("sleeper.table.schema="))
    kept = f"# mine\n\n{schema}\nsleeper.table.statestore.classname=S3StateStore\n! batches\n"
    path.write_text(f"{kept}{BATCH} : 7\nsnapshot.time-retained = \\\n  3 d\n")
    table = session.table("trips")
    table.set_properties({BATCH: "8", "sleeper.table.iterator.config": "é\\x"})
    assert path.read_text() == (
        f"{kept}{BATCH}=8\nsnapshot.time-retained = \\\n  3 d\nsleeper.table.iterator.config=\\u00E9\\\\x\n"
    )
    assert session.table("trips").at().properties["sleeper.table.iterator.config"] == "é\\x"


@pytest.mark.parametrize(
    ("changes", "error", "said"),
    [
        ({DELAY: "soon"}, InvalidInput, "it must be whole minutes"),
        ({"sleeper.table.gc.delay": "1"}, NotFound, DELAY),
        ({BATCH: "3", "sleeper.table.aggregations": "sum(fares)"}, InvalidInput, ""),
        ({"sleeper.table.aggregations": "sum(note),max(fare)"}, InvalidInput, ""),
        (
            {"sleeper.table.statestore.classname": "TransactionLogStateStore"},
            InvalidInput,
            "session.admin.migrate('trips', 'TransactionLogStateStore')",
        ),
        ({"sleeper.table.splits.file": "a.txt"}, InvalidInput, "reinitialise"),
        ({"sleeper.table.schema": "{}"}, InvalidInput, "table.alter(…)"),
        ({"sleeper.table.name": "other"}, InvalidInput, "session.rename_table('trips', 'other')"),
        ({"sleeper.table.online": "false"}, InvalidInput, "table.maintenance.offline()"),
    ],
)
def test_a_change_that_cannot_be_changes_nothing_and_says_what_to_type(session, trips, changes, error, said):
    before = file_of(session, trips).read_text()
    with pytest.raises((error, NotFound)) as caught:
        trips.set_properties(changes)
    assert said in (caught.value.hint or "")
    assert file_of(session, trips).read_text() == before
    trips.set_properties({"sleeper.table.statestore.classname": "S3StateStore"})  # as it is already


def test_a_file_that_cannot_be_read_is_named_with_its_line(session, trips):
    path = file_of(session, trips)
    path.write_text(f"# one\n{DELAY}=x\n")
    with pytest.raises(InvalidInput, match=rf"line 2 of .*{path.name}: property"):
        session.table("trips")
    path.write_bytes(b"snapshot.num-retained.min=\xff\n")
    with pytest.raises(InvalidInput, match="not UTF-8"):
        session.table("trips")


def test_an_instance_chooses_the_state_store_of_new_tables(tmp_path):
    given = {"sleeper.default.table.statestore.classname": "TransactionLogStateStore"}
    with sl.connect(tmp_path, properties=given) as session:
        assert session.create_table("a", SUMMED)._store.head().state_store == "TransactionLogStateStore"
        assert session.create_table("b", SUMMED, state_store="S3StateStore")._store.head().state_store == "S3StateStore"
        own = {"sleeper.table.statestore.classname": "S3StateStore"}
        assert session.create_table("c", SUMMED, properties=own)._store.head().state_store == "S3StateStore"
        shown = {each.name: each.origin for each in session.properties()}
        assert shown["sleeper.default.table.statestore.classname"] == "instance"
        assert set(INSTANCE_PROPERTIES) < set(shown)
    with sl.connect(tmp_path) as session:
        assert session.table("a")._store.head().state_store == "TransactionLogStateStore"


def test_each_property_is_described_once_in_80_columns():
    guide = property_guide.describe_properties()
    assert set(guide.to_dict()) == {*PROPERTIES, *INSTANCE_PROPERTIES}
    assert sum(len(known) for _, known in guide.described) == len(PROPERTIES) + len(INSTANCE_PROPERTIES)
    assert max(map(len, repr(guide).splitlines())) <= 80
    text = " ".join(repr(guide).split())
    for each in (*PROPERTIES.values(), *INSTANCE_PROPERTIES.values()):
        assert all(said in text for said in (each.name, each.kind, each.effect, each.default)), each.name
    assert list(property_guide.describe_properties([DELAY]).to_dict()) == [DELAY]
    with pytest.raises(NotFound) as caught:
        property_guide.describe_properties(["sleeper.table.gc.delay"])
    assert DELAY in (caught.value.hint or "")
