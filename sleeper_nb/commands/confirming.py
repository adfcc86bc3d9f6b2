"""What is typed to delete something follows the rule of `ConfirmationNeeded`, for each face in its own way."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from sleeper_nb.commands.base import DRY_RUN
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import ConfirmationNeeded

if TYPE_CHECKING:
    from sleeper_nb.operations.administration.deletion import DeletionReport
    from sleeper_nb.operations.administration.reinitialising import ReinitialiseReport
    from sleeper_nb.operations.versioning.savepoints import SavepointDeletion
    from sleeper_nb.session import Session

Planned = TypeVar("Planned", "DeletionReport", "ReinitialiseReport", "SavepointDeletion")


def confirmed(
    context: Context,
    session: Session,
    arguments: Namespace,
    delete: Callable[..., Planned],
    name: Callable[[Planned], str],
) -> Planned:
    """Delete something, or show what would go and how to confirm it.

    Parameters
    ----------
    context, arguments
        Of the command.
    session
        The instance that is worked in.
    delete
        What deletes it: a method with all its arguments but `force` and `dry_run`.
    name
        Returns what is typed at a terminal to confirm a plan.

    Raises
    ------
    ConfirmationNeeded
        On a console without a terminal, or when something else was typed. Nothing is changed then.
    """
    instance = "" if session is context.session else session.instance
    again = shlex.join([*(word for word in arguments.words if word not in DRY_RUN.names), "--force"])
    try:
        done = delete(force=arguments.force, dry_run=arguments.dry_run)
        return replace(done, again=again, instance=instance)
    except ConfirmationNeeded as needed:
        found: Planned = needed.plan
        plan = replace(found, again=again, instance=instance)
        if context.face == "notebook":
            return plan
        hint = f"{context.prefix} {again}"
        if context.ask is None:
            raise ConfirmationNeeded(needed.message, hint=hint, plan=plan) from None
        said = context.ask(replace(plan.grid(), footer=f"Type {name(plan)} to delete it for good: ").text())
        if said != name(plan):
            raise ConfirmationNeeded(f"{said!r} is not {name(plan)!r}; nothing was deleted", hint=hint) from None
    return replace(delete(force=True, dry_run=False), instance=instance)
