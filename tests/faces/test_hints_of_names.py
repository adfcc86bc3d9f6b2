"""A name that is not there: the hint lists what there is, and proposes nothing that was not meant."""

from __future__ import annotations

import pytest

TEXT = "a text goes in single quotes: 'athens'"
NAMES = [
    ("sql SELECT city, price FROM trips", "the columns are city, day, fare"),
    ("sql SELECT sum(price) FROM trips", "the columns are city, day, fare"),
    ("sql SELECT city FROM trips ORDER BY price", "the columns are city, day, fare"),
    ("sql SELECT city FROM trips WHERE price > 1", "the columns are city, day, fare"),
    ("sql SELECT city FROM trips WHERE city = athens", "the columns are city, day, fare; " + TEXT),
    ("sql SELECT city FROM trips WHERE city IN ('x', athens)", "the columns are city, day, fare; " + TEXT),
    ("sql SELECT city FROM trips WHERE city LIKE athens", "the columns are city, day, fare; " + TEXT),
    ("sql SELECT price FROM less", "the columns are city, day, tip"),
    ("sql SELECT cty FROM trips", 'did you mean "city"?'),
    ("sql SELECT trips.price FROM trips", "the columns of trips are city, day, fare"),
    ("sql SELECT x.fare FROM less x", "the columns of x are city, day, tip"),
    ("sql SELECT x.dy FROM less x", "did you mean 'day'?"),
    ("sql SELECT * FROM trips TIMESTAMP AS OF yesterday", "write '2026-11-01 10:00:00'; without a zone it is UTC"),
    ("sql SELECT * FROM trips LIMIT 1 VERSION AS OF 2",
     "put VERSION AS OF after the name of the table: FROM t VERSION AS OF …"),
    ("sql MERGE INTO trips t USING less s ON t.city = s.city WHEN MATCHED THEN UPDATE SET fare = s.fare",
     "the columns of s are city, day, tip"),
    ("sql MERGE INTO trips USING less ON trips.city = less.city WHEN MATCHED THEN UPDATE SET fare = less.fare",
     "the columns of less are city, day, tip"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "says"), NAMES)
def test_a_name_that_is_no_column_lists_the_columns(refused, line, says):
    assert refused(line)[1].startswith(says)


def test_a_column_of_a_query_in_a_merge_is_not_said_to_be_meant_by_itself(refused):
    query = "(SELECT 'rome' AS city)"
    merge = f"sql MERGE INTO trips t USING {query} s ON t.city = s.city WHEN MATCHED THEN UPDATE SET fare = s.fare"
    assert "did you mean 'fare'" not in refused(merge)[1]
