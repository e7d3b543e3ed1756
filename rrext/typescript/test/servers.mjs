/** Servers of the tests: real ones, of the pipeline and the nodes in `tests/faces`, and scripts that misbehave. */
import { spawn } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { Client } from '../dist/index.js';

const FACES = process.env.RREXT_FACES ?? new URL('../../../tests/faces', import.meta.url).pathname;
/** `rrext serve`, or what stands in for it here. */
const SERVE = JSON.parse(process.env.RREXT_SERVE ?? '["rrext", "serve"]');
const NODES = ['face_nodes.py', 'face_fates.py', 'face_lanes.py'].flatMap((name) => ['--nodes', join(FACES, name)]);
const PIPELINE = join(FACES, 'face.pipe');

/** All clients, to be closed at the end: one that is left keeps the tests from ending. */
export const made = [];
const kept = (client) => (made.push(client), client);

/** The address of a server that listens as `where` says, and what ends it. */
async function listening(...where) {
  const options = ['--parent', `${process.pid}`, ...where, ...NODES];
  const server = spawn(SERVE[0], [...SERVE.slice(1), ...options, PIPELINE], { stdio: ['ignore', 'inherit', 'pipe'] });
  const exited = new Promise((resolve) => server.once('exit', resolve));
  const kill = (signal) => (server.kill(signal), exited);
  for await (const line of createInterface(server.stderr)) {
    const address = /listening at (\S+)/.exec(line)?.[1];
    if (address !== undefined) return { address, kill };
  }
  throw new Error('the server does not listen');
}

/** A client of a server of its own, which tells its number before it begins. */
async function spawned(...args) {
  let said = '';
  const onStderr = (piece) => (said += piece);
  const command = ['sh', '-c', 'echo $$ >&2; exec "$@"', 'sh', ...SERVE];
  const client = kept(await Client.spawn(PIPELINE, { command, args: [...NODES, ...args], onStderr }));
  return { client, kill: (signal) => process.kill(Number(said.split('\n')[0]), signal) };
}

async function connected(...where) {
  const { address, kill } = await listening(...where);
  const again = async () => kept(await Client.connect(address));
  return { client: await again(), kill, again };
}

/** Each way to a server: a client, `kill` to send its server a signal, and `again` to connect once more. */
export const WAYS = {
  stdio: spawned,
  unix: () => connected('--listen', `unix:${join(mkdtempSync(join(tmpdir(), 'rrext-')), 's')}`),
  ws: () => connected('--ws', '127.0.0.1:0', '--trust-clients', '--isolation', 'none'),
};

/** A client of a program that is no real server: the text of a module, which may use these functions. */
export const scripted = async (script) =>
  kept(await Client.spawn([], { command: [process.execPath, '--input-type=module', '-e', `${TOOLS}${script}`] }));

const TOOLS = `
const say = (text) => new Promise((resolve) => process.stdout.write(text, resolve));
const message = (body) => 'Content-Length: ' + Buffer.byteLength(body) + '\\r\\n\\r\\n' + body;
const answer = (seq, body = { seq }) => message(JSON.stringify({ type: 'response', request_seq: seq, success: true, body }));
const hear = () => new Promise((resolve) => process.stdin.once('data', resolve));
const serve = (handle, held = Buffer.alloc(0)) => process.stdin.on('data', (piece) => {
  held = Buffer.concat([held, piece]);
  for (let end; (end = held.indexOf('\\r\\n\\r\\n') + 4) > 3; ) {
    const size = Number(held.toString('latin1', 0, end).match(/\\d+/)[0]);
    if (held.length < end + size) return;
    const request = JSON.parse(held.subarray(end, end + size));
    held = held.subarray(end + size);
    handle(request, (body) => say(answer(request.seq, body)));
  }
});
`;
