// A lock as services write it themselves, `SET key owner NX PX`, with the client `redis` of Node,
// under plans/redis-restart.toml: the server forgets it with its memory, or keeps it on its disk.
//
//     lockstorm serve --plan plans/redis-restart.toml --ports ports.json
//     node node_redis.mjs ports.json
import { readFileSync } from 'node:fs';
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { createClient } from 'redis';

const ports = JSON.parse(readFileSync(process.argv[2], 'utf8'));
const LEASE_MS = 4_000;

async function client(app) {
  const made = createClient({ url: `redis://${ports[app]['redis-1']}` });
  made.on('error', () => {}); // It connects again by itself.
  await made.connect();
  return made;
}

async function take(connection, app) {
  for (let times = 0; times < 600; times += 1) {
    const set = connection.set('lock:stock', randomUUID(), { condition: 'NX', expiration: { type: 'PX', value: LEASE_MS } });
    if ((await set.catch(() => null)) === 'OK') {
      console.log(`${app} has the lock`);
      return;
    }
    await sleep(50);
  }
  throw new Error(`${app} never got it`);
}

const [one, two] = [await client('app-1'), await client('app-2')];
await take(one, 'app-1');
await sleep(1_000); // The server dies meanwhile.
await take(two, 'app-2');
one.destroy();
two.destroy();
