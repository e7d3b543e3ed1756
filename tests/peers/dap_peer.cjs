// npm's @vscode/debugadapter-testsupport drives the server in the debug adapter protocol's envelopes.
//   node dap_peer.cjs SCENARIO PYTHON SERVE_SCRIPT
// Prints nothing and exits 0 if the scenario holds; otherwise the failed assertion is on stderr.
'use strict';
const assert = require('node:assert/strict');
const { once } = require('node:events');
const { DebugClient } = require('@vscode/debugadapter-testsupport');

const tool = (name, input, more = {}) => ({ subcommand: 'tool', nodeId: 'greeter_1', tool: name, input, ...more });

const scenarios = {
  async custom_request(dc) {
    const answer = await dc.customRequest('rrext_process', tool('greet', { name: 'Zoë' }));
    assert.equal(answer.type, 'response');
    assert.equal(answer.success, true);
    assert.equal(answer.command, 'rrext_process');
    assert.deepEqual(answer.body, { result: { text: 'Hello Zoë' } });
    const ping = await dc.customRequest('rrext_ping');
    assert.equal(ping.success, true);
    assert.ok(ping.body, 'every success has a body');
  },

  async failed_response(dc) {
    await assert.rejects(dc.customRequest('rrext_process', tool('great', {})), /great.*greet/s);
    await assert.rejects(dc.customRequest('rrext_process', tool('greet', { name: 7 })), /\/input\/name/);
    await assert.rejects(dc.customRequest('rrext_process', tool('refuse', {})), { message: 'no more greetings today' });
    await assert.rejects(dc.customRequest('nonsense'), /^Error: Invalid command: nonsense/);
    const after = await dc.customRequest('rrext_process', tool('greet', { name: 'Ada' }));
    assert.equal(after.body.result.text, 'Hello Ada');
  },

  async initialize(dc) {
    const answer = await dc.initializeRequest();
    assert.equal(answer.body.server.name, 'rrext');
  },

  async progress(dc) {
    const seen = [];
    dc.on('rrext_progress', event => seen.push(event.body.progress));
    const answer = await dc.customRequest('rrext_process', tool('count', { to: 20 }, { progress: true }));
    assert.deepEqual(answer.body.result, { counted: 20 });
    assert.deepEqual(seen, [...seen].sort((a, b) => a - b));
    assert.equal(seen.at(-1), 20);
  },

  async cancel(dc) {
    dc.on('rrext_progress', event => dc.customRequest('cancel', { requestId: event.body.request }));
    await assert.rejects(dc.customRequest('rrext_process', tool('park', {}, { progress: true })), { message: 'cancelled' });
    const after = await dc.customRequest('rrext_process', tool('greet', { name: 'Ada' }));
    assert.equal(after.body.result.text, 'Hello Ada');
  },

  async pipe(dc) {
    const opened = await dc.customRequest('rrext_process', { subcommand: 'open', object: { name: 'a.txt' } });
    const { pipe_id } = opened.body;
    await dc.customRequest('rrext_process', { subcommand: 'write', pipe_id, data: 'Zoë' });
    const seen = await dc.customRequest('rrext_process', { subcommand: 'tool', nodeId: 'meter_1', tool: 'measured', pipe_id });
    assert.deepEqual(seen.body.result, { bytes: 4 });
    const closed = await dc.customRequest('rrext_process', { subcommand: 'close', pipe_id });
    assert.equal(closed.body.name, 'a.txt');
    await assert.rejects(dc.customRequest('rrext_process', { subcommand: 'close', pipe_id }), /is not open/);
  },

  async disconnect(dc) {
    const exit = once(dc._adapterProcess, 'exit');
    await dc.disconnectRequest();
    assert.deepEqual(await exit, [0, null]);
  },
};

async function main(scenario, python, script) {
  const dc = new DebugClient(python, script, 'rrext', undefined, true);
  await dc.start();
  try {
    await scenarios[scenario](dc);
  } finally {
    dc.stopAdapter();
  }
}

// Node ends with 0 when nothing is left to wait for, also in the middle of a scenario.
process.exitCode = 1;
main(...process.argv.slice(2)).then(
  () => { process.exitCode = 0; },
  error => console.error(error),
);
