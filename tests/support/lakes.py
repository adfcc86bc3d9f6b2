"""Tables of Delta and Iceberg as their libraries write them, and deletes that these do not write, made by hand."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyroaring import BitMap

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def delta_table(folder: Path, *commits: pa.Table, **options: Any) -> str:
    """Write a table with a version for each commit, and return its address."""
    for rows in commits:
        write_deltalake(folder, rows, mode="append", **options)
    return f"delta:{folder}"


def commit_delta(folder: Path, *actions: Mapping[str, Any]) -> None:
    """Add a version with some actions."""
    version = DeltaTable(folder).version() + 1
    lines = "\n".join(map(json.dumps, actions))
    (folder / "_delta_log" / f"{version:020d}.json").write_text(f"{lines}\n")


def protocol(*features: str) -> dict[str, Any]:
    features_of = {"readerFeatures": list(features), "writerFeatures": list(features)}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features_of}}


def delete_rows_of_delta(folder: Path, positions: Iterable[int]) -> None:
    """Add a version with a deletion vector of the only data file (PROTOCOL.md, "Deletion Vectors")."""
    (added,) = [each["add"] for each in _actions(folder) if "add" in each]
    rows = BitMap(positions)
    content = struct.pack("<iqi", 1681511377, 1, 0) + rows.serialize()
    vector = {
        "storageType": "i",
        "pathOrInlineDv": _z85(content),
        "sizeInBytes": len(content),
        "cardinality": len(rows),
    }
    commit_delta(
        folder,
        protocol("deletionVectors"),
        {"remove": {"path": added["path"], "deletionTimestamp": 0, "dataChange": True}},
        {"add": {**added, "deletionVector": vector}},
    )


def rename_column_of_delta(folder: Path, name: str, new: str) -> None:
    """Add a version in which a column has another name, by a mapping of names (PROTOCOL.md, "Column Mapping")."""
    (found,) = [each["metaData"] for each in _actions(folder) if "metaData" in each]
    schema = json.loads(found["schemaString"])
    for number, each in enumerate(schema["fields"], 1):
        each["metadata"] = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": each["name"]}
        each["name"] = new if each["name"] == name else each["name"]
    configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": str(len(schema["fields"]))}
    changed = {**found, "schemaString": json.dumps(schema), "configuration": configuration}
    commit_delta(folder, protocol("columnMapping"), {"metaData": changed})


def checkpoint_delta(folder: Path) -> None:
    """Put the log into a checkpoint of version 2, with its files in a sidecar (PROTOCOL.md, "V2 Spec")."""
    actions, log, version = _actions(folder), folder / "_delta_log", DeltaTable(folder).version()
    (changed,) = [each for each in actions if "metaData" in each]
    values = pa.map_(pa.string(), pa.string())
    kinds = {"path": pa.string(), "partitionValues": values, "size": pa.int64(), "modificationTime": pa.int64()}
    kind = pa.struct({**kinds, "dataChange": pa.bool_(), "stats": pa.string()})
    added = [{name: each["add"].get(name) for name in kind.names} for each in actions if "add" in each]
    for each in added:
        each["partitionValues"] = list(each["partitionValues"].items())
    (log / "_sidecars").mkdir()
    sidecar = log / "_sidecars" / "3a0d65cd-4056-49b8-937b-95f9e3ee90e5.parquet"
    pq.write_table(pa.table({"add": pa.array(added, kind)}), sidecar)
    named = {"path": sidecar.name, "sizeInBytes": sidecar.stat().st_size, "modificationTime": 0}
    lines = [{"checkpointMetadata": {"version": version}}, protocol("v2Checkpoint"), changed, {"sidecar": named}]
    checkpoint = log / f"{version:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    checkpoint.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    for number in range(version):
        (log / f"{number:020d}.json").unlink()


def _actions(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line)
        for file in sorted((folder / "_delta_log").glob("*.json"))
        for line in file.open()
        if line.strip()
    ]


def _z85(content: bytes) -> str:
    padded = content + bytes(-len(content) % 4)
    numbers = (int.from_bytes(padded[at : at + 4], "big") for at in range(0, len(padded), 4))
    return "".join(Z85[number // 85**place % 85] for number in numbers for place in (4, 3, 2, 1, 0))


def iceberg_table(folder: Path, *commits: pa.Table, schema: Any = None) -> Table:
    """Write a table with a snapshot for each commit; `schema` is that of the first if it is not given."""
    folder.mkdir(parents=True, exist_ok=True)
    catalog = SqlCatalog("c", uri=f"sqlite:///{quote(str(folder))}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("n")
    table = catalog.create_table("n.t", schema or commits[0].schema)
    for rows in commits:
        table.append(rows)
    return table


def address_of(table: Table) -> str:
    return f"iceberg:{table.location().removeprefix('file://')}"


def deletion_vector(path: Path, data_file: str, positions: Iterable[int]) -> None:
    """Write a Puffin file with the deletion vector of a data file (puffin-spec.md, "deletion-vector-v1 blob type")."""
    vector = b"\xd1\xd3\x39\x64" + struct.pack("<qi", 1, 0) + BitMap(positions).serialize()
    blob = struct.pack(">i", len(vector)) + vector + struct.pack(">I", zlib.crc32(vector))
    described = {
        "type": "deletion-vector-v1", "fields": [2147483645], "snapshot-id": -1, "sequence-number": -1, "offset": 4,
        "length": len(blob), "properties": {"referenced-data-file": data_file, "cardinality": "1"},
    }  # fmt: skip
    footer = json.dumps({"blobs": [described]}).encode()
    content = b"PFA1" + blob + b"PFA1" + footer + struct.pack("<i", len(footer)) + b"\0\0\0\0" + b"PFA1"
    path.write_bytes(content)


class _Deletes(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES


def delete_rows_of_iceberg(table: Table, deleted: Mapping[int, Sequence[int]], *, equality: bool = False) -> None:
    """Add a snapshot with a file of deleted positions, by the number of the data file.

    It is made by the specification's section "Position Delete Files". With `equality`, it is said to be one of values.
    """
    files = [task.file.file_path for task in table.scan().plan_files()]
    pairs = sorted((files[number], position) for number, positions in deleted.items() for position in positions)
    place = f"{table.location()}/data/deletes.parquet"
    pq.write_table(
        pa.table({"file_path": [path for path, _ in pairs], "pos": pa.array([at for _, at in pairs], pa.int64())}),
        place.removeprefix("file://"),
    )
    file = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES if equality else DataFileContent.POSITION_DELETES,
        file_path=place,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(pairs),
        file_size_in_bytes=1,
        equality_ids=[1] if equality else None,
    )
    file.spec_id = table.spec().spec_id
    _commit_deletes(table, file)


def _commit_deletes(table: Table, file: DataFile) -> None:
    metadata, before = table.metadata, table.metadata.current_snapshot()
    assert before is not None
    new, sequence = before.snapshot_id + 1, metadata.last_sequence_number + 1
    folder = f"{table.location()}/metadata"
    manifest = table.io.new_output(f"{folder}/deletes.avro")
    with _Deletes(table.spec(), table.schema(), manifest, new, "null") as writer:
        writer.add(ManifestEntry.from_args(snapshot_id=new, data_file=file))
    listed = f"{folder}/snap-deletes.avro"
    with write_manifest_list(2, table.io.new_output(listed), new, before.snapshot_id, sequence, "null") as manifests:
        manifests.add_manifests([*before.manifests(table.io), writer.to_manifest_file()])
    found = json.loads(metadata.model_dump_json(by_alias=True))
    snapshot = {**found["snapshots"][-1], "snapshot-id": new, "parent-snapshot-id": before.snapshot_id}
    snapshot |= {"sequence-number": sequence, "manifest-list": listed, "summary": {"operation": "delete"}}
    found["snapshots"].append(snapshot)
    found |= {"last-sequence-number": sequence, "current-snapshot-id": new}
    found["refs"]["main"]["snapshot-id"] = new
    (Path(folder.removeprefix("file://")) / "00099-by-hand.metadata.json").write_text(json.dumps(found))
