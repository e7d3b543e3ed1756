// npm's vscode-jsonrpc drives the server in JSON-RPC 2.0.
//   node jsonrpc_peer.cjs SCENARIO PYTHON SERVE_SCRIPT
// Prints nothing and exits 0 if the scenario holds; otherwise the failed assertion is on stderr.
'use strict';
const assert = require('node:assert/strict');
const { once } = require('node:events');
const { spawn } = require('node:child_process');
const rpc = require('vscode-jsonrpc/node');

const GREETER = { subcommand: 'tool', nodeId: 'greeter_1' };

async function failure(promise) {
  try {
    await promise;
  } catch (error) {
    return error;
  }
  return assert.fail('the request should have failed');
}

const scenarios = {
  async initialize(c) {
    const body = await c.sendRequest('initialize', { clientName: 'vscode-jsonrpc', future: { unknown: true } });
    assert.equal(body.server.name, 'rrext');
    assert.ok(body.commands.includes('rrext_process'));
    assert.ok(body.limits.maxFrame > 0);
    const again = await failure(c.sendRequest('initialize', {}));
    assert.equal(again.code, -32600);
  },

  async tools(c) {
    const { tools } = await c.sendRequest('tools', {});
    const greet = tools.find(tool => tool.name === 'greet');
    assert.equal(greet.nodeId, 'greeter_1');
    assert.deepEqual(greet.inputSchema.required, ['name']);
    assert.equal(greet.inputSchema.additionalProperties, false);
    const park = tools.find(tool => tool.name === 'park');
    assert.deepEqual(park.inputSchema.properties ?? {}, {}, 'the context is hidden');
  },

  async tool(c) {
    const calls = ['Ada', 'Grace', 'Zoë'].map(name => c.sendRequest('rrext_process', { ...GREETER, tool: 'greet', input: { name } }));
    const texts = (await Promise.all(calls)).map(body => body.result.text);
    assert.deepEqual(texts, ['Hello Ada', 'Hello Grace', 'Hello Zoë']);
  },

  async cancel(c) {
    const source = new rpc.CancellationTokenSource();
    c.onNotification('rrext_progress', () => source.cancel());
    const error = await failure(c.sendRequest('rrext_process', { ...GREETER, tool: 'park', progress: true }, source.token));
    assert.equal(error.code, -32800);
    assert.equal(error.data.code, 'cancelled');
    const next = await c.sendRequest('rrext_process', { ...GREETER, tool: 'greet', input: { name: 'Ada' } });
    assert.equal(next.result.text, 'Hello Ada');
  },

  async progress(c) {
    const seen = [];
    c.onNotification('rrext_progress', event => seen.push(event));
    const { result } = await c.sendRequest('rrext_process', { ...GREETER, tool: 'count', input: { to: 20 }, progress: true });
    assert.deepEqual(result, { counted: 20 });
    const numbers = seen.map(event => event.progress);
    assert.deepEqual(numbers, [...numbers].sort((a, b) => a - b));
    assert.equal(numbers.at(-1), 20, 'the last report arrives before the result');
    assert.ok(seen.every(event => event.total === 20));
    assert.equal(new Set(seen.map(event => event.request)).size, 1);
  },

  async errors(c) {
    const missing = await failure(c.sendRequest('rrext_process', { ...GREETER, tool: 'great' }));
    assert.equal(missing.code, -32010);
    assert.equal(missing.data.code, 'tool_not_found');
    assert.deepEqual(missing.data.near, ['greet']);
    const wrong = await failure(c.sendRequest('rrext_process', { ...GREETER, tool: 'greet', input: { name: 7 } }));
    assert.equal(wrong.code, -32602);
    assert.equal(wrong.data.code, 'invalid_arguments');
    assert.deepEqual(wrong.data.errors.map(problem => problem.path), ['/input/name']);
    const own = await failure(c.sendRequest('rrext_process', { ...GREETER, tool: 'refuse' }));
    assert.equal(own.code, -32016);
    assert.equal(own.message, 'no more greetings today');
    assert.equal(own.data.code, 'greetings_spent');
    assert.equal(own.data.hint, 'come back tomorrow');
    assert.equal(own.data.left, 0);
    const unknown = await failure(c.sendRequest('rrext_proces', {}));
    assert.equal(unknown.code, -32601);
    assert.match(unknown.message, /^Invalid command: rrext_proces/);
  },

  async pipe(c) {
    const { pipe_id } = await c.sendRequest('rrext_process', { subcommand: 'open', object: { name: 'a.bin' } });
    const bytes = Buffer.from([0, 255, 10, 13, 128]);
    await c.sendRequest('rrext_process', { subcommand: 'write', pipe_id, data_base64: bytes.toString('base64') });
    await c.sendRequest('rrext_process', { subcommand: 'write', pipe_id, data: 'Zoë' });
    const { result } = await c.sendRequest('rrext_process', { subcommand: 'tool', nodeId: 'meter_1', tool: 'measured', pipe_id });
    assert.deepEqual(result, { bytes: bytes.length + 4 });
    const closed = await c.sendRequest('rrext_process', { subcommand: 'close', pipe_id });
    assert.equal(closed.name, 'a.bin');
    const late = await failure(c.sendRequest('rrext_process', { subcommand: 'close', pipe_id }));
    assert.equal(late.data.code, 'pipe_not_open');
    assert.match(late.message, new RegExp(`^Pipe ${pipe_id} is not open`));
  },

  async shutdown(c, server) {
    const exit = once(server, 'exit');
    await c.sendRequest('shutdown', {});
    assert.deepEqual(await exit, [0, null]);
  },
};

async function main(scenario, python, script) {
  const server = spawn(python, [script], { stdio: ['pipe', 'pipe', 'inherit'] });
  const connection = rpc.createMessageConnection(new rpc.StreamMessageReader(server.stdout), new rpc.StreamMessageWriter(server.stdin));
  connection.onError(([error]) => assert.fail(error));
  connection.onUnhandledNotification(() => {});
  connection.listen();
  try {
    await scenarios[scenario](connection, server);
  } finally {
    connection.dispose();
    server.kill('SIGKILL');
  }
}

// Node ends with 0 when nothing is left to wait for, also in the middle of a scenario.
process.exitCode = 1;
main(...process.argv.slice(2)).then(
  () => { process.exitCode = 0; },
  error => console.error(error),
);
