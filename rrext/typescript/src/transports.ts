/** Ways to a server: a process of our own, a Unix socket, a WebSocket. */
import { spawn } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { request as httpRequest } from 'node:http';
import { request as httpsRequest } from 'node:https';
import { connect, type Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { RrextError, type Body } from './errors.js';
import { lengthFraming, webFraming, type Deliver, type Framing } from './framing.js';

/** How long a server may take to be there, each step of its end, and its last words, in milliseconds. */
export const [START, STOP, LAST_WORDS] = [30_000, 2_000, 1_000] as const;

/** `exited` is the end of our process. `fate` tells how the server ended, once its output has ended or a moment has passed.
 * `stop` ends the connection, and our process: by force if need be. */
export interface Transport {
  readonly readable: Readable;
  readonly writable: Writable;
  readonly exited?: Promise<unknown>;
  framing(deliver: Deliver, reply: (frame: Buffer) => void): Framing;
  fate(): Promise<[how: string, data: Body]>;
  stop(): Promise<unknown>;
}

/** Start a server, in a session of its own so that Ctrl-C in our terminal does not reach it. */
export async function launch(command: string[], options: Body, onStderr?: (piece: Buffer) => void): Promise<Transport> {
  const child = spawn(command[0]!, command.slice(1), { ...options, detached: true, stdio: 'pipe' });
  const exited = new Promise((resolve) => child.once('exit', resolve));
  const closed = new Promise((resolve) => child.once('close', resolve)); // after the end of all its output
  const within = (time: number, end: Promise<unknown>) =>
    Promise.race([end, new Promise((resolve) => setTimeout(resolve, time).unref())]);
  let stderr = Buffer.alloc(0);
  child.stderr.on('data', (piece: Buffer) => {
    stderr = Buffer.concat([stderr, piece]).subarray(-64 * 1024);
    onStderr?.(piece);
  });
  await once(child, 'spawn').catch((cause: Error) => {
    throw new RrextError('usage', `the server cannot be started: ${cause.message}`, undefined, {}, cause);
  });
  child.on('error', () => {}); // its end says enough
  const fate = async (): Promise<[string, Body]> => {
    await within(LAST_WORDS, closed);
    const { exitCode, signalCode } = child;
    const how = signalCode ? `was ended by ${signalCode}` : exitCode === null ? 'closed its output' : `exited with ${exitCode}`;
    return [how, { exit_code: exitCode, signal: signalCode, stderr: stderr.toString() }];
  };
  const stop = async () => {
    child.stdin.end();
    for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
      await within(STOP, exited);
      child.kill(signal); // does nothing to one that is gone
    }
    await exited;
  };
  return { readable: child.stdout, writable: child.stdin, framing: lengthFraming, exited, fate, stop };
}

function overSocket(socket: Socket, framing: Transport['framing']): Transport {
  const closed = new Promise((resolve) => socket.once('close', resolve));
  const fate = async () => ['closed the connection', { exit_code: null, stderr: '' }] as [string, Body];
  const stop = () => {
    socket.end(() => socket.destroy());
    setTimeout(() => socket.destroy(), STOP).unref();
    return closed;
  };
  return { readable: socket, writable: socket, framing, fate, stop };
}

/** Connect to the server at `unix:PATH`, `ws://HOST:PORT` or `wss://HOST:PORT`. */
export async function reach(address: string): Promise<Transport> {
  const refuse = (cause: Error) => {
    const hint = 'Check the address: `rrext serve` listens by --listen or --ws.';
    throw new RrextError('not_connected', `cannot connect to ${address}: ${cause.message}`, hint, {}, cause);
  };
  if (/^unix:./.test(address)) {
    const socket = connect({ path: address.slice('unix:'.length) });
    await once(socket, 'connect').catch(refuse);
    return overSocket(socket, lengthFraming);
  }
  const isWeb = /^wss?:\/\/[^@]+$/.test(address) && URL.canParse(address);
  if (!isWeb) throw new RrextError('usage', `"${address}" is no address: it is unix:PATH, ws://HOST:PORT or wss://HOST:PORT`);
  const url = new URL(address.replace(/^ws/, 'http'));
  if (!/^wss?:[^?#]*:\d+([/?#]|$)/.test(address)) url.port = '5565';
  if (url.pathname === '/') url.pathname = '/task/service';
  const nonce = randomBytes(16).toString('base64');
  const accept = createHash('sha1').update(`${nonce}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`).digest('base64');
  const headers = { Connection: 'Upgrade', Upgrade: 'websocket', 'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': nonce };
  const asked = (url.protocol === 'https:' ? httpsRequest : httpRequest)(url, { headers, agent: false });
  const timer = setTimeout(() => asked.destroy(new Error('nobody answers')), START);
  asked.on('response', (answer) => asked.destroy(new Error(`it answered ${answer.statusCode} and opened no WebSocket`)));
  asked.end();
  const [answer, socket, head] = await once(asked, 'upgrade').catch(refuse).finally(() => clearTimeout(timer));
  if (answer.headers['sec-websocket-accept'] !== accept) {
    socket.destroy();
    refuse(new Error('its answer is for another request'));
  }
  socket.setNoDelay(true);
  if (head.length > 0) socket.unshift(head);
  return overSocket(socket, webFraming);
}
