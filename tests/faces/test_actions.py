"""A hint names what to run; the magics, the console and Python each show how to type it there."""

from __future__ import annotations

import pickle

import pytest

from sleeper_nb.errors import Action, InvalidInput, NotFound, SleeperError, hint_text, show_for

DELETE = Action("delete trips --force", "session.delete_table('trips', force=True)")
FORCE = Action("--force", "force=True")


@pytest.mark.parametrize(
    ("hint", "prefix", "text"),
    [
        (DELETE, "%sleeper", "%sleeper delete trips --force"),
        (DELETE, "sleeper", "sleeper delete trips --force"),
        (DELETE, "", "session.delete_table('trips', force=True)"),
        (FORCE, "%sleeper", "--force"),
        (FORCE, "", "force=True"),
        (Action("why"), "", "why"),
        ("free some space", "sleeper", "free some space"),
        (("add ", FORCE, " or ", DELETE), "%sleeper", "add --force or %sleeper delete trips --force"),
        (("add ", FORCE), "", "add force=True"),
    ],
)
def test_an_action_is_written_as_its_face_types_it(hint, prefix, text):
    error = SleeperError("no", hint=hint)
    error.prefix = prefix
    assert error.hint == hint_text(hint, prefix) == text
    assert str(error) == f"no\nhint: {text}"
    assert error._render_traceback_()[1] == f"hint: {text}"


def test_an_error_without_a_hint_has_none():
    for hint in (None, "", ()):
        error = SleeperError("no", hint=hint)
        assert (error.hint, str(error), error.hint_parts) == (None, "no", ())


def test_an_action_survives_a_pickle_and_is_passed_on():
    error = pickle.loads(pickle.dumps(InvalidInput("no", hint=("try ", DELETE))))  # noqa: S301
    again = NotFound("still no", hint=(*error.hint_parts, "; and look"))
    again.prefix = "sleeper"
    assert error.hint == f"try {DELETE.python}"
    assert again.hint == "try sleeper delete trips --force; and look"


def test_causes_are_shown_for_the_same_face():
    error, between = SleeperError("last", hint=FORCE), ValueError("between")
    error.__cause__, between.__cause__ = between, InvalidInput("first", hint=DELETE)
    show_for(error, "sleeper")
    assert error.hint == "--force"
    assert error.__cause__.__cause__.hint == "sleeper delete trips --force"
