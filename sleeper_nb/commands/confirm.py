"""How a command confirms a deletion: a notebook shows the plan, a console asks (the rule of `ConfirmationNeeded`)."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from sleeper_nb.commands.command import DRY_RUN
from sleeper_nb.commands.context import Context, typed_line
from sleeper_nb.errors import Action, ConfirmationNeeded

if TYPE_CHECKING:
    from collections.abc import Iterable

    from sleeper_nb.public_types import ChangeReport, DeletionReport, PurgeReport, ReinitialiseReport, SavepointDeletion
    from sleeper_nb.session import Session

Plan = TypeVar("Plan", "DeletionReport", "ReinitialiseReport", "SavepointDeletion")
AnyPlan = TypeVar("AnyPlan", "DeletionReport", "ReinitialiseReport", "SavepointDeletion", "ChangeReport", "PurgeReport")
RowPlan = TypeVar("RowPlan", "ChangeReport", "PurgeReport")
_OF_ROWS = {
    "delete": "delete all its rows", "update": "update all its rows", "overwrite": "replace all its rows",
    "purge": "delete all of this for good",
    "merge": "delete all its rows",
}  # fmt: skip
"""What is confirmed about the rows of a table; but for a purge, older versions keep them."""


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
    again = line_again(arguments.words, "--force")
    instance = "" if session is context.session else session.instance
    try:
        report = delete(force=arguments.force, dry_run=arguments.dry_run)
        return replace(
            report, again=again if report.needs_confirmation else line_again(arguments.words), instance=instance
        )
    except ConfirmationNeeded as needed:
        plan: Plan = needed.plan
        planned: Plan = replace(plan, instance=instance)
        return ask_and_confirm(
            context,
            needed,
            planned,
            again,
            lambda: replace(delete(force=True, dry_run=False), instance=instance),
            name_of,
        )


def change_confirmed(context: Context, arguments: Namespace, change: Callable[..., RowPlan]) -> RowPlan:
    """Change rows; or show the plan with the line that does it, when one was asked for or it must be confirmed.

    Parameters
    ----------
    context, arguments
        Of the command.
    change
        The method that changes rows, with all its arguments except `force` and `dry_run`.

    Raises
    ------
    ConfirmationNeeded
        As of `delete_confirmed`.
    """
    try:
        return shown_change(arguments, change(force=arguments.force, dry_run=arguments.dry_run))
    except ConfirmationNeeded as needed:
        again, plan = line_again(arguments.words, "--force"), needed.plan
        done: RowPlan = ask_and_confirm(
            context, needed, plan, again, lambda: change(force=True, dry_run=False), table_of
        )
        return done


def shown_change(arguments: Namespace, report: RowPlan) -> RowPlan:
    """Return the report of a change; that of a dry run with the line that does it."""
    added = ("--force",) if report.needs_confirmation else ()
    return replace(report, again=line_again(arguments.words, *added)) if report.dry_run else report


def line_again(words: Iterable[str], *added: str) -> str:
    """Return the line of a plan without what made it a plan, and with what confirms it."""
    return typed_line([*(word for word in words if word not in {*DRY_RUN.names, *added}), *added])


def table_of(plan: Any) -> str:
    return str(plan.table)


def ask_and_confirm(
    context: Context,
    needed: ConfirmationNeeded,
    planned: AnyPlan,
    again: str,
    delete: Callable[[], AnyPlan],
    name_of: Callable[[AnyPlan], str],
) -> AnyPlan:
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
    answer = context.ask(replace(plan.grid(), footer=f"Type {name} to {_purpose(plan)}: ").text())
    if answer != name:
        raise ConfirmationNeeded(f"{answer!r} is not {name!r}; nothing was changed", hint=hint) from None
    return delete()


def _purpose(plan: Any) -> str:
    """Return what confirming a plan does, after the name of what it is about."""
    return _OF_ROWS.get(getattr(plan, "operation", ""), "delete it for good")
