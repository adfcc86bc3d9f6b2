"""The jobs of one compaction, from the claim on their inputs to their commit, and what is told and tidied up."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from sleeper_nb.catalog.base import Assignment
from sleeper_nb.errors import OutcomeUnknown, SleeperError, StateRuleBroken
from sleeper_nb.model.snapshots import Snapshot
from sleeper_nb.model.transactions import ReplaceFileReferences
from sleeper_nb.operations.compacting.job_plan import CompactionJob
from sleeper_nb.operations.loading.ingest import discard_files, reference_to
from sleeper_nb.operations.tracking.renewing import Renewing
from sleeper_nb.operations.tracking.tracking import JobTracker, forget_old_jobs
from sleeper_nb.state_store.base import StateStore
from sleeper_nb.storage.data_files import DataFile

CLAIM_TIME = timedelta(minutes=20)
"""How long the inputs of a job stay claimed after the last renewal, and so after its process has died."""
RENEWED_EVERY = timedelta(minutes=5)
"""A claim has 15 minutes left at least, as clocks may be that far apart."""


class ClaimedJobs:
    """Claims the inputs of jobs, commits what they wrote, and tells the catalog of each step.

    Claims end by themselves; a thread renews them for as long as the process works on the jobs, however long that is.

    Parameters
    ----------
    store
        The table's.
    tracker
        Keeps the records.
    author
        Who history says it was.
    """

    def __init__(self, store: StateStore, tracker: JobTracker, author: str | None) -> None:
        self._store, self._tracker, self._author = store, tracker, author
        self._held: dict[str, Assignment] = {}
        self._lock = threading.Lock()
        self._renewing = Renewing("sleeper-claims", RENEWED_EVERY, self.renew, lambda: bool(self._held))
        self.done: list[tuple[CompactionJob, Snapshot]] = []
        self.refused: list[CompactionJob] = []

    @property
    def settled(self) -> int:
        """How many were committed or refused."""
        return len(self.done) + len(self.refused)

    @property
    def rows(self) -> int:
        """How many rows were merged in what was committed."""
        return sum(job.rows for job, _ in self.done)

    def claim(self, job: CompactionJob) -> bool:
        """Claim a job's inputs, and note the job in the same step; return False when another has one of them."""
        now = self._store.clock.now()
        claim = Assignment(job.id, job.partition_id, job.filenames, now + CLAIM_TIME)
        record = self._tracker.created(
            job.id, "compaction", partition_ids=(job.partition_id,), files=len(job.filenames)
        )
        claimed = self._store.catalog.assign(self._store.table_id, claim, now, record)
        if claimed:
            with self._lock:
                self._held[job.id] = claim
            self._renewing.begin()
        else:
            self._tracker.refused(job.id)
        return claimed

    def renew(self) -> None:
        """Renew the claims of all jobs that are not settled; one whose inputs another job has claimed is given up."""
        for job_id in list(self._held):
            with self._lock, contextlib.suppress(SleeperError):  # the next round comes before it ends
                if (claim := self._held.get(job_id)) is None:
                    continue
                now = self._store.clock.now()
                if not self._store.catalog.assign(self._store.table_id, replace(claim, until=now + CLAIM_TIME), now):
                    del self._held[job_id]

    def commit(self, job: CompactionJob, file: DataFile | None) -> None:
        """Commit what a job wrote; one that came too late is refused. Its claim is renewed no longer."""
        output = None if file is None else reference_to(file, job.partition_id, job_id=job.id)
        try:
            self._check_claim(job)
            change = ReplaceFileReferences(job.id, job.partition_id, job.filenames, output)
            snapshot = self._store.commit(change, author=self._author)
        except StateRuleBroken as error:
            self._settle(job)
            self.refused.append(job)
            self._tracker.failed(job.id, error.message)
            return
        self._settle(job)
        self.done.append((job, snapshot))
        written = 0 if output is None else output.rows
        self._tracker.finished(job.id, rows_read=job.rows, rows_written=written, snapshot_id=snapshot.id)

    def _settle(self, job: CompactionJob) -> None:
        with self._lock:
            self._held.pop(job.id, None)

    def _check_claim(self, job: CompactionJob) -> None:
        """Refuse a job whose claim has ended. One that ends right behind this check fails by the commit's rules."""
        store = self._store
        if job.id not in {claim.job_id for claim in store.catalog.assignments(store.table_id, store.clock.now())}:
            reason = f"the claim of compaction job {job.id} on its inputs has ended, as it was not renewed in time"
            raise StateRuleBroken(reason, hint="compact again")

    def give_up(self, error: BaseException, proposed: Iterable[CompactionJob]) -> None:
        """Leave nothing of jobs that are not done, when an error or an interrupt ends the whole work."""
        self._stop_renewing()
        self._tracker.ended_by(error)
        if not isinstance(error, OutcomeUnknown):  # else an output may be in the table; claims end by themselves
            self.clean_up(proposed)

    def clean_up(self, jobs: Iterable[CompactionJob]) -> None:
        """Delete outputs that were not committed, and release all claims."""
        self._stop_renewing()
        jobs, done = list(jobs), {job.id for job, _ in self.done}
        discard_files(self._store, [job.output for job in jobs if job.id not in done])
        for job in jobs:
            self._store.catalog.release(self._store.table_id, job.id)
        forget_old_jobs(self._store)

    def _stop_renewing(self) -> None:
        with self._lock:  # so that no renewal follows the release of a claim
            self._held.clear()
        self._renewing.end()
