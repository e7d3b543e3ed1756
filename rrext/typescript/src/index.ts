/** A client of rrext servers; `protocol.md` of rrext has each command. Times are seconds. */
import { Connection, type CallOptions } from './connection.js';
import { RrextError, type Body, type ErrorCode } from './errors.js';
import { launch, reach, START } from './transports.js';

export { RrextError, type Body, type CallOptions, type ErrorCode };

const LIMITS = { maxInflight: 4096, maxFrame: 16 * 1024 * 1024, drain: 10 }; // of a server that tells none
const ENVELOPE = 64 * 1024; // room in a frame for everything beside a write's data
const ROWS = 25_000; // read at most where a node refuses `execute`
const PASSED_ON = /^(HOME|LANG|LANGUAGE|LOGNAME|PATH|PYTHONPATH|SHELL|TERM|TMPDIR|TZ|USER|VIRTUAL_ENV|XDG_CONFIG_HOME|(LC|ROCKETRIDE)_.*)$/;

/** Whose calls these are: the user, the space, and what servers outside are given. */
export type Context = { userId?: string; spaceId?: string; authorization?: string };
/** `key` is for a server with keys. */
export type ConnectOptions = { context?: Context; key?: string };
/** `args` are further arguments of `rrext serve`, as `['--nodes', 'weather.py']`; `command` stands in for it. `env` are
 * variables of the server, beside ours of paths, user, language and time zone, and `ROCKETRIDE_*`. */
export type SpawnOptions = Launch & { onStderr?: (piece: Buffer) => void; context?: Context };
type Launch = { args?: readonly string[]; command?: readonly string[]; cwd?: string; env?: Readonly<Record<string, string>> };
/** The node and the pipeline of a call: by default the only ones. */
export type WhichNode = CallOptions & { nodeId?: string; token?: string };
export type WhichTools = { nodeId?: string; token?: string; tool?: string; format?: string };
/** With `unique`, several nodes with the tool are an error; else the first one answers. `onProgress` gets value, total and
 * message, `onChunk` each chunk of a generator tool. They may be async; the result comes when they are done. */
export type ToolOptions = WhichNode & ToolInput & { onProgress?: OnProgress; onChunk?: (chunk: any) => unknown };
type ToolInput = { tool: string; input?: Body; unique?: boolean; context?: Context; meta?: Body };
type OnProgress = (progress: number, total?: number, message?: string) => unknown;
/** `params` are a list for the `$1…$n` of SQL, an object for the `$name` of Cypher; the tool `begin` gives a `sessionId`. */
export type QueryOptions = WhichNode & QueryInput;
type QueryInput = { sql: string; params?: readonly unknown[] | Body; sessionId?: string; rowMode?: 'object' | 'array' };
/** `mimeType` chooses the lane, as `text/plain` or `lane/text`; without it the data are raw bytes. `object` describes the
 * object: `name`, `path`, `url`, `objectId`, `size`, `metadata`. `source` is where it enters, if there are several. */
export type PipeOptions = CallOptions & WhichSource & { mimeType?: string; object?: Body; context?: Context };
type WhichSource = { source?: string; token?: string };

async function callTool(connection: Connection, options: ToolOptions, pipe?: Body): Promise<any> {
  const { tool, nodeId = '', input = {}, meta, onProgress, onChunk, signal, ...more } = options;
  const wanted = { progress: onProgress && true, stream: onChunk && true };
  const args: Body = { subcommand: 'tool', tool, nodeId, input, _meta: meta, ...wanted, ...more, ...pipe };
  const onEvent = (event: string, { progress, total, message, chunk, data = chunk }: Body) =>
    event === 'rrext_chunk' ? onChunk?.(data) : onProgress?.(progress, total, message);
  const settings = { signal, timeout: more.timeout, isLimited: pipe === undefined, onEvent };
  const body = await connection.call('rrext_process', args, settings);
  return 'result' in body ? body.result : body.data;
}

/** A connection to a server, which keeps this process alive until `close`. Failures are `RrextError`s. */
export class Client {
  #limits = LIMITS;
  /** The body of the answer to `initialize`. */
  server: Body = {};
  /** The tools of database nodes: `query` gives `{rows, affected_rows}`, `dialect` the language, as `postgres` or `sqlite`. */
  readonly database = {
    query: (options: QueryOptions): Promise<Body> => this.#query(options),
    dialect: async (which?: WhichNode) => (await this.tool({ ...which, tool: 'dialect', unique: true })).dialect as string,
  };
  /** The tools that may be called now: `{nodeId, name, description, inputSchema, …}` each. */
  readonly tools = async (which: WhichTools = {}): Promise<Body[]> => (await this.request('tools', which)).tools;
  readonly [Symbol.asyncDispose] = () => this.close();

  private constructor(private readonly connection: Connection) {}

  /** A client of a server of its own, which ends with it. A bad pipeline is `invalid_pipeline`. */
  static async spawn(files: string | readonly string[], options: SpawnOptions = {}): Promise<Client> {
    const { command = ['rrext', 'serve', '--parent', `${process.pid}`], args = [], cwd, env, onStderr } = options;
    const operands = [files].flat().map((file) => (file.startsWith('-') ? `./${file}` : file));
    const ours = Object.fromEntries(Object.entries(process.env).filter(([name]) => PASSED_ON.test(name)));
    const transport = await launch([...command, ...args, ...operands], { env: { ...ours, ...env }, cwd }, onStderr);
    return new Client(new Connection(transport)).#start(options);
  }

  /** A client of the server at `unix:PATH`, `ws://HOST:PORT` or `wss://HOST:PORT`, which goes on afterwards. */
  static async connect(address: string, options: ConnectOptions = {}): Promise<Client> {
    return new Client(new Connection(await reach(address))).#start(options);
  }

  async #start({ key, context }: ConnectOptions): Promise<Client> {
    const [patience, introduction] = [{ timeout: START / 1000 }, { clientName: 'rrext-client', clientVersion: '0.1.0' }];
    const fail = (error: unknown) => this.connection.close().then(() => Promise.reject(error));
    if (key !== undefined) await this.request('auth', { auth: key, ...introduction }, patience).catch(fail);
    this.server = await this.request('initialize', { ...introduction, rawTail: true, context }, patience).catch(fail);
    this.#limits = { ...LIMITS, ...this.server.limits };
    this.connection.free = Math.ceil((this.#limits.maxInflight * 7) / 8); // the rest is for tools of pipes
    return this;
  }

  /** Call a tool: its result is a JSON value, or bytes. */
  tool<T = any>(options: ToolOptions): Promise<T> {
    return callTool(this.connection, options);
  }

  /** Run a statement; where a node refuses the tool `execute`, one that only reads. */
  async #query({ sql, params, sessionId, rowMode, ...which }: QueryOptions): Promise<Body> {
    const call = (tool: string, limit?: number): Promise<any> =>
      this.tool({ ...which, tool, unique: true, input: { sql, params, session_id: sessionId, row_mode: rowMode, limit } });
    return call('execute').catch(async (refused) => {
      if (sessionId !== undefined || refused.data?.instead !== 'query') throw refused;
      const fail = (error: RrextError) => Promise.reject(error.code === 'not_read_only' ? refused : error);
      const found = await call('query', ROWS).catch(fail);
      if (!found.truncated) return { ...found, affected_rows: 0 };
      throw new RrextError('too_many_rows', `The statement gives more than ${ROWS} rows`, 'Use the tool query_stream.');
    });
  }

  /** Open a pipe for one object; waits while all pipes of the pipeline are in use. */
  async pipe({ signal, ...more }: PipeOptions = {}): Promise<Pipe> {
    const { timeout, token } = more;
    const onLate = ({ pipe_id }: Body) => this.connection.post('rrext_process', { subcommand: 'close', token, pipe_id });
    const args = { subcommand: 'open', ...more };
    const { pipe_id } = await this.connection.call('rrext_process', args, { signal, timeout, isLimited: true, onLate });
    return new Pipe(this.connection, { token, pipe_id }, Math.max(this.#limits.maxFrame - ENVELOPE, this.#limits.maxFrame / 2));
  }

  /** Send any command with its arguments, and `tail` as raw bytes, and return the body of the answer. */
  request(command: string, args: Body = {}, options: CallOptions & { tail?: Uint8Array } = {}): Promise<Body> {
    return this.connection.call(command, args, options);
  }

  /** End the connection: running calls get the server's drain time. A server of our own ends too, by force if need be. */
  async close(): Promise<void> {
    await this.request('disconnect', {}, { timeout: this.#limits.drain }).catch(() => {});
    await this.connection.close();
  }
}

/** One open pipe: an object on its way through a pipeline. Made by `Client.pipe`. */
export class Pipe {
  #result: Promise<Body> | undefined;
  readonly [Symbol.asyncDispose] = () => this.close().then(() => {});

  constructor(private readonly connection: Connection, readonly about: Body, private readonly maxWrite: number) {}

  /** Write bytes, or text as UTF-8; resolves when every receiver in the pipeline has returned. Writes happen in order. */
  async write(data: Uint8Array | string, options: CallOptions = {}): Promise<void> {
    const content = typeof data === 'string' ? Buffer.from(data) : data;
    const writes: Promise<Body>[] = [];
    for (let start = 0; start === 0 || start < content.length; start += this.maxWrite) {
      writes.push(this.#process('write', options, content.subarray(start, start + this.maxWrite)));
    }
    await Promise.all(writes);
  }

  /** Call a tool on this pipe's own node objects; else like `Client.tool`. */
  tool<T = any>(options: Omit<ToolOptions, 'token' | 'context'>): Promise<T> {
    return callTool(this.connection, options, this.about);
  }

  /** End the object, and return the pipeline's result. An object that failed is an error, with what there is as `result`. */
  close(options: CallOptions = {}): Promise<Body> {
    return (this.#result ??= this.#close(options));
  }

  async #close(options: CallOptions): Promise<Body> {
    const result = await this.#process('close', options).catch((error) => {
      if (options.signal?.aborted) this.connection.post('rrext_process', { ...this.about, subcommand: 'close' });
      throw error;
    });
    if (!result.error) return result;
    const { code = 'pipe_failed', message = 'The object failed.', hint, data } = result.error;
    throw Object.assign(new RrextError(code, message, hint, data), { result });
  }

  #process(subcommand: string, { signal, timeout }: CallOptions, tail?: Uint8Array): Promise<Body> {
    return this.connection.call('rrext_process', { ...this.about, subcommand, timeout }, { signal, timeout, tail });
  }
}
