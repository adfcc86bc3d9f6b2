"""Watch a folder and load each of its files once.

A file is loaded under a job id that names it, so a later watch, in any process, does not load it again; other loads
remember these ids too (`sleeper_nb.load.ingest`). One that had no rows to add is remembered by an
id that also has its size and time of change, and is handled again once it has changed.
In a folder of this machine, a file that may still be written is left alone: one that is empty, or that changed within
the last minute and between two looks. In a bucket, objects appear whole. Hidden files, and those whose names begin
with ``_`` or have no ending of data, are never loaded: writers use such names until they rename a file.
"""

from __future__ import annotations

import contextlib
import logging
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Final, Literal, get_args

from sleeper_nb.engines.components import OpenTable
from sleeper_nb.errors import (
    Action,
    AlreadyExists,
    HintParts,
    InvalidInput,
    NotFound,
    SleeperError,
    StorageError,
    Unchanged,
    hint_text,
)
from sleeper_nb.load.load_options import LoadOptions
from sleeper_nb.load.load_report import LoadReport
from sleeper_nb.load.quarantine import new_address
from sleeper_nb.load.source_files import (
    ENDINGS_TEXT,
    WILDCARD,
    FoundFiles,
    SourceFile,
    is_hidden,
    other_files,
    search,
)
from sleeper_nb.model.jobs import check_job_id
from sleeper_nb.model.load_hints import keeping_in
from sleeper_nb.model.snapshots import from_micros, to_micros
from sleeper_nb.progress import Progress
from sleeper_nb.report import Grid, TableReport, counted, notes_line
from sleeper_nb.storage.filesystem import Storage
from sleeper_nb.table import loading

logger = logging.getLogger(__name__)

State = Literal["loaded", "no rows", "bad", "being written", "changed since"]
DEFAULT_EVERY: Final = timedelta(seconds=10)
_AT_REST: Final = timedelta(minutes=1)
"""A file that was last written longer ago is whole."""
_LOOKS_AGAIN: Final = 3
_STATES: Final[tuple[State, ...]] = get_args(State)


@dataclass(frozen=True, slots=True)
class WatchedFile:
    """What became of one file.

    Parameters
    ----------
    file
        Its path below the folder.
    state
        ``loaded``; ``no rows``, when there was nothing to add; ``bad``, when it could not be loaded; ``being written``,
        when it was left alone; ``changed since``, when it was loaded before and has another time of change now.
    rows, snapshot_id
        The rows that were added, and the snapshot that has them; of a file that changed, the one that loaded it.
    kept_back
        Its rows that were kept back.
    reason, hint
        Why it is bad or what else to know, and what to do.
    """

    file: str
    state: State
    rows: int = 0
    snapshot_id: int | None = None
    kept_back: int = 0
    reason: str = ""
    hint: HintParts = ()


@dataclass(frozen=True, slots=True, repr=False)
class WatchReport(TableReport):
    """What a watch of a folder did.

    Parameters
    ----------
    table, folder
        Where rows went, and where they came from.
    files
        The files that were not loaded before, in the order in which they were seen.
    loaded_before
        The number of files that an earlier watch loaded.
    without_rows_before
        The number of files in which an earlier watch found no rows to add: all were kept back, or there are none.
    passed_over
        How many files were there at the first look whose names have no ending of data.
    hidden
        How many files were left out at the last look as their names are hidden; "" for none.
    """

    table: str
    folder: str
    files: tuple[WatchedFile, ...]
    loaded_before: int = 0
    without_rows_before: int = 0
    passed_over: int = 0
    hidden: str = ""
    prefix: str = ""

    def of(self, state: State) -> tuple[WatchedFile, ...]:
        """Return the files of one state."""
        return tuple(each for each in self.files if each.state == state)

    @property
    def rows(self) -> int:
        """The rows that were added."""
        return sum(each.rows for each in self.files)

    @property
    def failed(self) -> tuple[WatchedFile, ...]:
        """The files that are bad: the console ends with 1 when there are any."""
        return self.of("bad")

    @property
    def summary(self) -> str:
        """The outcome in one line: how many files were loaded, and how many not."""
        counts = [(state, len(self.of(state))) for state in _STATES]
        parts = [f"{counted(count, 'file')} {state}" for state, count in counts if count]
        before = [f"{counted(self.loaded_before, 'file')} loaded before"] if self.loaded_before else []
        if self.without_rows_before:
            before.append(f"{counted(self.without_rows_before, 'file')} without rows before")
        kept = sum(each.kept_back for each in self.files)
        rows = [f"{counted(self.rows, 'row')} added"] + ([f"{counted(kept, 'row')} kept back"] if kept else [])
        return notes_line(*(parts or ["no new file"]), *before, *rows)

    def grid(self) -> Grid:
        """Return a row for each file."""
        rows = tuple(
            (each.file, each.state, each.rows, each.kept_back, each.snapshot_id, each.reason,
             hint_text(each.hint, self.prefix)) for each in self.files
        )  # fmt: skip
        columns = ("file", "state", "rows", "kept back", "snapshot", "reason", "what to change")
        footer = "\n".join(filter(None, (self.summary, self.hidden, _passed_over_text(self.passed_over))))
        return Grid(columns, rows, f"{self.folder} into {self.table}", footer)


def _passed_over_text(files: int) -> str:
    return (
        f"{counted(files, 'file')} passed over: a watch loads files whose names end in {ENDINGS_TEXT}" if files else ""
    )


@dataclass(frozen=True, slots=True)
class WatchedFolder:
    """The folder of a watch.

    Parameters
    ----------
    address
        A folder, ``s3://`` prefix, or a glob.
    home
        The table's storage.
    every
        Whether its files are loaded whatever their endings, as their format is given.

    Raises
    ------
    NotFound
        When there is no such folder.
    """

    address: str
    home: Storage | None = None
    every: bool = False

    def __post_init__(self) -> None:
        if "\0" in self.address:
            raise NotFound(f"the folder {self.address!r} does not exist", hint="no folder has a NUL in its name")
        folder = Path(self.root)
        if not self.is_remote and not folder.is_dir():
            if folder.is_file():
                hint = f"to watch its folder: {folder.parent}; to load only the file, leave out the watch"
                raise NotFound(f"{str(folder)!r} is a file, not a folder", hint=hint)
            raise NotFound(f"the folder {str(folder)!r} does not exist", hint="create it, or watch another folder")

    @property
    def is_remote(self) -> bool:
        return self.address.startswith("s3://")

    @property
    def root(self) -> str:
        """Its absolute address, without the part of a glob that has wildcards."""
        if self.is_remote:
            return self.address.rstrip("/")
        return str(self._plain.resolve())

    @property
    def _path(self) -> Path:
        return Path(self.address.removeprefix("file://")).expanduser()

    @property
    def _plain(self) -> Path:
        return self._path if self._path.is_dir() else Path(*_before_wildcards(self._path.parts))

    @property
    def _resolved(self) -> str:
        """The address without links and ``..`` above its wildcards: the names of files are below the root."""
        return self.address if self.is_remote else str(Path(self.root, *self._path.parts[len(self._plain.parts) :]))

    def files(self) -> tuple[dict[str, SourceFile], str]:
        """Return the data files that are in it now, by their paths below it, in their order; and what was left out."""
        found = self._found()
        return {_below(self.root, each.address): each for each in found.files}, found.note

    def passed_over(self) -> int:
        """Return how many files in it are no data files; 0 of a glob."""
        if self.every or (WILDCARD.search(self.address) if self.is_remote else self._path != self._plain):
            return 0
        return sum(not is_hidden(name) for name in other_files(self.root, self.home))

    def _found(self) -> FoundFiles:
        for _ in range(_LOOKS_AGAIN):
            with contextlib.suppress(NotFound):  # a file went while it was listed
                return search(self._resolved, self.home, every=self.every)
        return FoundFiles(())


def _before_wildcards(parts: tuple[str, ...]) -> Iterator[str]:
    for part in parts:
        if WILDCARD.search(part):
            return
        yield part


def _is_of_file(error: SleeperError, file: SourceFile) -> bool:
    """Return whether a load failed because of its file; all other errors end the watch."""
    if type(error) is StorageError:  # a file that cannot be parsed or read; its subclasses are about other things
        return file.address in error.message
    return isinstance(error, InvalidInput | NotFound | AlreadyExists)


def _below(root: str, address: str) -> str:
    return address.removeprefix(root).lstrip("/") if address.startswith(root) else address


@dataclass(frozen=True, slots=True)
class _Look:
    """What one look at a file shows; the same when nothing was written between two looks."""

    bytes: int
    changed: int
    written: int = 0
    """When the object was written, in microseconds since 1970; 0 of a file of this machine."""

    @classmethod
    def at(cls, file: SourceFile, *, is_remote: bool) -> _Look | None:
        """Return what is there now; None when the file is gone."""
        if is_remote:
            return cls(file.bytes, 0, 0 if file.modified is None else to_micros(file.modified))
        try:
            now = Path(file.address).stat()
        except OSError:
            return None
        return cls(now.st_size, now.st_mtime_ns)

    @property
    def time(self) -> datetime:
        return from_micros(self.changed // 1000)


@dataclass(eq=False)
class FolderWatch:
    """A watch of one folder.

    Parameters
    ----------
    table, folder
        Where rows go, and where files come from.
    options
        How files are read.
    every
        How long it waits between two looks.
    quarantine
        The folder in which each file gets one with its rows that do not fit; None for none.
    skips_bad
        Whether it goes on after a bad file, which is reported; otherwise the file's error ends it.
    message
        The beginning of each commit's message.
    jobs
        What the job ids of files begin with.

    Raises
    ------
    InvalidInput
        When the time is no longer than 0, or rows cannot be kept back in the folder for them.
    """

    table: OpenTable
    folder: WatchedFolder
    options: LoadOptions
    every: timedelta
    quarantine: str | None
    skips_bad: bool
    message: str | None
    jobs: str
    _seen: dict[str, _Look] = field(default_factory=dict)
    _ended: dict[str, _Look] = field(default_factory=dict)
    _files: dict[tuple[str, bool], WatchedFile] = field(default_factory=dict)  # True: it changed after it was loaded
    _before: set[str] = field(default_factory=set)
    _without_rows_before: set[str] = field(default_factory=set)
    _passed_over: int = 0
    _hidden: str = ""
    _times: dict[int, datetime] = field(default_factory=dict)
    """When snapshots were made; read again for one that is new."""

    def __post_init__(self) -> None:
        if self.every <= timedelta(0):
            raise InvalidInput(
                f"a watch cannot look every {self.every}", hint="give a time longer than 0, such as 10 s"
            )
        if self.quarantine is not None:
            _quarantine_of(self.folder, self.quarantine, "")

    @property
    def _progress(self) -> Progress:
        return self.table.components.progress

    def run(self, *, once: bool) -> WatchReport:
        """Load files until an interrupt, or once: those that are in the folder now and are not being written.

        Raises
        ------
        KeyboardInterrupt
            At an interrupt; a note has the outcome. Files that were loaded stay loaded.
        """
        try:
            self._passed_over = self.folder.passed_over()
            if self._passed_over and not once:  # the report of one pass says it
                self._progress.finish(_passed_over_text(self._passed_over))
            self._look()
            while not once or self.report.of("being written"):
                self._progress.update(
                    self._waits_for if once else f"watching {self.folder.root}: {self.report.summary}"
                )
                self.table.components.clock.sleep(self.every.total_seconds())
                self._look()
                if once:
                    break
        except KeyboardInterrupt as stop:
            stop.add_note(self.report.summary)
            raise
        except SleeperError as error:
            error.add_note(self.report.summary)
            self._say_what_was_loaded(error)
            raise
        return self.report

    @property
    def _waits_for(self) -> str:
        """What one pass waits for: most files are whole, but only a second look tells."""
        new = len(self.report.of("being written"))
        seconds = f"{self.every.total_seconds():g}"
        return f"looking again in {seconds} s whether {counted(new, 'new file')} {'is' if new == 1 else 'are'} complete"

    def _say_what_was_loaded(self, error: SleeperError) -> None:
        """Begin an error with the files that were loaded before it."""
        loaded = self.report.of("loaded")
        if not loaded:
            return
        first, last = loaded[0], loaded[-1]
        if first is last:
            what = f"{first.file} was loaded (snapshot {first.snapshot_id})"
        else:
            what = f"{len(loaded):,} files were loaded (snapshots {first.snapshot_id} to {last.snapshot_id})"
        error.message = f"{what}; {error.message}"
        error.hint = tuple(
            replace(part, others_did=True) if isinstance(part, Unchanged) else part for part in error.hint_parts
        )

    @property
    def report(self) -> WatchReport:
        """What was done until now."""
        files, without_rows = tuple(self._files.values()), len(self._without_rows_before)
        return WatchReport(
            *(self.table.name, self.folder.root, files, len(self._before), without_rows),
            passed_over=self._passed_over,
            hidden=self._hidden,
        )

    def _look(self) -> None:
        """Look at the folder, and load each file that is new and whole."""
        files, self._hidden = self.folder.files()
        for name, file in files.items():
            now = _Look.at(file, is_remote=self.folder.is_remote)
            if now is None or self._ended.get(name) == now:
                continue
            before, self._seen[name] = self._seen.get(name), now
            if self._was_loaded(name, now) or self._was_without_rows(name, now):
                self._ended[name] = now
            elif now.bytes and (self.folder.is_remote or before == now or self._is_at_rest(now)):
                self._ended[name] = now
                self._take(replace(file, bytes=now.bytes), name, now)
                after = _Look.at(file, is_remote=self.folder.is_remote)  # it may have been written while it was read
                if after is not None and after != now and self._was_loaded(name, after):
                    self._ended[name] = after
            else:
                self._files[name, False] = WatchedFile(name, "being written")

    def _is_at_rest(self, now: _Look) -> bool:
        """Return whether a file was last written so long ago that nobody waits for a second look."""
        return self.table.components.clock.now() - now.time > _AT_REST

    def _was_loaded(self, name: str, now: _Look) -> bool:
        """Return whether a watch has loaded a file; note that it changed since."""
        known, made = self._files.get((name, False)), self._made(f"{self.jobs}/{name}")
        if made is None:
            return False
        if known is None or known.state == "being written":
            self._files.pop((name, False), None)
            self._before.add(name)
        is_loaded = name in self._before or (known is not None and known.state == "loaded")
        was_other = name in self._ended and self._ended[name] != now and is_loaded
        time = self._times.get(made)  # of an expired snapshot it is not known
        if was_other or (now.changed and time is not None and now.time > time):
            hint = ("the table has its earlier rows; give the new file another name",)
            self._note(WatchedFile(name, "changed since", snapshot_id=made, hint=hint))
        return True

    def _made(self, job_id: str) -> int | None:
        """Return the snapshot that a job id has made; None when there is none, or no job can have the id."""
        store = self.table.store
        try:
            made = store.catalog.snapshot_of_job(store.table_id, check_job_id(job_id))
        except InvalidInput:  # the load of the file reports it
            return None
        if made is not None and made not in self._times and made > max(self._times, default=0):
            self._times.update({each.id: each.time for each in store.catalog.snapshots(store.table_id)})
        return made

    def _was_without_rows(self, name: str, now: _Look) -> bool:
        """Return whether a watch found no rows to add in a file as it is now."""
        self._without_rows_before.discard(name)
        is_known = self._made(self._id_without_rows(name, now)) is not None
        if is_known:
            self._files.pop((name, False), None)
            self._without_rows_before.add(name)
        return is_known

    def _id_without_rows(self, name: str, now: _Look) -> str:
        """Return the id by which a file without rows is known, until it changes."""
        return f"{self.jobs}/{name} (no rows: {now.bytes} bytes of {now.changed or now.written})"

    def _load(self, file: SourceFile, name: str) -> LoadReport:
        kept = None
        if self.quarantine is not None:
            kept = new_address(_quarantine_of(self.folder, self.quarantine, name), self.table.store.storage)
        message, job_id = f"{self.message}: {name}" if self.message else name, check_job_id(f"{self.jobs}/{name}")
        return loading.load(
            self.table, file.address, self.options, message=message, job_id=job_id, dry_run=False, quarantine=kept
        )

    def _take(self, file: SourceFile, name: str, now: _Look) -> None:
        self._progress.update(f"loading {name}")
        try:
            loaded = self._load(file, name)
        except SleeperError as error:
            if not _is_of_file(error, file):
                error.message = f"{name}: {error.message}"
                raise
            if not self.skips_bad:
                self._files.pop((name, False), None)
                folder = Action("--quarantine DIR", "quarantine='DIR'")
                error.hint = keeping_in(error.hint_parts, folder)
                others = ("correct the file, or go on with the others: ", Action("--skip-bad", "skip_bad=True"))
                error.hint = (*error.hint_parts, "; ", *others) if error.hint_parts else others
                error.message = f"{name}{' was not' if self.report.of('loaded') else ''}: {error.message}"
                raise
            logger.warning("table %s: %s cannot be loaded: %s", self.table.name, name, error.message)
            hint = tuple(part for part in error.hint_parts if not isinstance(part, Unchanged))  # others may be loaded
            self._note(WatchedFile(name, "bad", reason=error.message, hint=hint))
            return
        if loaded.done_before:  # by another watch, meanwhile
            self._files.pop((name, False), None)
            self._before.add(name)
            return
        if loaded.snapshot is None:
            self._note(WatchedFile(name, "no rows", kept_back=loaded.kept_back))
            store, job_id = self.table.store, self._id_without_rows(name, now)
            store.catalog.remember_jobs(store.table_id, [job_id], store.head().id)
            return
        broken = "\n".join(loaded.notes) if any(loaded.snapshot.broken_expectations.values()) else ""
        self._note(WatchedFile(name, "loaded", loaded.rows, loaded.snapshot_id, loaded.kept_back, broken))

    def _note(self, file: WatchedFile) -> None:
        """Keep what became of a file, and tell the progress callback."""
        self._files[file.file, file.state == "changed since"] = file
        what = f"{counted(file.rows, 'row')} in snapshot {file.snapshot_id}" if file.state == "loaded" else file.state
        kept = f"{counted(file.kept_back, 'row')} kept back" if file.kept_back else ""
        self._progress.finish(f"{file.file}: {notes_line(what, kept, file.reason)}")


def _quarantine_of(folder: WatchedFolder, quarantine: str, name: str) -> str:
    """Return the file that keeps rows of a watched file: below another folder, by the file's own name.

    Raises
    ------
    InvalidInput
        When the folder for them is in the watched one, whose files are loaded; or is named as a file.
    """
    last = PurePosixPath(quarantine).name
    if last.lower().endswith(".parquet"):
        other = last[: -len(".parquet")] or "bad"
        to_type = Action(f"--quarantine {shlex.quote(other)}", f"quarantine={other!r}")
        raise InvalidInput(
            f"the rows of a watch cannot be kept back in {quarantine!r}: that is the name of a file",
            hint=("give a folder, in which each file gets one: ", to_type),
        )
    is_remote = quarantine.startswith("s3://")
    place = quarantine.rstrip("/") if is_remote else str(Path(quarantine).expanduser().resolve())
    if f"{place}/".startswith(f"{folder.root}/"):
        hint = "give a folder elsewhere"
        raise InvalidInput(
            f"rows cannot be kept back in {quarantine!r}: it is in the folder that is watched", hint=hint
        )
    return f"{place}/{name}.parquet"
