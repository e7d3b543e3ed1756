// The same tools as plain JSON-RPC methods on vscode-jsonrpc.
const { createMessageConnection, StreamMessageReader, StreamMessageWriter } = require('vscode-jsonrpc/node');

const connection = createMessageConnection(new StreamMessageReader(process.stdin), new StreamMessageWriter(process.stdout));
connection.onRequest('add', ({ a, b }) => ({ sum: a + b }));
connection.onRequest('sink', ({ data }) => ({ bytes: Buffer.from(data, 'base64').length }));
connection.listen();
