import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Client, RrextError } from '../dist/index.js';
import { collector, webFraming } from '../dist/framing.js';
import { made, scripted, WAYS } from './servers.mjs';

const warnings = [];
process.on('warning', (warning) => warnings.push(warning));
const failure = (promise) => promise.then((value) => assert.fail(`it gave ${value}`), (error) => error);
/** Ask again until there is something. */
async function eventually(ask) {
  const patience = AbortSignal.timeout(20_000);
  for (let found; ; patience.throwIfAborted()) if ((found = await ask()).length > 0) return found;
}
const turn = () => new Promise((resolve) => setImmediate(resolve));

for (const [name, way] of Object.entries(WAYS)) {
  describe(`over ${name}`, () => {
    let client, kill, again;
    before(async () => ({ client, kill, again } = await way()));
    after(async () => {
      await client.close();
      if (again) await kill('SIGTERM');
    });

    /** A call that waits, once it does: its promise, and what the server noted of it. */
    async function parked(options = {}) {
      const key = randomUUID();
      let running;
      await new Promise((resolve) => {
        running = client.tool({ tool: 'wait', input: { key }, onProgress: resolve, ...options });
        running.catch(resolve);
      });
      return { running, journal: () => client.tool({ tool: 'journal', input: { key } }) };
    }

    test('a tool gives JSON, with text of any script, and bytes', async () => {
      assert.equal(client.server.server.name, 'rrext');
      const value = { text: 'äöü €𝄞 \\ " \u0000\n', nested: [[{}]], none: null };
      assert.deepEqual(await client.tool({ tool: 'echo', input: { value } }), value);
      assert.deepEqual([...(await client.tool({ tool: 'blob', input: { data: 'AP8Q' } }))], [0, 255, 16]);
      assert.equal(await client.tool({ tool: 'nothing' }), null);
    });

    test('integers beyond 2^53 are bigints, both ways', async () => {
      const value = [2n ** 64n, -9007199254740993n, 9007199254740991, 1.5, 1e300, '"9007199254740993', 'a\\"12345678901234567890'];
      assert.deepEqual(await client.tool({ tool: 'echo', input: { value } }), value);
    });

    test('a failure has code, hint and data', async () => {
      const error = await failure(client.tool({ tool: 'ech' }));
      assert(error instanceof RrextError && error instanceof Error);
      assert.deepEqual([error.code, error.hint, error.data], ['tool_not_found', 'Did you mean "echo"?', { near: ['echo'] }]);
      assert.equal((await failure(client.tool({ tool: 'park', timeout: 0.05 }))).code, 'tool_timeout');
      assert.equal((await failure(client.tool({ tool: 'park', timeout: -1 }))).code, 'invalid_arguments');
    });

    test('progress and chunks come in order and before the result, which waits for the callback', async () => {
      const seen = [];
      const onProgress = (...told) => void seen.push(told);
      assert.equal(await client.tool({ tool: 'report', input: { to: 3 }, onProgress }), 'done');
      assert.deepEqual(seen.at(-1), [3, 3, undefined]);
      const chunks = [];
      const onChunk = async (chunk) => (await turn(), chunks.push(chunk));
      assert.equal(await client.tool({ tool: 'count_and_sum', input: { to: 5 }, onChunk }), 10);
      assert.deepEqual(chunks, [0, 1, 2, 3, 4]);
      const input = { data: 'AP8Q', size: 2 };
      await client.tool({ tool: 'pieces', input, onChunk: (chunk) => chunks.push(Buffer.from(chunk).toString('hex')) });
      assert.deepEqual(chunks.slice(5), ['00ff', '10']);
    });

    test('a callback that fails ends its call, in the server too', async () => {
      const key = randomUUID();
      const onProgress = () => Promise.reject(new RangeError('too far'));
      assert.match((await failure(client.tool({ tool: 'park', input: { key }, onProgress }))).message, /too far/);
      await eventually(() => client.tool({ tool: 'journal', input: { key } }));
    });

    test('an abort cancels the tool, and rejects with its reason', async () => {
      const controller = new AbortController();
      const { running, journal } = await parked({ signal: controller.signal });
      controller.abort(new Error('enough'));
      assert.equal((await failure(running)).message, 'enough');
      assert.deepEqual(await eventually(journal), ['unwound']);
    });

    test('a signal that was aborted before sends nothing', async () => {
      const key = randomUUID();
      const signal = AbortSignal.abort();
      assert.equal((await failure(client.tool({ tool: 'note', input: { key }, signal }))).name, 'AbortError');
      assert.equal((await failure(client.pipe({ signal }))).name, 'AbortError');
      assert.deepEqual(await client.tool({ tool: 'journal', input: { key } }), []);
    });

    test('thousands of calls in flight have their own answers, and one signal ends those that it was given to', async () => {
      const controller = new AbortController();
      const number = name === 'unix' ? 4800 : 480; // more than a server takes at once, which lasts
      const running = Array.from({ length: number }, (_, a) => {
        const signal = a % 3 === 0 ? controller.signal : undefined;
        return client.tool({ tool: a % 2 ? 'add' : 'add_async', input: { a, b: 0 }, signal });
      });
      controller.abort();
      const done = await Promise.allSettled(running);
      const wrong = done.filter(({ value, reason }, a) => (a % 3 === 0 ? reason?.name !== 'AbortError' : value?.sum !== a));
      assert.deepEqual(wrong, []);
      assert.deepEqual(await client.tool({ tool: 'add', input: { a: 1 } }), { sum: 2 });
    });

    test('answers of many megabytes arrive whole, beside small ones', async () => {
      const sizes = [10e6, 1, 10e6, 2, 10e6];
      const texts = await Promise.all(sizes.map((size) => client.tool({ tool: 'large', input: { size } })));
      assert.deepEqual(texts.map((text) => text.length), sizes);
    });

    test('a pipe takes text and bytes in order, calls tools, and gives its result once', async () => {
      const pipe = await client.pipe({ mimeType: 'text/plain', object: { name: 'a.txt' } });
      await Promise.all([pipe.write('gr'), pipe.write(Buffer.from('üß')), pipe.write('e')]);
      assert.equal((await pipe.tool({ tool: 'add', input: { a: 1 } })).sum, 2);
      const [result, same] = await Promise.all([pipe.close(), pipe.close()]);
      assert.deepEqual([result.name, result.reply.join('').replaceAll('\n', ''), same], ['a.txt', 'GRÜSSE', result]);
      assert.equal((await failure(pipe.write('more'))).code, 'pipe_not_open');
    });

    test('an object that fails is an error, with what there is of its result', async () => {
      const pipe = await client.pipe({ mimeType: 'application/json', object: { name: 'a.json' } });
      await failure(pipe.write('{"a'));
      const error = await failure(pipe.close());
      assert.deepEqual([error.code, error.result.name], ['invalid_arguments', 'a.json']);
    });

    test('pipes whose opening was aborted are closed', async () => {
      const { threads } = client.server.limits;
      for (let n = 0; n < threads; n++) {
        const controller = new AbortController();
        const opening = failure(client.pipe({ signal: controller.signal }));
        controller.abort();
        await opening;
      }
      const pipes = await Promise.all(Array.from({ length: threads }, () => client.pipe()));
      await Promise.all(pipes.map((pipe) => pipe.close()));
    });

    test('data that no frame holds go in several writes', async () => {
      const pipe = await client.pipe();
      await pipe.write(Buffer.alloc(20 * 1024 * 1024, 'x'));
      assert.equal((await pipe.close()).error, undefined);
    });

    test('a callback that is slow makes the server wait, unless another call needs the answers', async () => {
      const key = randomUUID();
      let [open, count] = [undefined, 0];
      const gate = new Promise((resolve) => (open = resolve));
      const onChunk = async () => (count++ === 0 ? gate : undefined);
      const running = client.tool({ tool: 'slabs', input: { number: 100, size: 2 ** 20, key }, onChunk });
      while (!client.connection.transport.readable.isPaused()) await turn();
      if (again) {
        const other = await again();
        assert.ok((await other.tool({ tool: 'journal', input: { key } })).length < 100);
        await other.close();
      }
      assert.equal((await client.tool({ tool: 'add', input: { a: 1 } })).sum, 2);
      open();
      await running;
      assert.equal(count, 100);
    });

    test('a server that is killed fails all calls, now and later', async () => {
      const pipe = await client.pipe();
      const { running } = await parked();
      const waiting = Array.from({ length: 64 }, (_, n) => client.tool({ tool: 'wait', input: { key: `never ${n}` } }));
      const failures = [running, ...waiting, pipe.tool({ tool: 'wait', input: { key: 'never' } })].map(failure);
      await kill('SIGKILL');
      const errors = await Promise.all(failures);
      assert.deepEqual([...new Set(errors.map(({ code }) => code))], ['server_exited']);
      assert.equal((await failure(client.tool({ tool: 'nothing' }))).code, 'server_exited');
      if (name === 'stdio') assert.equal(errors[0].data.signal, 'SIGKILL');
    });
  });
}

describe('a server that is none', () => {
  const cases = {
    'no length': [`await say('Content-Length: x\\r\\n\\r\\n{}')`, /cannot be read: a header without a length/],
    'a length that nobody has': [`await say('Content-Length: 99999999999\\r\\n\\r\\n')`, /a header without a length/],
    'a header without end': [`await say('x'.repeat(9000))`, /a header without a length/],
    'no JSON': [`await say(message('{"type":'))`, /cannot be read: .*JSON/],
    'no object': [`await say(message('null'))`, /cannot be read/],
    'no UTF-8': [`await say(Buffer.concat([Buffer.from('Content-Length: 1\\r\\n\\r\\n'), Buffer.from([0xff])]))`, /cannot be read/],
    'half a frame': [`await say(answer(1).slice(0, 40)); process.exit(3)`, /exited with 3/],
    'nothing': [`console.error('no such file'); process.exit(2)`, /exited with 2. It wrote:\nno such file/],
  };
  for (const [what, [script, message]] of Object.entries(cases)) {
    test(`that says ${what} is told as that`, async () => {
      const error = await failure(scripted(`await hear(); ${script}; process.stdin.resume();`));
      assert.equal(error.code, 'server_exited');
      assert.match(error.message, message);
    });
  }

  test('frames in pieces of one byte are frames', async () => {
    const client = await scripted(`for (let seq = 1; ; seq++) { await hear(); for (const byte of answer(seq)) await say(byte); }`);
    assert.deepEqual(await client.request('anything'), { seq: 2 });
    await client.close();
  });

  test('no more calls are sent than it takes at once, and tools of pipes have places of their own', async () => {
    const client = await scripted(`
      let [running, most, ofPipe] = [0, 0, []];
      serve(({ seq, arguments: { subcommand, pipe_id } }, reply) => {
        if (seq === 1) reply({ limits: { maxInflight: 8 } });
        else if (subcommand !== 'tool') reply({ pipe_id: 1 });
        else if (pipe_id === undefined) {
          most = Math.max(most, ++running);
          setImmediate(() => (running--, reply({ result: most })));
        } else if (ofPipe.push(reply) === 10) for (const each of ofPipe) each({ result: 'all at once' });
      });`);
    const pipe = await client.pipe();
    const calls = Array.from({ length: 50 }, () => client.tool({ tool: 'any' }));
    assert.ok((await Promise.all(calls)).every((most) => most <= 7));
    await Promise.all(Array.from({ length: 10 }, () => pipe.tool({ tool: 'any' })));
    await client.close();
  });

  test('a request that it has not begun to read is taken back, and nobody waits longer than asked', async () => {
    const client = await scripted(`
      const seen = [];
      const alive = setInterval(() => {}, 60_000);
      process.on('SIGUSR2', () => (clearInterval(alive), process.stdin.resume()));
      serve(({ seq, command, arguments: { n } }, reply) => {
        seen.push(n ?? command);
        if (seq === 1) reply({ pid: process.pid }), process.stdin.pause();
        else if (command !== 'mute') reply({ seen });
      });`);
    const controller = new AbortController();
    const large = Array.from({ length: 40 }, (_, n) => {
      const signal = n === 30 ? controller.signal : undefined;
      return client.request('large', { n, text: 'x'.repeat(100_000) }, { signal });
    });
    large[30].catch(() => {});
    controller.abort();
    assert.equal((await failure(large[30])).name, 'AbortError');
    process.kill(client.server.pid, 'SIGUSR2');
    const { seen } = await large.at(-1);
    assert.deepEqual(seen, ['initialize', ...Array(40).keys()].filter((n) => n !== 30));
    assert.equal((await failure(client.request('mute', {}, { timeout: 0.01 }))).code, 'tool_timeout');
    await client.close();
  });

  test('a pipe that opened after its caller had left is closed', async () => {
    const client = await scripted(`
      let opened;
      const closed = [];
      serve(({ command, arguments: { subcommand, pipe_id } }, reply) => {
        if (subcommand === 'open') opened = reply;
        else if (subcommand === 'close') closed.push(pipe_id);
        else if (command === 'cancel') opened({ pipe_id: 7 });
        else reply({ closed });
      });`);
    const controller = new AbortController();
    const opening = failure(client.pipe({ signal: controller.signal }));
    controller.abort();
    await opening;
    await client.request('any'); // its answer comes after that of the pipe
    assert.deepEqual((await client.request('any')).closed, [7]);
    await client.close();
  });

  test('a program that is not there, and addresses that are none or lead nowhere, are told', async () => {
    assert.equal((await failure(Client.spawn('a.pipe', { command: ['/no/such/program'] }))).code, 'usage');
    assert.equal((await failure(Client.connect('http://127.0.0.1:1'))).code, 'usage');
    assert.equal((await failure(Client.connect('ws://key@127.0.0.1:1'))).code, 'usage');
    assert.equal((await failure(Client.connect('unix:/no/such/socket'))).code, 'not_connected');
    assert.equal((await failure(Client.connect('ws://127.0.0.1:1'))).code, 'not_connected');
  });

  test('a server of pages opens no WebSocket, and one with an answer for another request neither', async () => {
    const server = createHttpServer((_, answer) => answer.writeHead(404).end());
    server.on('upgrade', ({ url }, socket) => {
      if (url === '/page') socket.end('HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n');
      else socket.write('HTTP/1.1 101 Go\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n');
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    const address = `ws://127.0.0.1:${server.address().port}`;
    assert.match((await failure(Client.connect(`${address}/page`))).message, /answered 404/);
    assert.match((await failure(Client.connect(address))).message, /for another request/);
    server.closeAllConnections();
    server.close();
  });

  test('a socket that is closed in the middle of an answer fails the call', async () => {
    const path = join(mkdtempSync(join(tmpdir(), 'rrext-')), 's');
    const body = '{"type":"response","request_seq":1,"success":true,"body":{}}';
    const server = createServer((socket) => {
      socket.once('data', () => socket.write(`Content-Length: ${body.length}\r\n\r\n${body}`));
      socket.once('data', () => socket.once('data', () => socket.end('Content-Length: 100\r\n\r\n{"type"')));
    });
    await once(server.listen(path), 'listening');
    const client = await Client.connect(`unix:${path}`);
    assert.match((await failure(client.request('anything'))).message, /The server closed the connection/);
    server.close();
  });
});

test('data go in as many writes as small frames need', async () => {
  const { client } = await WAYS.stdio('--max-frame', '32768');
  const pipe = await client.pipe({ mimeType: 'text/plain' });
  await pipe.write('x'.repeat(100_000));
  assert.equal((await pipe.close()).reply.join('').replaceAll('\n', ''), 'X'.repeat(100_000));
  await client.close();
});

describe('the frames of a WebSocket', () => {
  const frame = (first, text, second = text.length) => Buffer.from([first, second, ...Buffer.from(text)]);

  test('make messages of fragments, in pieces of any size, and pings in between are answered', () => {
    const [messages, replies] = [[], []];
    const deliver = (json, tail) => messages.push([`${json}`, tail && `${tail}`]);
    const { take, encode } = webFraming(deliver, (reply) => replies.push(reply));
    const said = [frame(0x01, '{"a"'), frame(0x89, 'hi'), frame(0x80, ':1}'), frame(0x02, '{}'), frame(0x80, '\nraw\n')];
    const long = 'x'.repeat(70_000);
    said.push(Buffer.concat([Buffer.from([0x81, 127, 0, 0, 0, 0, 0, 1, 0x11, 0x70]), Buffer.from(long)]), frame(0x88, ''));
    const collect = collector(take);
    for (const byte of Buffer.concat(said)) collect(Buffer.from([byte]));
    assert.deepEqual(messages, [['{"a":1}', undefined], ['{}', 'raw\n'], [long, undefined]]);
    assert.deepEqual(replies.map(([first, size]) => [first, size]), [[0x8a, 0x82], [0x88, 0x80]]);
    assert.deepEqual([125, 126, 70_000].map((size) => encode('x'.repeat(size))[0][1] & 0x7f), [125, 126, 127]);
  });

  test('are refused if they are masked, reserved or too long', () => {
    const { take } = webFraming(assert.fail, assert.fail);
    const huge = Buffer.from([0x82, 127, 0, 0, 1, 0, 0, 0, 0, 0]);
    for (const wrong of [frame(0x81, 'x', 0x81), frame(0xc1, 'x'), huge]) assert.throws(() => take(wrong), { code: 'parse_error' });
  });
});

test('calls after the close are refused, and those before it have their answers', async () => {
  const { client } = await WAYS.stdio();
  const running = client.tool({ tool: 'add', input: { a: 1 } });
  await client.close();
  assert.deepEqual(await running, { sum: 2 });
  assert.equal((await failure(client.tool({ tool: 'add', input: { a: 1 } }))).code, 'not_connected');
});

test('a database is asked, and one that refuses `execute` runs what reads', async () => {
  const { client } = await WAYS.stdio();
  const path = join(mkdtempSync(join(tmpdir(), 'rrext-')), 'a.db');
  for (const allowed of [true, false]) {
    const token = `allowed-${allowed}`;
    const config = { path, create: true, allow_execute: allowed };
    const components = [{ id: 'tools_1', provider: 'tools', config: {} }, { id: 'db_1', provider: 'db_sqlite', config, control: [{ classType: 'tool', from: 'tools_1' }] }];
    await client.request('execute', { token, pipeline: { components, source: 'tools_1', project_id: token } });
    assert.equal(await client.database.dialect({ token }), 'sqlite');
    const { rows, affected_rows: affected } = await client.database.query({ token, sql: 'select $1 + 1 as n', params: [1] });
    assert.deepEqual([rows, affected], [[{ n: 2 }], 0]);
  }
  const write = { sql: 'create table t (n)', nodeId: 'db_1' };
  assert.equal((await failure(client.database.query({ ...write, token: 'allowed-false' }))).code, 'unavailable');
  await client.database.query({ ...write, token: 'allowed-true' });
  await client.close();
});

after(async () => {
  await Promise.all(made.map((client) => client.close()));
  assert.deepEqual(warnings, []);
});
