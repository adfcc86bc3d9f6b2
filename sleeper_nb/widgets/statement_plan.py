"""What a statement that changes something would do, in sentences: of the report of its dry run. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from sleeper_nb import public_types as reports
from sleeper_nb.display.figure import clip
from sleeper_nb.errors import NoDryRun, hint_text, joined
from sleeper_nb.report import Bytes, Grid, Report, Stacked, cell_text, counted, is_missing, report_for
from sleeper_nb.sql_text import in_one_line
from sleeper_nb.widgets.action_answers import rollback_sentences

_LONGEST_TITLE: Final = 80
_MOST_LINES: Final = 12
_PREFIX: Final = "%sleeper"
_NOTHING_CHANGED: Final = re.compile(r"nothing was changed(; .* does it)?$")


def plan_of(report: Report | NoDryRun, statement: str) -> dict[str, Any]:
    """Return the plan of a statement from the report of its dry run, or from the error that it has none."""
    if isinstance(report, NoDryRun):
        title, sentences = "", [_sentence(report.message), "Its plan cannot be shown, only done: by the command."]
        is_possible, is_confirmed, is_danger = True, False, False
    else:
        first = report.parts[0][1] if isinstance(report, Stacked) else report
        title, sentences, is_possible = _title(first), list(_sentences(report)), _is_possible(first)
        is_confirmed = bool(getattr(first, "needs_confirmation", False))
        is_danger = is_confirmed or _takes_rows_away(first)
    verb = re.match(r"\w+", statement.strip())
    return {
        "title": title or clip(in_one_line(statement) or statement, _LONGEST_TITLE),
        "sentences": list(dict.fromkeys(filter(None, sentences))),
        "line": f"%%sleeper sql --engine duckdb{' --force' if is_confirmed else ''}\n{statement.strip()}",
        "button": f"Insert {verb[0].upper()} cell" if is_danger and verb else "Insert cell",
        "danger": is_danger,
        "possible": is_possible,
    }


def _title(report: Report) -> str:
    """Return what happens to the rows, where that is one thing; of a table that goes, the question."""
    if isinstance(report, reports.DeletionReport):
        return f"Drop table {report.table}?"
    if not isinstance(report, reports.ChangeReport):
        return ""
    counts = {"Add {} to {}": report.inserted, "Update {} of {}": report.updated, "Delete {} from {}": report.deleted}
    done = [words.format(counted(rows, "row"), report.table) for words, rows in counts.items() if rows]
    return done[0] if len(done) == 1 else ""


def _takes_rows_away(report: Report) -> bool:
    match report:
        case reports.ChangeReport():
            return bool(report.updated or report.deleted)
        case reports.CreatePlan():
            return report.replaces
        case reports.RollbackReport() | reports.PurgeReport():
            return True
    return False


def _is_possible(report: Report) -> bool:
    match report:
        case reports.ChangeReport():
            return any((report.inserted, report.updated, report.deleted))
        case reports.LoadReport(plan=reports.IngestPlan() as plan):
            return not plan.is_refused
        case reports.CreatePlan():
            return report.schema is not None and not report.differences
        case reports.RollbackReport():
            return not report.is_nothing
    return True


def _sentences(report: Report) -> Iterator[str]:
    match report:
        case Stacked():
            for _, part in report.parts:
                yield from _sentences(part)
        case reports.ChangeReport():
            yield from _of_rows(report)
        case reports.LoadReport(plan=reports.IngestPlan() as plan):
            yield from _of_load(plan)
        case reports.CreatePlan():
            yield from _of_creation(report)
        case reports.DeletionReport():
            yield f"Deletes for good: {report.summary}."
            yield "The files are those of all snapshots, with their metadata."
        case reports.RollbackReport():
            yield from rollback_sentences(report)
        case reports.QueryCost():
            for source in report.sources:
                yield f"Reads {source}: {Bytes(source.bytes)} at most."
        case _:
            yield from _of_grid(report_for(report, _PREFIX).grid())


def _of_rows(report: reports.ChangeReport) -> Iterator[str]:
    counts = {"Adds": report.inserted, "Updates": report.updated, "Deletes": report.deleted}
    if not any(counts.values()):
        yield f"No row of {report.table} would change."
        return
    if not _title(report):
        yield from (f"{verb} {counted(rows, 'row')}." for verb, rows in counts.items() if rows)
    if report.files:
        leaves = counted(report.leaves, "partition")
        yield f"The rows are in {counted(report.files, 'file')} of {leaves} of {report.table}, {Bytes(report.bytes)}."
    yield _sentence(report.found)
    if report.is_about_all_rows:
        yield "The command confirms that by --force."
    yield f"Snapshot {report.since} stays as it is: a rollback to it undoes the statement."


def _of_load(plan: reports.IngestPlan) -> Iterator[str]:
    if plan.is_refused:
        yield "Would add nothing, as the rows do not fit the table."
        yield from (_sentence(f"{each.column}: {each.problem}; {hint_text(each.hint, _PREFIX)}")
                    for each in plan.differences[:_MOST_LINES])  # fmt: skip
        return
    most = "up to " if plan.files_are_most else ""
    yield f"Adds {counted(plan.rows, 'row')} in {most}{counted(plan.files, 'file')} of {_partitions(plan.leaves)}."
    yield from map(_sentence, plan.notes)


def _of_creation(plan: reports.CreatePlan) -> Iterator[str]:
    if plan.candidates:
        fit = [f"{each.column.name} ({counted(each.distinct, 'value')})" for each in plan.candidates if each.fits]
        yield f"Table {plan.table} needs ROW KEYS (…), the column that you filter on most first."
        yield f"Columns that can be keys: {joined(fit)}." if fit else "No column of the query can be a key."
        return
    if plan.schema is None or plan.differences:
        yield from _of_grid(report_for(plan, _PREFIX).grid())
        return
    rows = "" if plan.rows is None else f" with {counted(plan.rows, 'row')} in {_partitions(plan.leaves)}"
    yield f"{'Replaces' if plan.replaces else 'Creates'} table {plan.table}{rows}."
    yield f"Row keys: {joined([each.name for each in plan.schema.row_keys])}."
    yield f"Columns: {joined([f'{each.name} {each.text}' for each in plan.schema.fields])}."
    yield from map(_sentence, plan.notes)


def _partitions(leaves: Iterable[object]) -> str:
    return counted(max(1, len(tuple(leaves))), "partition")


def _of_grid(grid: Grid) -> Iterator[str]:
    """Yield the lines of any other report: a sentence for its title, for each row and for each note."""
    yield _sentence(grid.title)
    for row in grid.rows[:_MOST_LINES]:
        named = [(name, cell_text(each)) for name, each in zip(grid.columns, row, strict=True) if not is_missing(each)]
        if not any(grid.columns):
            yield _sentence(": ".join(text for _, text in named))
        elif grid.columns == ("before", "after"):
            yield _sentence(_altered(*map(cell_text, row)))
        else:
            yield _sentence(", ".join(f"{name} {text}" for name, text in named if text))
    if len(grid.rows) > _MOST_LINES:
        yield f"And {len(grid.rows) - _MOST_LINES:,} more."
    for note in re.split(r"\n| · ", grid.footer):
        yield _sentence(_NOTHING_CHANGED.sub("", note).strip("; "))


def _altered(before: str, after: str) -> str:
    if not before:
        return f"adds {after}"
    return f"{before} becomes {after}" if after else f"drops {before}"


def _sentence(text: str) -> str:
    text = text.strip()
    return f"{text[:1].upper()}{text[1:].rstrip('.')}." if text else ""
