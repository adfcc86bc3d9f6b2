"""Changes one by one must give what the same changes would give to a plain list."""

from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.model.files import FileReferences
from tests.support.builders import KEYED, START, a_file

PARTITIONS = ["p", "q", "r"]
steps = st.lists(
    st.tuples(st.just("add"), st.lists(st.sampled_from(PARTITIONS), min_size=1, max_size=4))
    | st.tuples(st.just("remove"), st.sampled_from(PARTITIONS), st.integers(1, 4))
    | st.tuples(st.just("forget"), st.integers(1, 4))
    | st.tuples(st.just("reload")),
    max_size=30,
)


@given(steps)
def test_changes_add_up(steps):
    files, active, removed = FileReferences.none(KEYED), [], []
    for number, step in enumerate(steps, 1):
        when = START + timedelta(minutes=number)
        if step[0] == "add":
            new = [a_file(f"f{number}-{i}", partition, rows=i + 1) for i, partition in enumerate(step[1])]
            files = files.with_added(new, number, when)
            active += [(f.partition_id, f.filename, f.rows, number) for f in new]
        elif step[0] == "remove":
            taken = [a for a in active if a[0] == step[1]][: step[2]]
            files = files.with_removed([a[1] for a in taken], step[1], number, when)
            active = [a for a in active if a not in taken]
            removed += [(*a, number) for a in taken]
        elif step[0] == "forget":
            gone, removed = removed[: step[1]], removed[step[1] :]
            files = files.without([r[1] for r in gone])
        else:
            files = FileReferences.of(files.table.combine_chunks())
        columns = ["partition_id", "filename", "rows", "added_snapshot"]
        assert sorted(zip(*(files.active[c].to_pylist() for c in columns), strict=True)) == sorted(active)
        assert files.active["partition_id"].to_pylist() == sorted(a[0] for a in active)
        waiting = files.ready_for_gc
        columns.append("removed_snapshot")
        assert list(zip(*(waiting[c].to_pylist() for c in columns), strict=True)) == removed
        assert files.totals == (len(active), sum(a[2] for a in active), sum(10 * a[2] for a in active))
        assert files.removed_count == len(removed)
        for partition in PARTITIONS:
            assert sorted(f.filename for f in files.active_in([partition])) == sorted(
                a[1] for a in active if a[0] == partition
            )
        assert all(files.knows(name) for name in {a[1] for a in active} | {r[1] for r in removed})
        assert not files.knows("never")
