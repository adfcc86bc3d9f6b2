"""Remember which files a load has added, by the job ids of a watch: a watch of their folder does not add them again."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from sleeper_nb.errors import InvalidInput, SleeperError
from sleeper_nb.load.source_files import SourceFile
from sleeper_nb.model.jobs import check_job_id
from sleeper_nb.state_store.state_store_base import StateStore

logger = logging.getLogger(__name__)


def remember_files(store: StateStore, sources: Iterable[object], snapshot_id: int, job_id: str | None = None) -> None:
    """Remember the files among the sources of a load that is done.

    An error is logged only: the rows are loaded, and an error would make the caller load them again.

    Parameters
    ----------
    snapshot_id
        The snapshot that has their rows.
    job_id
        The id of the load, which is known already.
    """
    ids = [each for each in _ids(sources) if each != job_id]
    if not ids:
        return
    try:
        store.catalog.remember_jobs(store.table_id, ids, snapshot_id)
    except SleeperError as error:
        files = len(ids)
        logger.warning("table %s: a watch would load %d files again: %s", store.table_id, files, error.message)


def _ids(sources: Iterable[object]) -> Iterator[str]:
    """Return the addresses of files, without links above them, as a watch of their folder has them."""
    for each in sources:
        if not isinstance(each, SourceFile) or each.web:
            continue
        path = Path(each.address)
        try:
            yield check_job_id(str(path.parent.resolve() / path.name) if each.storage.local else each.address)
        except InvalidInput:  # a name that no job id can have: a watch refuses the file
            continue
