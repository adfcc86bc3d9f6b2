"""How a command confirms a deletion: a notebook shows the plan, a console asks (the rule of `ConfirmationNeeded`)."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from sleeper_nb.commands.command import DRY_RUN
from sleeper_nb.commands.context import Context
from sleeper_nb.errors import Action, ConfirmationNeeded

if TYPE_CHECKING:
    from sleeper_nb.operations.administration.delete import DeletionReport
    from sleeper_nb.operations.administration.reinitialise import ReinitialiseReport
    from sleeper_nb.operations.versioning.delete_savepoint import SavepointDeletion
    from sleeper_nb.session import Session

Plan = TypeVar("Plan", "DeletionReport", "ReinitialiseReport", "SavepointDeletion")


def delete_confirmed(
    context: Context,
    session: Session,
    arguments: Namespace,
    delete: Callable[..., Plan],
    name_of: Callable[[Plan], str],
) -> Plan:
    """Delete something, or show the plan and how to confirm it.

    Parameters
    ----------
    context, arguments
        Of the command.
    session
        The instance that the command works in.
    delete
        The method that deletes, with all its arguments except `force` and `dry_run`.
    name_of
        Returns the name that confirms a plan at a terminal.

    Raises
    ------
    ConfirmationNeeded
        On a console without a terminal, or when another name was typed. Nothing is changed then.
    """
    again = shlex.join([*(word for word in arguments.words if word not in DRY_RUN.names), "--force"])
    instance = "" if session is context.session else session.instance
    try:
        report = delete(force=arguments.force, dry_run=arguments.dry_run)
        return replace(report, again=again, instance=instance)
    except ConfirmationNeeded as needed:
        plan: Plan = needed.plan
        planned = replace(plan, instance=instance)
        return confirmed(context, needed, planned, again, lambda: delete(force=True, dry_run=False), name_of)


def confirmed(
    context: Context,
    needed: ConfirmationNeeded,
    planned: Plan,
    again: str,
    delete: Callable[[], Plan],
    name_of: Callable[[Plan], str],
) -> Plan:
    """Show a plan that needs confirmation, and how to confirm it; at a terminal, ask and delete.

    Parameters
    ----------
    context
        Of the command.
    needed, planned
        The error of a deletion without `force`, and its plan.
    again
        The line that deletes.
    delete
        Deletes.
    name_of
        As in `delete_confirmed`; so are the errors.
    """
    plan = replace(planned, again=again, prefix=context.prefix)
    if context.face == "notebook":
        return plan
    hint = Action(again)
    if context.ask is None:
        raise ConfirmationNeeded(needed.message, hint=hint, plan=plan) from None
    name = name_of(plan)
    answer = context.ask(replace(plan.grid(), footer=f"Type {name} to delete it for good: ").text())
    if answer != name:
        raise ConfirmationNeeded(f"{answer!r} is not {name!r}; nothing was deleted", hint=hint) from None
    return replace(delete(), instance=planned.instance)
