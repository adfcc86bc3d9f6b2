"""The partition tree of a table, the regions of row keys that it divides, their text form, and even trees.

A region has one range [min, max) per row key; None means unbounded. A partition is split at one value of one row key
(its dimension): the left child holds the smaller values, the right child the rest. The leaves therefore tile the key
space, each row belongs to exactly one leaf, and finding it takes one comparison per level (a binary kd-like tree, as
in Sleeper).

As text, a region is a range for some of the row keys: ``carrier=[AA,DL) flight=[1,100]``; see `parse_region`.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from sleeper_nb.errors import InvalidInput, NotFound
from sleeper_nb.model.keys import KeyValue, check_key, key_after, key_text, parse_key
from sleeper_nb.model.schema import Field, Schema
from sleeper_nb.tabular import Tabular

ROOT_ID = "root"


@dataclass(frozen=True, slots=True)
class Range:
    """Values from `min` (included) to `max` (excluded) of one row key; None is unbounded."""

    min: KeyValue | None = None
    max: KeyValue | None = None

    def __contains__(self, value: KeyValue) -> bool:
        return (self.min is None or value >= self.min) and (self.max is None or value < self.max)  # type: ignore[operator]

    def intersect(self, other: Range) -> Range | None:
        lows, highs = {self.min, other.min} - {None}, {self.max, other.max} - {None}
        low, high = max(lows, default=None), min(highs, default=None)  # type: ignore[type-var]
        return None if low is not None and high is not None and low >= high else Range(low, high)  # type: ignore[operator]

    def is_one_value(self, key: Field) -> bool:
        return self.min is not None and self.max == key_after(key, self.min)

    @classmethod
    def hull(cls, ranges: Sequence[Range]) -> Range:
        lows, highs = [r.min for r in ranges], [r.max for r in ranges]
        return cls(None if None in lows else min(lows), None if None in highs else max(highs))  # type: ignore[type-var]

    def __str__(self) -> str:
        if isinstance(self.min, str) and self.max == self.min + "\0":
            return key_text(self.min)  # no other text is in the range
        return f"{'(-∞' if self.min is None else '[' + key_text(self.min)}, {key_text(self.max)})"


@dataclass(frozen=True, slots=True)
class Region:
    """One range per row key, in the schema's order."""

    ranges: tuple[Range, ...]

    @classmethod
    def whole(cls, schema: Schema) -> Region:
        return cls((Range(),) * len(schema.row_keys))

    def __contains__(self, key: Sequence[KeyValue]) -> bool:
        return all(value in r for value, r in zip(key, self.ranges, strict=True))

    def intersect(self, other: Region) -> Region | None:
        ranges = []
        for mine, theirs in zip(self.ranges, other.ranges, strict=True):
            both = mine.intersect(theirs)
            if both is None:
                return None
            ranges.append(both)
        return Region(tuple(ranges))

    def overlaps(self, least: Sequence[KeyValue], greatest: Sequence[KeyValue]) -> bool:
        """Return whether keys between the least and the greatest value of each row key can lie in the region."""
        ends: Iterable[tuple[Range, Any, Any]] = zip(self.ranges, least, greatest, strict=True)
        return all((r.max is None or low < r.max) and (r.min is None or high >= r.min) for r, low, high in ends)

    def covers(self, other: Region) -> bool:
        return self.intersect(other) == other

    def is_before(self, other: Region) -> bool:
        """Return whether the first row key alone says that every key is before those of another region."""
        end: Any = self.ranges[0].max
        return end is not None and other.ranges[0].min is not None and end <= other.ranges[0].min

    def narrowed(self, dimension: int, to: Range) -> Region:
        return Region((*self.ranges[:dimension], to, *self.ranges[dimension + 1 :]))

    def comparisons(
        self,
        schema: Schema,
        column: Callable[[Field], Any],
        literal: Callable[[Field, KeyValue], Any],
        *,
        with_equality: bool = False,
    ) -> list[Any]:
        """Return the conditions that a row inside the region meets, as expressions of an engine.

        Parameters
        ----------
        column
            Returns the engine's expression for a row key.
        literal
            Returns the engine's expression for a value of a row key.
        with_equality
            Whether a range of one value is one test for equality, not two.
        """
        tests = []
        for key, bounds in zip(schema.row_keys, self.ranges, strict=True):
            if with_equality and bounds.min is not None and bounds.is_one_value(key):
                tests.append(column(key) == literal(key, bounds.min))
                continue
            if bounds.min is not None:
                tests.append(column(key) >= literal(key, bounds.min))
            if bounds.max is not None:
                tests.append(column(key) < literal(key, bounds.max))
        return tests

    def text(self, schema: Schema) -> str:
        """Return the region in readable form: the row keys that have a bound, ``carrier [DL, MQ)``."""
        bounded = [f"{k.name} {r}" for k, r in zip(schema.row_keys, self.ranges, strict=True) if r != Range()]
        return ", ".join(bounded) or "every key"


@dataclass(frozen=True, slots=True)
class Partition:
    """A node of the tree; a leaf has no children and dimension -1."""

    id: str
    region: Region
    parent_id: str | None = None
    child_ids: tuple[str, ...] = ()
    dimension: int = -1

    @property
    def is_leaf(self) -> bool:
        """Whether rows are written under this partition."""
        return not self.child_ids


@dataclass(frozen=True, slots=True)
class PartitionSplit:
    """A split of one leaf in two at one value of one row key; smaller values go to the left child."""

    partition_id: str
    dimension: int
    point: KeyValue
    child_ids: tuple[str, str]


@dataclass(frozen=True)
class PartitionTree(Tabular):
    """All partitions of a table at one snapshot; in `partitions` the root is first, and left comes before right.

    As a table it has a row for each partition, with the range of each row key as text.
    """

    partitions: tuple[Partition, ...]

    def to_arrow(self) -> pa.Table:
        """Return the partitions as an Arrow table: all but the ranges as in the system table ``$partitions``."""
        columns: dict[str, tuple[pa.DataType, Callable[[Partition], Any]]] = {
            "partition_id": (pa.string(), lambda each: each.id),
            "leaf_partition": (pa.bool_(), lambda each: each.is_leaf),
            "parent_partition_id": (pa.string(), lambda each: each.parent_id),
            "child_partition_ids": (pa.list_(pa.string()), lambda each: list(each.child_ids)),
            "dimension": (pa.int32(), lambda each: each.dimension),
            "ranges": (pa.list_(pa.string()), lambda each: list(map(str, each.region.ranges))),
        }
        values = [pa.array(map(value, self.partitions), kind) for kind, value in columns.values()]
        return pa.table(values, list(columns))

    def __len__(self) -> int:
        return len(self.partitions)

    def split_points(self) -> tuple[KeyValue, ...]:
        """Return the values of the first row key at which the tree is split, in increasing order, each once."""
        minima = {p.region.ranges[0].min for p in self.partitions if p.is_leaf}
        return tuple(sorted(point for point in minima if point is not None))

    @cached_property
    def _by_id(self) -> dict[str, Partition]:
        return {partition.id: partition for partition in self.partitions}

    @property
    def root(self) -> Partition:
        return self.partitions[0]

    def __getitem__(self, partition_id: str) -> Partition:
        try:
            return self._by_id[partition_id]
        except KeyError:
            raise NotFound.of("partition", partition_id, self._by_id) from None

    def check_is_leaf(self, partition_id: str) -> None:
        """Raise, naming the nearest leaves, when there is no such partition, or it is not a leaf."""
        if partition_id in self.leaf_ids:
            return
        unknown = NotFound.of("leaf partition", partition_id, (leaf.id for leaf in self.leaves))
        if partition_id in self:
            raise InvalidInput(f"partition {partition_id!r} is not a leaf", hint=unknown.hint_parts)
        raise unknown

    def __contains__(self, partition_id: str) -> bool:
        return partition_id in self._by_id

    @cached_property
    def leaves(self) -> tuple[Partition, ...]:
        """The leaves from left to right: in the order of the first row key where that key was split."""
        leaves, waiting = [], [self.root]
        while waiting:
            partition = waiting.pop()
            if partition.child_ids:
                waiting.extend(self[child] for child in reversed(partition.child_ids))
            else:
                leaves.append(partition)
        return tuple(leaves)

    @cached_property
    def leaf_ids(self) -> frozenset[str]:
        return frozenset(leaf.id for leaf in self.leaves)

    def split_point(self, partition: Partition) -> KeyValue:
        """Return the value at which a partition was split; it must not be a leaf."""
        point = self[partition.child_ids[0]].region.ranges[partition.dimension].max
        assert point is not None  # noqa: S101 - `check` ensures it
        return point

    def leaves_in(self, region: Region) -> tuple[Partition, ...]:
        return tuple(self._leaves_in(self.root, region))

    def _leaves_in(self, partition: Partition, region: Region) -> Iterator[Partition]:
        if partition.region.intersect(region) is None:
            return
        if partition.is_leaf:
            yield partition
        for child in partition.child_ids:
            yield from self._leaves_in(self[child], region)

    def ancestors(self, partition_id: str) -> tuple[Partition, ...]:
        ancestors, node = [], self[partition_id]
        while node.parent_id is not None:
            node = self[node.parent_id]
            ancestors.append(node)
        return tuple(ancestors)

    def split(self, leaf_id: str, dimension: int, point: KeyValue, child_ids: tuple[str, str]) -> PartitionTree:
        return self.with_splits([PartitionSplit(leaf_id, dimension, point, child_ids)])

    def with_splits(self, splits: Iterable[PartitionSplit]) -> PartitionTree:
        """Return the tree with leaves split in turn; a split may divide a child made by an earlier one.

        `InvalidInput` when a partition is not a leaf, a point does not divide its region in two, or an id is already
        used. `NotFound` when there is no such partition.
        """
        nodes = dict(self._by_id)
        for split in splits:
            if split.partition_id not in nodes:
                raise NotFound.of("partition", split.partition_id, nodes)
            leaf = nodes[split.partition_id]
            if not leaf.is_leaf:
                raise InvalidInput(f"partition {leaf.id!r} is already split", hint="split one of its leaves")
            here = leaf.region.ranges[split.dimension]
            if split.point not in here or split.point == here.min:
                raise InvalidInput(
                    f"{key_text(split.point)} does not split {here}", hint="choose a value inside the range"
                )
            left, right = split.child_ids
            if left == right or left in nodes or right in nodes:
                raise InvalidInput(f"partition ids {left} and {right} are not new and different", hint="choose new ids")
            parts = Range(here.min, split.point), Range(split.point, here.max)
            nodes[leaf.id] = Partition(leaf.id, leaf.region, leaf.parent_id, split.child_ids, split.dimension)
            for name, part in zip(split.child_ids, parts, strict=True):
                nodes[name] = Partition(name, leaf.region.narrowed(split.dimension, part), leaf.id)
        return PartitionTree(tuple(nodes.values()))

    def check(self) -> None:
        """Check that the two children of every split meet at one point and tile their parent.

        `InvalidInput` when they do not; the error names the first such partition.
        """
        for partition in self.partitions:
            if partition.is_leaf:
                continue
            left, right = (self[child] for child in partition.child_ids)
            ranges = [p.region.ranges[partition.dimension] for p in (left, right)]
            here = partition.region.ranges[partition.dimension]
            tiled = (ranges[0].min, ranges[1].max) == (here.min, here.max) and ranges[0].max == ranges[1].min
            others = all(
                p.region.narrowed(partition.dimension, here) == partition.region and p.parent_id == partition.id
                for p in (left, right)
            )
            if not (tiled and others and ranges[0].max is not None):
                raise InvalidInput(f"the children of partition {partition.id!r} do not tile it")

    @classmethod
    def from_split_points(cls, schema: Schema, points: Iterable[KeyValue], new_id: Callable[[], str]) -> PartitionTree:
        """Return a balanced tree whose leaves meet at `points` of the first row key; without points, a single leaf.

        Parameters
        ----------
        points
            Strictly increasing values of the first row key; n points give n + 1 leaves.
        new_id
            Makes the ids of all partitions except the root; the first 8 digits of each are used.
        """
        field = schema.row_keys[0]
        ordered = [check_key(field, point, what="split point") for point in points]
        for before, point in pairwise(ordered):
            if point <= before:  # type: ignore[operator]
                raise InvalidInput(
                    f"split point {key_text(point)} does not come after {key_text(before)}",
                    hint="give split points in increasing order, each once",
                )
        used, splits = {ROOT_ID}, list[PartitionSplit]()

        def halve(partition_id: str, points: Sequence[KeyValue]) -> None:
            if points:
                middle, children = len(points) // 2, (_unused_id(used, new_id), _unused_id(used, new_id))
                splits.append(PartitionSplit(partition_id, 0, points[middle], children))
                halve(children[0], points[:middle])
                halve(children[1], points[middle + 1 :])

        halve(ROOT_ID, ordered)
        return cls((Partition(ROOT_ID, Region.whole(schema)),)).with_splits(splits)


Bounds = tuple[KeyValue | None, KeyValue | None]
"""The minimum (included) and the maximum (excluded); None is unbounded."""

_WRITE_RANGES = (
    "write key=[min,max): [ ] include the bound, ( ) exclude it, leave it empty for no bound; "
    "quote values with commas or brackets"
)

_VALUE = r"""\s*(?:'((?:[^']|'')*)'|"((?:[^"]|"")*)"|([^\s'"\[\](),][^'"\[\](),]*?)?)\s*"""
"""Text that certainly needs no quotes."""
_RANGE = re.compile(rf"""\s*([^\s=,;]+)\s*=\s*(?:([\[(]){_VALUE},{_VALUE}([\])])|{_VALUE}(?=[\s,;]|$))\s*[,;]?\s*""")


def parse_region(schema: Schema, text: str) -> dict[str, Bounds]:
    """Read ranges of row keys, separated by blanks, commas or semicolons.

    `InvalidInput` when the text is not a region, a name is not a row key or occurs twice, a value has the wrong type,
    or a range is empty.

    Parameters
    ----------
    text
        ``key=[a,b)`` for each: square brackets include the bound, round brackets exclude it, and an empty end is
        unbounded; ``key=a`` is one value. Values are written like split points (byte arrays in base64, times as ISO
        text). A value that is empty, starts or ends with a blank, or has a comma or a bracket in it needs quotes; a
        quote inside is doubled.

    Returns
    -------
    dict
        For each row key in the text ``(min, max)``: min included, max excluded, None unbounded.
    """
    fields = {field.name: field for field in schema.row_keys}
    bounds: dict[str, Bounds] = {}
    at = 0
    while at < len(text.rstrip()):
        match = _RANGE.match(text, at)
        if match is None:
            raise InvalidInput(f"cannot read the region at {text[at:].strip()!r}", hint=_WRITE_RANGES)
        name, at = match[1], match.end()
        if name not in fields:
            raise InvalidInput(f"{name!r} is not a row key", hint=f"the row keys are {', '.join(fields)}")
        if name in bounds:
            raise InvalidInput(f"row key {name!r} has two ranges", hint="give each row key one range")
        bounds[name] = _bounds(fields[name], match)
    if not bounds:
        raise InvalidInput("the region is empty", hint=_WRITE_RANGES)
    return bounds


def _bounds(field: Field, match: re.Match[str]) -> Bounds:
    if match[2] is None:
        one = _value(field, match, 10)
        if one is None:
            raise InvalidInput(f"{field.name}= has no value", hint=_WRITE_RANGES)
        return one, key_after(field, one)
    low, high = _value(field, match, 3), _value(field, match, 6)
    if low is not None and match[2] == "(":
        low = key_after(field, low)
        if low is None:
            raise InvalidInput(f"the range {match[0].strip()!r} is empty", hint="its lower bound is the greatest value")
    if high is not None and match[9] == "]":
        high = key_after(field, high)
    if low is not None and high is not None and low >= high:  # type: ignore[operator]
        raise InvalidInput(f"the range {match[0].strip()!r} is empty", hint="write the lower bound first")
    return low, high


def _value(field: Field, match: re.Match[str], group: int) -> KeyValue | None:
    """Return the value of three groups: in single quotes, in double quotes, or bare; None when all are absent."""
    single, double, bare = match.group(group, group + 1, group + 2)
    if single is not None:
        return parse_key(field, single.replace("''", "'"), what="bound")
    if double is not None:
        return parse_key(field, double.replace('""', '"'), what="bound")
    return None if bare is None else parse_key(field, bare, what="bound")


# Estimate the partitions of a new table from a sample of its row keys, so that each leaf gets about as many rows.
#
# Sleeper's ``estimateSplitPoints`` takes quantiles of the first row key. Here a key that occurs so often that no value
# of the first row key divides its rows is divided by the next row key. Pure.

MOST_LEAVES = 10_000
"""The most leaves that a new table may be asked to have."""
_EVEN_ENOUGH = Fraction(5, 4)
"""A split is taken at an earlier row key, which most conditions are on, if no leaf gets more than this share."""


@dataclass(frozen=True, slots=True)
class _Cut:
    """A value that divides some keys in two."""

    # dimension, point: the row key's index and the value; smaller values go left
    dimension: int
    point: KeyValue
    left: int  # how many of the keys go left
    leaves: int  # how many of the leaves go left
    # how many rows each leaf gets on the fuller side, as a multiple of its even share: 1 when both sides are even
    share: Fraction


def even_tree(schema: Schema, keys: pa.Table, leaves: int, new_id: Callable[[], str]) -> PartitionTree:
    """Return partitions whose leaves hold about equal shares of some keys.

    `InvalidInput` when the number of leaves is out of range.

    Parameters
    ----------
    keys
        A sample of the row keys, a column for each, in any order.
    leaves
        The number of leaves, from 1 to `MOST_LEAVES`. There are fewer when the keys have too few different values.
    new_id
        As in `PartitionTree.from_split_points`.
    """
    if not 1 <= leaves <= MOST_LEAVES:
        raise InvalidInput(f"a table cannot be created with {leaves:,} leaves", hint=f"give 1 to {MOST_LEAVES:,}")
    tree = PartitionTree.from_split_points(schema, (), new_id)
    used: set[str] = {tree.root.id}
    splits: list[PartitionSplit] = []
    even = Fraction(max(1, keys.num_rows), leaves)
    names = [key.name for key in schema.row_keys]
    waiting = [(tree.root.id, keys.select(names).sort_by(names[0]).combine_chunks(), leaves)]
    while waiting:
        partition_id, part, count = waiting.pop(0)
        cut = _best_cut(part, count, even)
        if cut is None:
            continue
        children = _unused_id(used, new_id), _unused_id(used, new_id)
        splits.append(PartitionSplit(partition_id, cut.dimension, cut.point, children))
        left, right = _sides(part, cut)
        waiting += [(children[0], left, cut.leaves), (children[1], right, count - cut.leaves)]
    return tree.with_splits(splits)


def _sides(keys: pa.Table, cut: _Cut) -> tuple[pa.Table, pa.Table]:
    if cut.dimension == 0:
        return keys.slice(0, cut.left), keys.slice(cut.left)
    column = keys.column(cut.dimension)
    goes_left = pc.less(column, pa.scalar(cut.point, column.type))
    return keys.filter(goes_left).combine_chunks(), keys.filter(pc.invert(goes_left)).combine_chunks()


def _best_cut(keys: pa.Table, leaves: int, even: Fraction) -> _Cut | None:
    """Return the cut at the first row key that divides the keys evenly enough; the most even one when none does.

    The keys are sorted by the first row key.
    """
    best: _Cut | None = None
    if leaves < 2 or keys.num_rows < 2:
        return None
    for dimension in range(keys.num_columns):
        for cut in _cuts(keys.column(dimension), dimension, leaves, even):
            if best is None or cut.share < best.share:
                best = cut
        if best is not None and best.share <= _EVEN_ENOUGH:
            break
    return best


def _cuts(column: pa.ChunkedArray, dimension: int, leaves: int, even: Fraction) -> list[_Cut]:
    rows = len(column)
    column = column if dimension == 0 else column.sort()

    def value(place: int) -> KeyValue:
        return cast("KeyValue", column[place].as_py())

    middle, cuts = value(rows * (leaves // 2) // leaves), []
    for bisect in (bisect_left, bisect_right):
        left = bisect(range(rows), middle, key=value)
        if 0 < left < rows:
            share = min(max(round(leaves * left / rows), 1), leaves - 1)
            worst = max(Fraction(left, share), Fraction(rows - left, leaves - share))
            cuts.append(_Cut(dimension, value(left), left, share, worst / even))
    return cuts


def _unused_id(used: set[str], new_id: Callable[[], str]) -> str:
    while (name := new_id()[:8]) in used:  # 8 digits are few: among 100,000 partitions, one occurs twice
        pass
    used.add(name)
    return name
