// npm's vscode-languageserver-protocol, the library that VS Code itself is built on, drives `rrext lsp`.
//   node lsp_peer.cjs SCENARIO FOLDER COMMAND ARGUMENT…
// Prints nothing and exits 0 if the scenario holds; otherwise the failed assertion is on stderr.
'use strict';
const assert = require('node:assert/strict');
const { once } = require('node:events');
const { spawn } = require('node:child_process');
const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const { fileURLToPath, pathToFileURL } = require('node:url');
const lsp = require('vscode-languageserver-protocol/node');
const { TextDocument } = require('vscode-languageserver-textdocument');

const CAPABILITIES = {
  general: { positionEncodings: ['utf-16'] },
  textDocument: {
    publishDiagnostics: { relatedInformation: true, versionSupport: true, codeDescriptionSupport: true, tagSupport: { valueSet: [1, 2] } },
    completion: {
      completionItem: { snippetSupport: true, documentationFormat: ['markdown', 'plaintext'], insertReplaceSupport: true },
      contextSupport: true,
    },
    hover: { contentFormat: ['markdown', 'plaintext'] },
    codeAction: {
      codeActionLiteralSupport: { codeActionKind: { valueSet: ['quickfix', 'refactor', 'source'] } },
      isPreferredSupport: true,
      dataSupport: true,
      resolveSupport: { properties: ['edit'] },
    },
    rename: { prepareSupport: true },
    documentSymbol: { hierarchicalDocumentSymbolSupport: true },
  },
  workspace: { applyEdit: true, workspaceEdit: { documentChanges: true }, executeCommand: {} },
  window: { workDoneProgress: true, showDocument: { support: true }, showMessage: {} },
};

// An editor with one document, which is kept by vscode-languageserver-textdocument.
class Editor {
  constructor(connection, folder) {
    this.connection = connection;
    this.uri = pathToFileURL(join(folder, 'test.pipe')).href;
    this.published = [];
    this.waiting = [];
    this.shown = [];
    connection.onNotification(lsp.PublishDiagnosticsNotification.type, params => this.keep(this.published, params));
    connection.onRequest(lsp.ShowDocumentRequest.type, params => {
      this.keep(this.shown, params);
      return { success: true };
    });
    connection.onRequest(lsp.WorkDoneProgressCreateRequest.type, () => null);
  }

  async start(options = { trusted: true }) {
    const answer = await this.connection.sendRequest(lsp.InitializeRequest.type, {
      processId: process.pid,
      rootUri: null,
      capabilities: CAPABILITIES,
      initializationOptions: options,
      workspaceFolders: null,
    });
    await this.connection.sendNotification(lsp.InitializedNotification.type, {});
    return answer;
  }

  async open(text) {
    this.document = TextDocument.create(this.uri, 'pipe', 1, text);
    await this.connection.sendNotification(lsp.DidOpenTextDocumentNotification.type, {
      textDocument: { uri: this.uri, languageId: 'pipe', version: 1, text },
    });
    return this.diagnostics();
  }

  async change(...contentChanges) {
    const version = this.document.version + 1;
    TextDocument.update(this.document, contentChanges, version);
    const textDocument = { uri: this.uri, version };
    await this.connection.sendNotification(lsp.DidChangeTextDocumentNotification.type, { textDocument, contentChanges });
  }

  keep(list, item) {
    list.push(item);
    this.waiting.splice(0).forEach(wake => wake());
  }

  // Wait for something that messages of the server bring about; what it gives.
  async until(found) {
    for (;;) {
      const value = found();
      if (value) return value;
      await Promise.race([new Promise(wake => this.waiting.push(wake)), new Promise(wake => setTimeout(wake, 50))]);
    }
  }

  // The diagnostics of the document as it is now; with a condition, the newest ones once it holds.
  async diagnostics() {
    return this.marked(() => true, list => list.find(params => this.isNow(params)));
  }

  async marked(fits, choose = list => list.findLast(params => this.isNow(params))) {
    const params = await this.until(() => {
      const found = choose(this.published);
      return found && fits(found.diagnostics) && found;
    });
    return params.diagnostics;
  }

  isNow(params) {
    return params.uri === this.uri && params.version === this.document.version;
  }

  request(type, params) {
    return this.connection.sendRequest(type, { textDocument: { uri: this.uri }, ...params });
  }

  at(needle, inside = 1) {
    const offset = this.document.getText().indexOf(needle);
    assert.ok(offset >= 0, `${needle} is not in the document`);
    return this.document.positionAt(offset + inside);
  }

  cut(range) {
    return this.document.getText(range);
  }

  // What is left when the edits of a workspace edit for this document are made.
  edited(edit) {
    const edits = edit.documentChanges ? edit.documentChanges.flatMap(change => change.edits) : edit.changes[this.uri];
    return TextDocument.applyEdits(this.document, edits);
  }

  replace(text) {
    return this.change({ text });
  }
}

const BROKEN = '{"components": [{"id": "in", "provider": "webhok", "config": {}}]}';

const WORDS = { trusted: true, nodes: [join(__dirname, 'peer_nodes.py')] };
const GREETER = readFileSync(join(__dirname, 'peer.pipe'), 'utf8');
const LIBRARY = `{
  // 😀 The library.
  "components": [
    { "id": "web_é", "provider": "webhook", "config": {} },
    {
      "id": "files_1",
      "provider": "tool_filesystem",
      "config": { "root": "library" },
      "control": [{ "classType": "tool", "from": "web_é" }]
    },
    { "id": "out", "provider": "response_text", "config": {}, "input": [{ "lane": "text", "from": "web_é" }] }
  ],
  "source": "web_é"
}
`;

const SPOILT = LIBRARY.replace('"webhook"', '"webhok"')
  .replace('"tool_filesystem",', '"tool_filesystem"')
  .replace('"root"', '"rot"')
  .replace('"lane": "text"', '"lane": "txt"')
  .replace('"source": "web_é"', '"source": "web_e"');

// Numbers that look random and are the same in every run.
function dice(seed) {
  let state = seed;
  return below => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

const scenarios = {
  async initialize(editor) {
    const { capabilities, serverInfo } = await editor.start();
    assert.equal(serverInfo.name, 'rrext');
    assert.equal(capabilities.positionEncoding, 'utf-16');
    assert.equal(capabilities.textDocumentSync.change, lsp.TextDocumentSyncKind.Incremental);
  },

  async diagnostics(editor) {
    await editor.start();
    const [first] = await editor.open(BROKEN);
    assert.equal(first.code, 'unknown_provider');
    assert.equal(first.source, 'rrext');
    assert.equal(first.severity, lsp.DiagnosticSeverity.Error);
    assert.equal(editor.cut(first.range), '"webhok"');
    assert.match(first.codeDescription.href, /protocol\.md#L\d+$/);
  },

  // Every change reaches the server as the client meant it: what a range of the server's cuts out of the client's document is
  // what the message is about.
  async sync(editor) {
    await editor.start();
    await editor.open('{"components": [\n]}\n');
    let compared = 0;
    for (let seed = 1; seed <= 60; seed += 1) {
      const roll = dice(seed);
      const components = Array.from({ length: 40 }, (_, i) => `  {"id": "é${i}", /* 😀${'ü'.repeat(i)} */ "provider": "n${i}x", "config": {}},\n`);
      await editor.replace(`// a\u0301 ${'👩‍👩‍👧'.repeat(roll(3))}\r\n{"components": [\n${components.join('')}]}\n`);
      for (let step = 0; step < 12; step += 1) {
        const text = editor.document.getText();
        const start = roll(text.length + 1);
        const end = Math.min(text.length, start + roll(4));
        const inserted = ['', 'x', '😀', '\n', '\r\n', '\u0301', 'é\u2028'][roll(7)];
        await editor.change({ range: { start: editor.document.positionAt(start), end: editor.document.positionAt(end) }, text: inserted });
      }
      const found = await editor.diagnostics();
      for (const diagnostic of found.filter(one => one.code === 'unknown_provider')) {
        // An edit may have taken a quote away; and a message is one line, with a sign for what would end that.
        const name = editor.cut(diagnostic.range).replace(/^"|"$/g, '').replace(/\u2028/g, '\ufffd');
        assert.ok(diagnostic.message.includes(name), `seed ${seed}: ${name} is cut out for: ${diagnostic.message}`);
        compared += 1;
      }
    }
    assert.ok(compared > 200, `only ${compared} places were compared`);
  },

  async hover(editor) {
    await editor.start();
    assert.deepEqual(await editor.open(LIBRARY), []);
    const { contents, range } = await editor.request(lsp.HoverRequest.type, { position: editor.at('"tool_filesystem"') });
    assert.equal(contents.kind, 'markdown');
    assert.match(contents.value, /read_file\(path/);
    assert.equal(editor.cut(range), '"tool_filesystem"');
    assert.equal(await editor.request(lsp.HoverRequest.type, { position: { line: 0, character: 0 } }), null);
  },

  async navigation(editor) {
    await editor.start();
    await editor.open(LIBRARY);
    const position = editor.at('"from": "web_é"', 10);
    const definition = await editor.request(lsp.DefinitionRequest.type, { position });
    assert.equal(editor.cut(definition.range), 'web_é');
    assert.equal(definition.range.start.line, 3);
    const references = await editor.request(lsp.ReferencesRequest.type, { position, context: { includeDeclaration: true } });
    assert.deepEqual(references.map(one => [one.range.start.line, editor.cut(one.range)]), [3, 8, 10, 12].map(line => [line, 'web_é']));
    const others = await editor.request(lsp.ReferencesRequest.type, { position, context: { includeDeclaration: false } });
    assert.equal(others.length, 3);
    const highlights = await editor.request(lsp.DocumentHighlightRequest.type, { position });
    assert.equal(highlights.length, 4);
  },

  async rename(editor) {
    await editor.start();
    await editor.open(LIBRARY);
    const position = editor.at('"source": "web_é"', 12);
    const { range, placeholder } = await editor.request(lsp.PrepareRenameRequest.type, { position });
    assert.equal(editor.cut(range), placeholder);
    const edit = await editor.request(lsp.RenameRequest.type, { position, newName: 'entry "1" 😀' });
    assert.equal(editor.edited(edit), LIBRARY.replaceAll('web_é', 'entry \\"1\\" 😀'));
    await editor.replace(editor.edited(edit));
    assert.deepEqual(await editor.diagnostics(), []);
    await assert.rejects(editor.request(lsp.RenameRequest.type, { position: editor.at('"out"'), newName: 'files_1' }), /files_1/);
    assert.equal(await editor.request(lsp.PrepareRenameRequest.type, { position: editor.at('"lane"') }), null);
  },

  async symbols(editor) {
    await editor.start();
    await editor.open(LIBRARY);
    const symbols = await editor.request(lsp.DocumentSymbolRequest.type, {});
    assert.deepEqual(new Set(symbols.map(one => one.name)), new Set(['web_é', 'files_1', 'out']));
    const within = (inner, outer) => editor.cut(outer).includes(editor.cut(inner));
    const check = one => {
      assert.ok(within(one.selectionRange, one.range), one.name);
      (one.children ?? []).forEach(child => { assert.ok(within(child.range, one.range), child.name); check(child); });
    };
    symbols.forEach(check);
  },

  // Whatever is broken: as long as fixes are offered, the preferred or else the first is made, and in the end nothing is left.
  async fixes(editor) {
    await editor.start();
    let found = await editor.open(SPOILT);
    assert.ok(found.length >= 5, JSON.stringify(found));
    for (let step = 0; found.length > 0; step += 1) {
      assert.ok(step < 12, `still broken: ${editor.document.getText()}`);
      const context = { diagnostics: [found[0]], only: [lsp.CodeActionKind.QuickFix], triggerKind: lsp.CodeActionTriggerKind.Invoked };
      const offered = await editor.request(lsp.CodeActionRequest.type, { range: found[0].range, context });
      const fitting = offered.filter(action => action.diagnostics?.some(one => one.code === found[0].code));
      const chosen = fitting.find(action => action.isPreferred) ?? fitting[0];
      assert.ok(chosen, `nothing is offered for ${found[0].message}`);
      assert.equal(chosen.kind, lsp.CodeActionKind.QuickFix);
      const whole = chosen.edit ? chosen : await editor.connection.sendRequest(lsp.CodeActionResolveRequest.type, chosen);
      await editor.replace(editor.edited(whole.edit));
      found = await editor.diagnostics();
    }
    assert.equal(editor.document.getText(), LIBRARY);
  },

  async completion(editor) {
    await editor.start();
    await editor.open(LIBRARY.replace('"lane": "text"', '"lane": ""'));
    const items = async needle => {
      const context = { triggerKind: lsp.CompletionTriggerKind.Invoked };
      const list = await editor.request(lsp.CompletionRequest.type, { position: editor.at(needle, needle.length), context });
      return list.items ?? list;
    };
    const lanes = await items('"lane": "');
    assert.equal(lanes[0].label, 'text');
    assert.equal(editor.edited({ changes: { [editor.uri]: [lanes[0].textEdit] } }), LIBRARY);
    await editor.replace(LIBRARY);
    const keys = await items('"config": { ');
    const write = keys.find(item => item.label === 'allow_write');
    assert.equal(write.insertTextFormat, lsp.InsertTextFormat.Snippet);
    const { documentation } = await editor.connection.sendRequest(lsp.CompletionResolveRequest.type, write);
    assert.equal(documentation.kind, 'markdown');
    assert.match(documentation.value, /write_file/);
  },

  async lenses(editor) {
    await editor.start(WORDS);
    assert.deepEqual(await editor.open(`// rrext tool greet {"name": "Ada"}\n${GREETER}`), []);
    const lenses = await editor.request(lsp.CodeLensRequest.type, {});
    const lens = lenses.find(one => one.range.start.line === 0);
    assert.match(lens.command.title, /Run greet/);
    const answer = await editor.connection.sendRequest(lsp.ExecuteCommandRequest.type, lens.command);
    assert.equal(answer.ok, true);
    assert.deepEqual(answer.result, { text: 'Hello Ada' });
    await editor.until(() => editor.shown.length === 1);
    assert.deepEqual(JSON.parse(readFileSync(fileURLToPath(editor.shown[0].uri), 'utf8')), { text: 'Hello Ada' });
  },

  async commands(editor) {
    const { capabilities } = await editor.start(WORDS);
    await editor.open(GREETER);
    const run = (tool, input = {}, more = {}, token = undefined) => {
      assert.ok(capabilities.executeCommandProvider.commands.includes('rrext.runTool'));
      const params = { command: 'rrext.runTool', arguments: [{ uri: editor.uri, node: 'greeter_1', tool, input }], ...more };
      return editor.connection.sendRequest(lsp.ExecuteCommandRequest.type, params, token);
    };
    const values = [];
    const token = 'mine';
    editor.connection.onProgress(lsp.WorkDoneProgress.type, token, value => values.push(value));
    const counted = await run('count', { to: 500 }, { workDoneToken: token });
    assert.deepEqual(counted.result, { counted: 500 });
    await editor.until(() => values.at(-1)?.kind === 'end');
    assert.equal(values[0].kind, 'begin');
    assert.equal(values.filter(value => value.kind === 'end').length, 1);

    const source = new lsp.CancellationTokenSource();
    const parked = run('park', {}, { workDoneToken: 'parked' }, source.token);
    await new Promise(begun => editor.connection.onProgress(lsp.WorkDoneProgress.type, 'parked', begun));
    source.cancel();
    await assert.rejects(parked, error => error.code === lsp.LSPErrorCodes.RequestCancelled);

    const refused = await run('refuse');
    assert.equal(refused.ok, false);
    assert.equal(refused.error.code, 'greetings_spent');
    assert.equal(refused.error.hint, 'come back tomorrow');
    const marked = await editor.marked(found => found.some(one => one.message.includes('no more greetings today')));
    assert.equal(editor.cut(marked.find(one => one.code === 'greetings_spent').range), '"greeter_1"');
    await assert.rejects(run('refuse', 'no object'), error => error.code === lsp.ErrorCodes.InvalidParams);
    assert.equal((await run('greet', { name: 'Ada' })).ok, true);
  },

  async custom(editor) {
    await editor.start(WORDS);
    const ask = (method, params) => editor.connection.sendRequest(method, params);
    const { token } = await ask('execute', { pipeline: JSON.parse(GREETER) });
    const reports = [];
    editor.connection.onNotification('rrext_progress', report => reports.push(report.progress));
    const { result } = await ask('rrext_process', { subcommand: 'tool', tool: 'count', input: { to: 20 }, progress: true, token });
    assert.deepEqual(result, { counted: 20 });
    assert.equal(reports.at(-1), 20);
    await assert.rejects(ask('rrext_process', { subcommand: 'tool', tool: 'great', token }), error => {
      assert.deepEqual(error.data.near, ['greet']);
      return error.code === -32010;
    });
  },

  async trust(editor) {
    await editor.start({ nodes: WORDS.nodes });
    const [unknown] = await editor.open(GREETER);
    assert.equal(unknown.code, 'unknown_provider');
    assert.equal(unknown.severity, lsp.DiagnosticSeverity.Information);
    const lenses = await editor.request(lsp.CodeLensRequest.type, {});
    assert.ok(lenses.filter(lens => !lens.command.title.includes('graph')).every(lens => lens.command.title.includes('not trusted')));
    const command = { command: 'rrext.runTool', arguments: [{ uri: editor.uri, tool: 'greet', input: { name: 'Ada' } }] };
    await assert.rejects(editor.connection.sendRequest(lsp.ExecuteCommandRequest.type, command), error => error.data.code === 'not_trusted');
  },
};

async function main(scenario, folder, command, ...given) {
  const server = spawn(command, given, { stdio: ['pipe', 'pipe', 'inherit'], cwd: folder });
  const connection = lsp.createProtocolConnection(new lsp.StreamMessageReader(server.stdout), new lsp.StreamMessageWriter(server.stdin));
  connection.onError(([error]) => assert.fail(error));
  connection.onUnhandledNotification(() => {});
  connection.listen();
  try {
    await scenarios[scenario](new Editor(connection, folder));
    const ended = once(server, 'exit');
    await connection.sendRequest(lsp.ShutdownRequest.type);
    await connection.sendNotification(lsp.ExitNotification.type);
    assert.deepEqual(await ended, [0, null]);
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
