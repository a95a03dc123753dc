// The data of a page, as sim/src/report/html/document.rs writes them. Times are whole µs of
// simulated time; tokens and seeds are text.

/** A text in both languages; without `zh` it is the same in Chinese. */
export interface Both { en: string; zh?: string }

export interface Lane {
  name: string;
  role: "client" | "server" | "sentinel" | "resource" | "other";
  /** From when on it is a master (true) or follows one. */
  masters: [number, boolean][];
  /** From when to when it was down; null is to the end. */
  downs: [number, number | null][];
  /** From when on its replication is how far, bytes. */
  offsets: [number, number][];
  /** From when on its wall clock is how far ahead, µs, at what rate, ppm. */
  clocks: [number, number, number][];
}

export interface Bars {
  owner: string; key: string; lane: number; token: string | null;
  promise: [number, number | null][];
  belief: [number, number | null] | null;
  effects: [number, boolean][];
  party: boolean;
}

export interface FaultBand {
  fault: number; family: string; word: Both; targets: number[]; text: Both;
  from: number; to: number | null; touched: number | null; how: Both | null;
  blamed: boolean; event: number;
}

/** An event: `i` its id, `t` when, `n` its lane, `c` its causes, `k` whether it led to the
 * finding, `x` how many it stands for, until `u`; the rest as in docs/history.md. */
export interface Event {
  i: number; t: number; n?: number; c?: number[]; k?: 1; x?: number; u?: number;
  what: string;
  [field: string]: unknown;
}

export interface Step {
  event: number | null; at: number; who: Both; what: Both; outcome: Both | null;
  mark: "" | "fault" | "wrong" | "held"; remark: Both | null;
}

export interface Found {
  kind: Both; violation: boolean; sentence: Both; parted: Both;
  from: number; to: number; events: number[];
}

export interface Side { at: number; what: Both; in_both: boolean }

/** A way on which the share rises, or seems to: from a step on (`null` is the start) and from
 * a later one on; whether its counts were drawn anew, and below how many draws nothing would tell. */
export interface Way { from: number | null; to: number | null; before: number; after: number; calm: boolean; anew: boolean; least: number | null }

export interface Cliff {
  draws: number;
  points: { step: number | null; event: number | null; at: number; stormy: number; calm: number }[];
  decisive: { event: number; at: number; what: Both; before: number; after: number; calm: boolean } | null;
  gradual: Way | null;
  not_decided: Way | null;
  measures: { flags: string; violations: number; safe: number; inconclusive: number }[];
  nearest: Both; failing: Side | null; passing: Side | null;
}

export interface Run {
  seed: string | null; scenario: string | null; lock: string | null; fence: string;
  engine: string; trace: string; file: string | null; reproduce: string | null;
  capsule: string | null; plan: string | null; confirmation: Both | null; repeated: Both | null;
  ended: number; steps_of_redis: boolean; quorum: number;
}

export interface Document {
  schema: number; lockstorm: string; verdict: string; verdict_word: Both;
  kinds: { word: Both; count: number; violation: boolean }[];
  sentence: Both | null; effect: Both | null; why: Both | null; saved: Both | null; tries: Both[];
  run: Run;
  subject: { kind: Both; kind_id: string; key: string; owners: string[]; from: number; to: number; evidence: number[] } | null;
  missing: { stuck: string | null; goals: Both[]; failed: string[]; undecided: number; inert: Both[]; handovers: number; touched: number };
  story: Step[]; findings: Found[]; findings_left_out: number;
  lanes: Lane[]; bars: Bars[]; bars_left_out: number; faults: FaultBand[];
  events: Event[]; events_in_all: number; cliff: Cliff | null;
}

const SCHEMA = 1;

/** Reads the data out of the page. */
export function read(): Document {
  const element = document.getElementById("data");
  const data = JSON.parse(element?.textContent ?? "") as Document;
  if (data.schema !== SCHEMA) throw new Error(`data of schema ${data.schema}, not ${SCHEMA}`);
  return data;
}
