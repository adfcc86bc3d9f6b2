/** What the time bar, the history and the changes say about a version. */
import { bytes, label, moment, plural, utc, utcAgo } from "./format";
import type { Versions } from "./protocol";

/** For readers of the screen: "snapshot 12, 2026-11-01 10:02 UTC, ingest +28,135 rows". */
export function spoken(versions: Versions, index: number): string {
  const kind = (versions.kind[index] ?? "").replaceAll("_", " ");
  const change = versions.change[index] ? ` ${versions.change[index]}` : "";
  return `snapshot ${versions.number[index]}, ${utc(versions.committed[index] ?? 0)}, ${kind}${change}`;
}

export interface VersionWords {
  number: number;
  committed: number;
  kind: string; // as the kernel names it
  label: string; // "Ingest"
  change: string; // "+28,135 rows"
  did: string; // "Ingest +28,135 rows"
  message: string;
  rows: number;
  size: string; // "336,776 rows, 12 MiB"
  when: string; // "1 Nov 10:02"
  exactly: string;
  savepoints: string[];
}

export function wordsOf(versions: Versions, index: number, now: number = Date.now()): VersionWords {
  const number = versions.number[index] ?? 0;
  const kind = versions.kind[index] ?? "";
  const change = versions.change[index] ?? "";
  const size = versions.bytes[index] ?? 0;
  const committed = versions.committed[index] ?? 0;
  const rows = versions.rows[index] ?? 0;
  const name = label(kind.replaceAll("-", "_"));
  return {
    number,
    committed,
    kind,
    label: name,
    change,
    did: `${name} ${change}`.trim(),
    message: versions.message[index] ?? "",
    rows,
    size: size > 0 ? `${plural(rows, "row")}, ${bytes(size)}` : plural(rows, "row"),
    when: moment(committed, now),
    exactly: utcAgo(committed, now),
    savepoints: versions.savepoints[String(number)] ?? [],
  };
}
