"""How many requests a read sends to S3 and DynamoDB: one key, 20 keys, a range, and SQL by key; first and again.

``python -m benchmarks.s3_requests [--rows 1000000] [--leaves 16]``: a table in a bucket of a local server, behind a
proxy that counts. Each read runs three times: in a new session, again (warm), and warm with a key of another leaf.
"""

from __future__ import annotations

import argparse
import os
from collections import Counter

import pyarrow as pa

import sleeper_nb as sl
from benchmarks.compaction import SCHEMA
from benchmarks.lookups import key, rows
from tests.servers import once
from tests.servers.proxy import proxied

READS = {
    "scan, one key": lambda session, at: session.table("t").scan(keys=key(at)).to_arrow(),
    "scan, 20 keys of one leaf": lambda session, at: (
        session.table("t").scan(keys=[key(at + number) for number in range(20)]).to_arrow()
    ),
    "scan, 10,000 rows": lambda session, at: (
        session.table("t").scan(region={"key": (key(at), key(at + 10_000))}).to_arrow()
    ),
    "SQL, one key": lambda session, at: session.sql(
        "SELECT * FROM t WHERE key = :key", params={"key": key(at)}
    ).to_arrow(),
    "SQL, min and max of the key": lambda session, _: session.sql("SELECT min(key), max(key) FROM t").to_arrow(),
}


def requests_of(proxy, read, session, at):
    """Return how many requests a read sends to S3, by method, and to DynamoDB."""
    proxy.tell(None)
    read(session, at)
    counts = Counter("DynamoDB" if line.startswith("POST / ") or line == "POST /" else line.split()[0]
                     for line in proxy.requests)  # fmt: skip
    to_s3 = {name: count for name, count in counts.items() if name != "DynamoDB"}
    shown = ", ".join(f"{count} {name}" for name, count in sorted(to_s3.items()))
    return f"{sum(to_s3.values())} S3 ({shown or 'none'}), {counts['DynamoDB']} DynamoDB"


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--leaves", type=int, default=16)
    given = options.parse_args()
    each = given.rows // given.leaves
    server = once.moto()
    os.environ.update(server.environment())
    with proxied(server) as (proxy, behind):
        place = {"instance": "bench", "region": "us-east-1", "endpoint_url": behind.endpoint_url}
        bucket = f"s3://{server.new_bucket()}/warehouse"
        with sl.connect(bucket, **place) as session:
            parts = [rows(each, number * each) for number in range(given.leaves)]
            table = session.create_table("t", SCHEMA, [part["key"][0].as_py() for part in parts[1:]])
            table.ingest(pa.concat_tables(parts))
        for name, read in READS.items():
            with sl.connect(bucket, **place) as session:
                print(name)
                for when, at in (("first", 5), ("again", 5), ("another leaf", each + 5)):
                    print(f"  {when:14} {requests_of(proxy, read, session, at)}")


if __name__ == "__main__":
    main()
