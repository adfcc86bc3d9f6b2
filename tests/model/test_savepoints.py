from __future__ import annotations

import contextlib
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.savepoints import SavedLog, Savepoint, check_savepoint_name
from sleeper_nb.model.snapshots import SavepointReference, parse_reference
from sleeper_nb.storage.filesystem import Storage
from tests.support.builders import savepoint, snapshot

moments = st.datetimes(timezones=st.just(UTC))
texts = st.none() | st.text()


logs = st.none() | st.builds(SavedLog, st.text(), st.integers(), st.integers())


@given(moments, texts, texts, st.booleans(), logs)
def test_a_savepoint_comes_back_from_its_file(
    saved: datetime, message: str | None, author: str | None, periodic: bool, log: SavedLog | None
):
    whole = saved - timedelta(microseconds=saved.microsecond % 1000)
    one = savepoint(
        3, snapshot(7, time=saved), "naïve",
        save_time=whole, message=message, author=author, periodic=periodic, log=log,
    )  # fmt: skip
    assert Savepoint.from_json(one.to_json()) == one


def test_the_file_of_a_savepoint_has_the_proposals_fields():
    body = json.loads(savepoint(3, snapshot(7)).to_json())
    assert {"id": 3, "savedSnapshotId": 7, "schemaId": 1, "fullManifestList": "files-7", "recordCount": 0}.items() <= (
        body.items()
    )
    assert body["saveTime"] == 1767225600000


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"id": "x"}', "null"])
def test_a_file_that_is_no_savepoint_is_refused(text: str):
    with pytest.raises(InvalidInput, match="not a savepoint"):
        Savepoint.from_json(text)


def test_a_savepoint_of_an_older_release_was_made_by_hand():
    body = json.loads(savepoint(3, snapshot(7), periodic=True).to_json())
    del body["periodic"]
    assert Savepoint.from_json(json.dumps(body)) == savepoint(3, snapshot(7))


def test_a_savepoint_is_read_from_its_path_below_the_root_and_from_the_whole_one(tmp_path):
    files, one = Storage(tmp_path), savepoint(3, snapshot(7), "é")
    files.write("savepoint/savepoint-3", one.to_json().encode())
    assert Savepoint.from_path(files, "savepoint/savepoint-3") == one
    assert Savepoint.from_path(files, str(tmp_path / "savepoint/savepoint-3")) == one
    with pytest.raises(NotFound):
        Savepoint.from_path(files, "savepoint/savepoint-4")
    files.write("savepoint/savepoint-5", b"\xff\xfe")
    with pytest.raises(InvalidInput, match="not a savepoint"):
        Savepoint.from_path(files, "savepoint/savepoint-5")


@pytest.mark.parametrize("name", ["fix", "É1", "a-b_c.d", "v", "v1a", "V1", "v-1", "snapshots", "savepoint"])
def test_savepoints_can_have_names_that_start_with_a_letter(name: str):
    assert check_savepoint_name(name) == name


@pytest.mark.parametrize("name", ["", "1", "1a", "_a", "a b", "a/b", "-", "a\n"])
def test_savepoints_cannot_have_other_names(name: str):
    with pytest.raises(InvalidInput):
        check_savepoint_name(name)


@pytest.mark.parametrize(
    ("name", "meant", "instead"),
    [
        ("v1", "snapshot.1", "v-1"),
        ("v012", "snapshot.12", "v-012"),
        ("snapshot.1", "snapshot.1", "snapshot-1"),
        ("savepoint.1", "savepoint.1", "savepoint-1"),
        ("savepoint.fix", "savepoint.fix", "savepoint-fix"),
        ("savepoint.v1", "savepoint.v1", "savepoint-v1"),
    ],
)
def test_savepoints_cannot_have_names_that_mean_another_version(name: str, meant: str, instead: str):
    with pytest.raises(InvalidInput) as caught:
        check_savepoint_name(name)
    assert caught.value.message == f"{name!r} is not a valid savepoint name: it refers to {meant}"
    assert caught.value.hint == f"write {instead}"
    assert check_savepoint_name(instead) == instead


@pytest.mark.parametrize("name", ["snapshot.fix", "snapshot.", "savepoint."])
def test_savepoints_cannot_have_names_that_begin_as_a_version_and_are_none(name: str):
    with pytest.raises(InvalidInput, match=r"it would refer to a \w+") as caught:
        check_savepoint_name(name)
    assert caught.value.hint == f"write {name.replace('.', '-')}"


@given(st.from_regex(r"(v|snapshot\.|savepoint\.|)[\w.-]*", fullmatch=True))
def test_a_name_that_a_savepoint_can_have_means_it_behind_at(name: str):
    with contextlib.suppress(InvalidInput):
        assert parse_reference(check_savepoint_name(name)) == SavepointReference(name)


@pytest.mark.parametrize("name", ["fix", "v1", "savepoint.1", "snapshot.fix", None])
def test_what_refers_to_a_savepoint_means_it_whatever_its_name(name: str | None):
    """Older releases gave names that mean another version."""
    assert parse_reference(savepoint(3, snapshot(7), name).reference) == SavepointReference(name or 3)


def test_a_card_says_who_made_it_why_and_is_escaped():
    shown = savepoint(3, snapshot(7), "fix", message="<script>", periodic=True)._repr_html_()
    assert "<script>" not in shown
    assert "periodically" in shown
    assert "periodically" not in repr(savepoint(3, snapshot(7)))
