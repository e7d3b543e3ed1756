// An official TypeScript client of the Model Context Protocol: `node mcp_peer.mjs PACKAGE COMMAND WORD…`, or a URL
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [name, command, ...args] = process.argv.slice(2);
const require = createRequire(process.env.RREXT_NODE_MODULES + "/");
const load = (path) => import(pathToFileURL(require.resolve(path)));
const sdk = name === "@modelcontextprotocol/sdk";
const { Client } = await load(sdk ? `${name}/client/index.js` : name);
const { StdioClientTransport } = await load(sdk ? `${name}/client/stdio.js` : `${name}/stdio`);

const client = new Client({ name: "peer", version: "1" }, { capabilities: { elicitation: { form: {} } } });
const { StreamableHTTPClientTransport } = await load(sdk ? `${name}/client/streamableHttp.js` : name);
const transport = command.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args, stderr: "inherit" });
const asked = [];
const answer = async ({ params }) => {
  asked.push(params.message);
  return { action: "accept", content: { allow: !params.message.includes("no!") } };
};
const schemas = sdk ? await load(`${name}/types.js`) : {};
client.setRequestHandler(sdk ? schemas.ElicitRequestSchema : "elicitation/create", answer);
await client.connect(transport);
const call = (name, args, ...options) => client.callTool({ name, arguments: args }, ...options);
const callWith = (name, args, options) => (sdk ? call(name, args, undefined, options) : call(name, args, options));

assert.equal(client.getServerVersion().name, "rrext");
const { tools } = await client.listTools();
assert.ok(tools.find((tool) => tool.name === "add").inputSchema.properties.a);

assert.deepEqual((await call("add", { a: 2 })).structuredContent, { sum: 3 });
assert.deepEqual((await call("echo", { value: "text" })).content, [{ type: "text", text: "text" }]);
const picture = Buffer.from("\x89PNG\r\n\x1a\n", "latin1").toString("base64");
assert.deepEqual((await call("blob", { data: picture })).content, [{ type: "image", data: picture, mimeType: "image/png" }]);
assert.equal((await call("blob", { data: "AA==" })).content[0].type, "resource");

assert.equal((await call("add", { b: "x" })).isError, true);
await assert.rejects(call("nobody", {}), (error) => error.code === -32602);

const sums = await Promise.all(Array.from({ length: 100 }, (_, a) => call("add_async", { a })));
assert.deepEqual(sums.map((result) => result.structuredContent.sum), Array.from({ length: 100 }, (_, a) => a + 1));

const seen = [];
const onprogress = async (progress) => {
  seen.push(progress.message);
  await call("open_gate", { key: "gate" });
};
assert.equal((await callWith("wait", { key: "gate" }, { onprogress })).content[0].text, "passed");
assert.deepEqual(seen, ["parked"]);

const stop = new AbortController();
const begun = () => stop.abort("enough");
await assert.rejects(callWith("wait", { key: "given up" }, { signal: stop.signal, onprogress: begun }));
while ((await call("journal", { key: "given up" })).content[0].text !== '["unwound"]');

assert.equal((await call("write_down", { key: "asked" })).isError, undefined);
assert.equal((await call("write_down", { key: "asked", text: "no!" })).isError, true);
assert.equal((await call("journal", { key: "asked" })).content[0].text, '["ran"]');
assert.equal(asked.length, 2);

const { prompts } = await client.listPrompts();
assert.deepEqual(prompts.map((prompt) => prompt.name), ["greeting"]);
const { messages } = await client.getPrompt({ name: "greeting", arguments: { question: "Who is Ada?" } });
assert.match(messages[0].content.text, /Greet the person\.[^]*Who is Ada\?/);
await assert.rejects(client.getPrompt({ name: "farewell" }), (error) => error.code === -32602);

const { resources } = await client.listResources();
const { uri } = resources.find((resource) => resource.name === "judge.pipe");
assert.match((await client.readResource({ uri })).contents[0].text, /What official clients drive/);
await assert.rejects(client.readResource({ uri: uri + "x" }), (error) => [-32602, -32002].includes(error.code));
assert.equal((await client.listResourceTemplates()).resourceTemplates[0].name, "files_1");

assert.deepEqual((await call("shout", { text: "hello" })).structuredContent.reply, ["HELLO\n\n"]);
assert.equal((await call("shout", { text: "fail:" })).isError, true);

await client.close();
console.log("done");
