"""Check the rows of a table by rules that it is about to get: NOT NULL, CHECKs and unique keys."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from sleeper_nb.errors import InvalidInput
from sleeper_nb.load.row_checks import check_unique, values_text
from sleeper_nb.model.evolution import without_new_promises
from sleeper_nb.model.schema import Schema
from sleeper_nb.model.state import TableState
from sleeper_nb.read.predicate import Pruning
from sleeper_nb.read.read_rows import stream
from sleeper_nb.read.row_condition import Condition
from sleeper_nb.read.scan_plan import PlannedFile, ScanPlan, plan_scan
from sleeper_nb.storage.filesystem import Storage


@dataclass(frozen=True, slots=True)
class NewRule:
    """A rule that the rows of a table must keep before the table gets it.

    Parameters
    ----------
    problem
        What a row that breaks it is, for the error: ``"column 'fare' is NULL"``.
    whole_files
        Whether also rows of files count that no partition reads: engines that read the file see them.
    """

    problem: str
    broken: Condition
    whole_files: bool = False


RulesOf = Callable[[Schema, Schema], Sequence[NewRule]]
"""Returns what the rows must keep so that a schema may follow another one; raises when it may not at all."""


def no_rules(_before: Schema, _after: Schema) -> Sequence[NewRule]:
    return ()


class RowsChecked:
    """Checks the rows of a table's states by the rules of a new schema; each file once."""

    def __init__(self, storage: Storage, rules: RulesOf) -> None:
        self._storage, self._rules = storage, rules
        self._schemas: tuple[Schema, Schema] | None = None
        self._seen: set[str] = set()

    def check(self, state: TableState, after: Schema) -> None:
        """Raise `InvalidInput` for a row of a state that breaks a rule; its message has the row's key."""
        if self._schemas != (state.schema, after):
            self._schemas, self._seen = (state.schema, after), set()
        read = replace(state, schema=without_new_promises(state.schema, after))
        files = set(state.files.active_without_statistics["filename"].to_pylist())
        unseen = files - self._seen
        for rule in self._rules(state.schema, after):
            plan = plan_scan(read, pruning=Pruning(predicate=rule.broken.predicate))
            self._check_rule(rule, _only(plan, unseen, whole=rule.whole_files))
        if unseen and after.unique_keys and not state.schema.unique_keys:
            check_unique(read, self._storage)
        self._seen |= files

    def _check_rule(self, rule: NewRule, plan: ScanPlan) -> None:
        names = plan.schema.sort_order
        columns = [name for name in plan.schema.names if name in {*names, *rule.broken.columns}]
        for batch in stream(plan, self._storage, columns=columns, where=rule.broken, limit=1):
            if batch.num_rows:
                row = batch.slice(0, 1).to_pylist()[0]
                raise InvalidInput(
                    f"{rule.problem} in a row of the table: {values_text(row)}; nothing was changed",
                    hint="correct or remove such rows before",
                )


def _only(plan: ScanPlan, names: set[str], *, whole: bool) -> ScanPlan:
    """Return a plan of some of its files; with `whole`, of all rows of each, once."""
    done: set[str] = set()

    def kept(file: PlannedFile) -> PlannedFile | None:
        if file.filename not in names or file.filename in done:
            return None
        if whole:
            done.add(file.filename)
        return file._replace(region=None) if whole else file

    leaves = [
        replace(leaf, files=tuple(each for file in leaf.files if (each := kept(file)) is not None))
        for leaf in plan.leaves
    ]
    return replace(plan, leaves=tuple(leaf for leaf in leaves if leaf.files))
