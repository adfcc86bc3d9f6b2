"""Which manifests of an older version a new one uses again, and which entries it must write. Pure.

A manifest stays while all of its files are live. One that lost a file is written again without it. Many small
manifests are written again as one, so that their number does not grow with each publication. Manifests are read only
as far as needed: a million entries take a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, TypeVar

from sleeper_nb.publish.manifests import ManifestEntry, ManifestFile

MOST_ENTRIES: Final = 10_000
"""The most entries of a manifest."""
FEW_ENTRIES: Final = 1000
MOST_SMALL: Final = 16
"""So many manifests with fewer than `FEW_ENTRIES` are written again as one."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OldManifest:
    """A manifest of an older version, with its entries; None where none of them has changed."""

    file: ManifestFile
    entries: Sequence[ManifestEntry] | None
    is_merged: bool = False


def read_needed(
    manifests: Iterable[ManifestFile],
    changed: Collection[str] | None,
    read: Callable[[ManifestFile], Sequence[ManifestEntry]],
) -> list[OldManifest]:
    """Return the manifests of one kind, and the entries of those that have a changed data file; of all for None.

    The newest are read first, as files that change were mostly added lately.
    """
    newest_first = sorted(manifests, key=lambda each: each.sequence, reverse=True)
    small = [each for each in newest_first if each.files < FEW_ENTRIES]
    merged = {each.address for each in small} if len(small) >= MOST_SMALL else set()
    wanted = set(changed or ())
    found = []
    for manifest in newest_first:
        is_merged = manifest.address in merged
        entries = read(manifest) if is_merged or wanted or changed is None else None
        wanted -= {each.deletes_of or each.address for each in entries or ()}
        found.append(OldManifest(manifest, entries, is_merged))
    return found


@dataclass(frozen=True, slots=True)
class ManifestPlan:
    """What a new version uses of the manifests of an older one.

    Parameters
    ----------
    kept
        Manifests that are used as they are.
    carried
        Entries of others that are still live.
    known
        The addresses of the live entries of manifests that were read.
    lost
        How many entries are no longer live.
    """

    kept: tuple[ManifestFile, ...] = ()
    carried: tuple[ManifestEntry, ...] = ()
    known: frozenset[str] = frozenset()
    lost: int = 0

    @classmethod
    def of(cls, old: Iterable[OldManifest], is_live: Callable[[ManifestEntry], bool]) -> ManifestPlan:
        kept: list[ManifestFile] = []
        carried: list[ManifestEntry] = []
        known: set[str] = set()
        lost = 0
        for manifest in old:
            entries = manifest.entries or ()
            left = [each for each in entries if is_live(each)]
            known |= {each.address for each in left}
            lost += len(entries) - len(left)
            if manifest.is_merged or len(left) < len(entries):
                carried += left
            else:
                kept.append(manifest.file)
        return cls(tuple(kept), tuple(carried), frozenset(known), lost)


def in_parts(values: Iterable[T], most: int) -> Iterator[list[T]]:
    """Yield values in lists of at most so many: entries of a million files would fill the memory."""
    rest = iter(values)
    while part := list(islice(rest, most)):
        yield part
