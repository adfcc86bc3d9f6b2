"""Which manifests of an older version a new one uses again, and which entries it must write. Pure.

A manifest stays while all of its files are live. One that lost a file is written again without it. Many small
manifests are written again as one, so that their number does not grow with each publication.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from sleeper_nb.publish.manifests import Entry, ManifestFile

MOST_ENTRIES: Final = 10_000
"""The most entries of a manifest."""
FEW_ENTRIES: Final = 1000
MOST_SMALL: Final = 16
"""So many manifests with fewer than `FEW_ENTRIES` are written again as one."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class OldManifest:
    """A manifest of an older version, with its entries."""

    file: ManifestFile
    entries: Sequence[Entry]


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
        What the live entries are of, in both.
    lost
        How many entries are no longer live.
    """

    kept: tuple[ManifestFile, ...] = ()
    carried: tuple[Entry, ...] = ()
    known: frozenset[str] = frozenset()
    lost: int = 0

    @classmethod
    def of(cls, old: Iterable[OldManifest], live: Collection[str], name: Callable[[Entry], str]) -> ManifestPlan:
        """Return the plan for the entries of which the names are live."""
        kept: list[ManifestFile] = []
        small: list[OldManifest] = []
        carried: list[Entry] = []
        known: set[str] = set()
        lost = 0
        for manifest in old:
            left = [each for each in manifest.entries if name(each) in live]
            known |= {name(each) for each in left}
            lost += len(manifest.entries) - len(left)
            if len(left) < len(manifest.entries):
                carried += left
            elif len(left) < FEW_ENTRIES:
                small.append(manifest)
            else:
                kept.append(manifest.file)
        if len(small) < MOST_SMALL:
            kept += [each.file for each in small]
        else:
            carried += [entry for each in small for entry in each.entries]
        return cls(tuple(kept), tuple(carried), frozenset(known), lost)


def in_parts(values: Sequence[_T], most: int) -> Iterator[Sequence[_T]]:
    yield from (values[at : at + most] for at in range(0, len(values), most))
