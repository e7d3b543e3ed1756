// npm's vscode-languageserver-protocol, the library that VS Code itself is built on, drives `rrext lsp`.
//   node lsp_peer.cjs SCENARIO FOLDER COMMAND ARGUMENT…
// Prints nothing and exits 0 if the scenario holds; otherwise the failed assertion is on stderr.
'use strict';
const assert = require('node:assert/strict');
const { once } = require('node:events');
const { spawn } = require('node:child_process');
const { readFileSync } = require('node:fs');
const { join } = require('node:path');
const { pathToFileURL } = require('node:url');
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
    foldingRange: {},
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
    this.progress = [];
    this.shown = [];
    connection.onNotification(lsp.PublishDiagnosticsNotification.type, params => {
      this.published.push(params);
      this.waiting.splice(0).forEach(wake => wake());
    });
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

  async diagnostics() {
    for (;;) {
      const found = this.published.find(params => params.uri === this.uri && params.version === this.document.version);
      if (found) return found.diagnostics;
      await new Promise(wake => this.waiting.push(wake));
    }
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
    for (let seed = 1; seed <= 40; seed += 1) {
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
        const name = editor.cut(diagnostic.range).replace(/^"|"$/g, ''); // an edit may have taken a quote away
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
    const folds = await editor.request(lsp.FoldingRangeRequest.type, {});
    assert.ok(folds.some(one => one.startLine === 4 && one.endLine >= 8), 'a component folds');
    const [selection] = await editor.request(lsp.SelectionRangeRequest.type, { positions: [editor.at('"root"')] });
    const grown = [];
    for (let one = selection; one; one = one.parent) grown.push(editor.cut(one.range));
    assert.ok(grown.includes('{ "root": "library" }'));
    assert.equal(grown.at(-1).trim(), LIBRARY.trim());
    grown.reduce((inner, outer) => { assert.ok(outer.includes(inner) && outer !== inner); return outer; });
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
