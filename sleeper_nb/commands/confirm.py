"""How a command is confirmed: a notebook shows the plan, a console asks (the rule of `ConfirmationNeeded`)."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from sleeper_nb.commands.command import DRY_RUN
from sleeper_nb.commands.context import Context, typed_line
from sleeper_nb.errors import Action, ConfirmationNeeded

if TYPE_CHECKING:
    from sleeper_nb.public_types import ChangeReport, DeletionReport, PurgeReport, ReinitialiseReport, SavepointDeletion

Plan = TypeVar("Plan", "DeletionReport", "ReinitialiseReport", "SavepointDeletion", "ChangeReport", "PurgeReport")
_OF_ROWS = {
    "delete": "delete all its rows", "update": "update all its rows", "overwrite": "replace all its rows",
    "purge": "delete all of this for good",
    "merge": "delete all its rows",
}  # fmt: skip
"""What is confirmed about the rows of a table; but for a purge, older versions keep them."""


def confirmed(context: Context, arguments: Namespace, act: Callable[..., Plan]) -> Plan:
    """Do what may need confirmation; or show the plan, with the line that does it.

    Parameters
    ----------
    context, arguments
        Of the command.
    act
        The method, with all its arguments except `force` and `dry_run`.

    Raises
    ------
    ConfirmationNeeded
        On a console without a terminal, or when another name was typed. Nothing is changed then.
    """
    try:
        return with_line(arguments, act(force=arguments.force, dry_run=arguments.dry_run))
    except ConfirmationNeeded as needed:
        again = line_again(arguments.words, "--force")
        done: Plan = ask_and_confirm(context, needed, again, partial(act, force=True, dry_run=False))
        return done


def with_line(arguments: Namespace, report: Plan) -> Plan:
    """Return a report; that of a dry run with the line that does it."""
    added = ("--force",) if report.needs_confirmation else ()
    return replace(report, again=line_again(arguments.words, *added)) if report.dry_run else report


def line_again(words: Iterable[str], *added: str) -> str:
    """Return the line of a plan without what made it a plan, and with what confirms it."""
    return typed_line([*(word for word in words if word not in {*DRY_RUN.names, *added}), *added])


def ask_and_confirm(context: Context, needed: ConfirmationNeeded, again: str, act: Callable[[], Any]) -> Any:
    """Show a plan that needs confirmation, and the line that confirms it; at a terminal, ask and act.

    Errors are those of `confirmed`, and `needed` itself where it has no plan to show.
    """
    if needed.plan is None:
        raise needed
    plan: Any = replace(needed.plan, again=again, prefix=context.prefix)
    if context.face == "notebook":
        return plan
    hint = Action(again)
    if context.ask is None:
        raise ConfirmationNeeded(needed.message, hint=hint, plan=plan) from None
    name = str(plan.savepoint.name or plan.savepoint.id) if hasattr(plan, "savepoint") else str(plan.table)
    purpose = _OF_ROWS.get(getattr(plan, "operation", ""), "delete it for good")
    answer = context.ask(replace(plan.grid(), footer=f"Type {name} to {purpose}: ").text())
    if answer != name:
        raise ConfirmationNeeded(f"{answer!r} is not {name!r}; nothing was changed", hint=hint) from None
    return act()
