/** What the time bar says about a version. */
import { bytes, moment, plural, utc, utcAgo } from "./format";
import { kindLabel } from "./kinds";
import type { Versions } from "./protocol";

/** For readers of the screen: "snapshot 12, 2026-11-01 10:02 UTC, ingest +28,135 rows". */
export function spoken(versions: Versions, index: number): string {
  const kind = (versions.kind[index] ?? "").replaceAll("_", " ");
  const change = versions.change[index] ? ` ${versions.change[index]}` : "";
  return `snapshot ${versions.number[index]}, ${utc(versions.committed[index] ?? 0)}, ${kind}${change}`;
}

export interface VersionWords {
  number: number;
  kind: string; // as the kernel names it
  did: string; // "Ingest +28,135 rows"
  message: string;
  size: string; // "336,776 rows, 12 MiB"
  when: string; // "1 Nov 10:02"
  exactly: string;
  savepoints: string[];
}

export function wordsOf(versions: Versions, index: number, now: number = Date.now()): VersionWords {
  const number = versions.number[index] ?? 0;
  const kind = versions.kind[index] ?? "";
  const size = versions.bytes[index] ?? 0;
  const at = versions.committed[index] ?? 0;
  const rows = plural(versions.rows[index] ?? 0, "row");
  return {
    number,
    kind,
    did: `${kindLabel(kind)} ${versions.change[index] ?? ""}`.trim(),
    message: versions.message[index] ?? "",
    size: size > 0 ? `${rows}, ${bytes(size)}` : rows,
    when: moment(at, now),
    exactly: utcAgo(at, now),
    savepoints: versions.savepoints[String(number)] ?? [],
  };
}
