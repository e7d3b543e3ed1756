/** One connection: requests out, each answer to the call that waits for it, progress and chunks to its callback. */
import { setMaxListeners } from 'node:events';
import { RrextError, type Body } from './errors.js';
import { collector, type Framing } from './framing.js';
import { decode, encode } from './json.js';
import type { Transport } from './transports.js';

const MARGIN = 1; // seconds that the client waits longer than the server, so that the server's own `tool_timeout` wins
/** Bytes of events that wait for a callback: before reading pauses, and before the call is given up. */
const [BACKLOG, MAX_BACKLOG] = [8 * 1024 * 1024, 64 * 1024 * 1024];

/** `signal` cancels the call, in the server too: the promise is rejected with its reason. `timeout` is for the whole call. */
export type CallOptions = { signal?: AbortSignal | undefined; timeout?: number | undefined };

/** `tail` are raw bytes of the request. A limited call begins when the server takes one more. `onLate` gets the body of a
 * success that came after the caller had left. */
export type CallSettings = CallOptions & { tail?: Uint8Array | undefined; isLimited?: boolean } & Callbacks;
type Callbacks = { onEvent?: (event: string, body: Body) => unknown; onLate?: (body: Body) => void };

/** `backlog` are bytes that wait for the callback; `told` resolves when it has returned. `settle` gives the caller its answer,
 * or an error, and is false if that was done before. */
type Call = { id: number; settings: CallSettings; frame: Uint8Array[]; backlog: number; told: Promise<void>; settle: Settle };
type Settle = (body: Body | undefined, error?: unknown) => boolean;

export class Connection {
  /** How many limited calls may begin now. */
  free = Infinity;
  readonly #framing: Framing;
  readonly #waiting = new Set<Call>(); // calls with a caller
  readonly #line = new Set<Call>(); // those that must not begin yet
  readonly #sent = new Map<number, Call>();
  readonly #queue: Uint8Array[][] = []; // frames of which no byte was written
  #count = 0;
  #isEnding = false;
  #loss: (() => RrextError) | undefined;

  constructor(readonly transport: Transport) {
    const { readable, writable, exited } = transport;
    this.#framing = transport.framing((json, tail) => this.#receive(json, tail), (frame) => writable.write(frame));
    const collect = collector(this.#framing.take);
    readable.on('data', (piece: Buffer) => {
      try {
        collect(piece);
      } catch (error) {
        readable.removeAllListeners('data').resume();
        void this.#lose(error as Error);
      }
    });
    for (const event of ['end', 'close', 'error']) for (const end of [readable, writable]) end.on(event, () => this.#lose());
    writable.on('drain', () => this.#flush());
    void exited?.then(() => this.#lose());
  }

  /** Send a request, and return the body of its answer. */
  call(command: string, args: Body, settings: CallSettings = {}): Promise<Body> {
    const { signal, timeout = 0, tail } = settings;
    return new Promise((resolve, reject) => {
      if (this.#loss) return reject(this.#loss());
      if (signal?.aborted) return reject(signal.reason);
      const frame = this.#frame(command, args, tail);
      const leave = () => this.#abandon(call, signal!.reason);
      const late = new RrextError('tool_timeout', `"${args['tool'] ?? command}" did not finish within ${timeout} s`);
      const delay = Math.min((timeout + MARGIN) * 1000, 2 ** 31 - 1); // the most that setTimeout takes
      const timer = timeout > 0 ? setTimeout(() => this.#abandon(call, late), delay) : undefined;
      if (signal) setMaxListeners(0, signal); // thousands of calls may have the same one
      signal?.addEventListener('abort', leave);
      const settle = (body: Body | undefined, error?: unknown) => {
        clearTimeout(timer);
        signal?.removeEventListener('abort', leave);
        body ? resolve(body) : reject(error);
        return this.#waiting.delete(call);
      };
      const call: Call = { id: this.#count, settings, frame, backlog: 0, told: Promise.resolve(), settle };
      this.#waiting.add(call);
      this.#begin(call);
      this.#breathe();
    });
  }

  /** Send a request whose answer nobody needs, before those that wait. */
  post(command: string, args: Body): void {
    this.#queue.unshift(this.#frame(command, args));
    this.#flush();
  }

  /** End the connection. Calls that wait fail, and so do all later ones. */
  async close(): Promise<void> {
    this.#fail(() => new RrextError('not_connected', 'The client is closed.'));
    await this.transport.stop();
  }

  #begin(call: Call): void {
    if (call.settings.isLimited && this.free <= 0) return void this.#line.add(call);
    if (call.settings.isLimited) this.free--;
    this.#sent.set(call.id, call);
    this.#queue.push(call.frame);
    this.#flush();
  }

  /** The server is done with a call: the next one may begin. */
  #release(call: Call): void {
    this.#sent.delete(call.id);
    if (call.settings.isLimited) this.free++;
    const [next] = this.free > 0 ? this.#line : [];
    if (next && this.#line.delete(next)) this.#begin(next);
  }

  /** The caller waits no longer: take the request back if none of it is written, else cancel it in the server. */
  #abandon(call: Call, reason: unknown): void {
    if (!call.settle(undefined, reason)) return;
    const at = this.#queue.indexOf(call.frame);
    if (at >= 0) this.#queue.splice(at, 1);
    if (at >= 0) this.#release(call);
    else if (!this.#line.delete(call) && this.#sent.has(call.id)) this.post('cancel', { requestId: call.id });
    this.#breathe();
  }

  #frame(command: string, args: Body, tail?: Uint8Array): Uint8Array[] {
    return this.#framing.encode(encode({ type: 'request', seq: ++this.#count, command, arguments: args }), tail);
  }

  /** Write what waits, as long as the peer takes it. */
  #flush(): void {
    const { writable } = this.transport;
    while (this.#queue.length > 0 && writable.writable && !writable.writableNeedDrain) {
      for (const piece of this.#queue.shift()!) writable.write(piece);
    }
  }

  #receive(json: Buffer, tail?: Buffer): void {
    const { type, request_seq, success, body = {}, event, code = 'internal', message, hint, data } = decode(json);
    if (tail) body.data = tail;
    const call = this.#sent.get(request_seq ?? body.request);
    if (!call) return;
    if (type === 'event') return this.#told(call, event, body, json.length + (tail?.length ?? 0));
    this.#release(call);
    if (success && !this.#waiting.has(call)) call.settings.onLate?.(body);
    const error = success ? undefined : new RrextError(code, message, hint, data);
    void call.told.then(() => call.settle(success ? body : undefined, error) && this.#breathe());
  }

  /** Tell the callback, once it has returned from what it was told before; the answer waits for that too. */
  #told(call: Call, event: string, body: Body, size: number): void {
    const tell = async () => {
      if (this.#waiting.has(call)) await call.settings.onEvent?.(event, body);
      call.backlog -= size;
      this.#breathe();
    };
    call.told = call.told.then(tell).catch((error) => this.#abandon(call, error));
    call.backlog += size;
    if (call.backlog > BACKLOG) this.#breathe();
    if (call.backlog > MAX_BACKLOG) this.#abandon(call, new RrextError('usage', 'a callback is too slow for what it is told'));
  }

  /** Read on, unless the callbacks of all calls are behind: then a pause delays nobody else. */
  #breathe(): void {
    const { readable } = this.transport;
    let areBehind = false;
    for (const call of this.#waiting) if (!(areBehind = call.backlog > BACKLOG)) break;
    if (areBehind) readable.pause();
    else if (readable.isPaused()) readable.resume();
  }

  /** The server is gone, or `defect` made its bytes unreadable. */
  async #lose(defect?: Error): Promise<void> {
    if (this.#loss || this.#isEnding) return;
    this.#isEnding = true;
    const stopped = this.transport.stop();
    const [how, data] = await this.transport.fate();
    const why = defect ? `sent what cannot be read: ${defect.message}` : how;
    const said = data['stderr'].trimEnd().slice(-2000);
    const text = `The server ${why}.${said && ` It wrote:\n${said}`}`;
    this.#fail(() => new RrextError('server_exited', text, undefined, data, defect));
    await stopped;
  }

  #fail(why: () => RrextError): void {
    this.#loss ??= why;
    for (const call of this.#waiting) call.settle(undefined, this.#loss());
    this.#queue.length = 0;
  }
}
