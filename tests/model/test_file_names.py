from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sleeper_nb.model.files import FileNames

names = st.text(max_size=40) | st.uuids().map(lambda u: f"data/partition_root/{u.hex}.parquet")


@given(st.lists(st.lists(names, max_size=9), max_size=9), st.lists(names, max_size=5))
def test_a_name_that_was_added_is_found(batches: list[list[str]], others: list[str]):
    known = FileNames()
    for batch in batches:
        known = known.with_names(batch)
    everything = {name for batch in batches for name in batch}
    assert all(known.may_hold([name]) for name in everything)
    assert known.may_hold([*others, *everything]) or not everything
    assert not known.may_hold([other for other in others if other not in everything])


def test_a_million_names_take_few_arrays():
    known = FileNames()
    for number in range(1000):
        known = known.with_names([f"{number:040d}.parquet"])
    assert len(known.arrays) <= 10
    assert sum(map(len, known.arrays)) + len(known.recent) == 1000
    assert all(known.may_hold([f"{number:040d}.parquet"]) for number in range(1000))
