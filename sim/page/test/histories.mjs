// Writes two histories that a page must bear: `hostile.ndjson`, whose names try to be markup,
// and `large.ndjson` of 100,000 events. `lockstorm report` makes pages of them.

import { writeFileSync } from "node:fs";
import { join } from "node:path";

const folder = process.argv[2];
if (!folder) throw new Error("name a folder");

/** Two are granted one lock at once; `more` refusals in between. */
function history(client, key, more) {
  const lines = [{ format: "lockstorm-history", schema: 1 }];
  const say = (at_us, node, what, fields) => lines.push({ at_us, node, what, ...fields });
  const attempt = (name) => ({ client: name, ordinal: 1 });
  const granted = { outcome: "granted", token: null, lease_us: 5_000_000_000, margin_us: 0 };
  say(10, client, "acquire-invoked", { attempt: attempt(client), key });
  say(20, "redis-1", "record-set", { key, owner: `${client}/1`, lease_us: 5_000_000_000 });
  say(30, client, "acquire-returned", { attempt: attempt(client), key, ...granted });
  say(40, "redis-1", "fault-began", { fault: 0, family: "process-crash", targets: ["redis-1", client], description: client });
  for (let n = 0; n < more; n += 1) say(50 + 100 * n, "redis-1", "record-refused", { key, owner: `app-9/${(n % 40_000) + 1}`, held_by: `${client}/1` });
  const late = 100 * more + 1_000;
  say(late, "app-2", "acquire-invoked", { attempt: attempt("app-2"), key });
  say(late + 1_000, "redis-2", "record-set", { key, owner: "app-2/1", lease_us: 5_000_000_000 });
  say(late + 2_000, "app-2", "acquire-returned", { attempt: attempt("app-2"), key, ...granted });
  say(late + 3_000, "stock-1", "effect", { owner: `${client}/1`, operation: "sell", unit: 1, order: client, accepted: true });
  say(late + 4_000, "stock-1", "effect", { owner: "app-2/1", operation: "sell", unit: 1, order: key, accepted: false, refusal: client });
  return lines.map((line) => `${JSON.stringify(line)}\n`).join("");
}

const hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\u202e%DATA%\u0000'\"&amp;javascript:alert(3)";
writeFileSync(join(folder, "hostile.ndjson"), history(hostile, `${hostile}${"🔒".repeat(3_000)}`, 3));
writeFileSync(join(folder, "large.ndjson"), history("app-1", "lock:a", 100_000));
