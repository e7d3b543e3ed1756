// The same tool on the MCP TypeScript SDK's low-level server.
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const number = { type: 'integer' };
const add = { name: 'add', inputSchema: { type: 'object', properties: { a: number, b: number }, required: ['a', 'b'] } };
const server = new Server({ name: 'bench', version: '1' }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, async () => ({ tools: [add] }));
server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
  if (params.name !== 'add') throw new Error(`no tool ${params.name}`);
  return { content: [], structuredContent: { sum: params.arguments.a + params.arguments.b } };
});
await server.connect(new StdioServerTransport());
