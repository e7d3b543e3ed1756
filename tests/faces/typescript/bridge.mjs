/** A face over the client for TypeScript: one request on each line of stdin, one answer on each line of stdout. */
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [package_, place] = process.argv.slice(2);
const from = (name) => import(pathToFileURL(`${package_}/dist/${name}.js`));
const [{ Client }, { decode, encode }] = [await from('index'), await from('json')];
const { address, command } = JSON.parse(place);
const client = await (command ? Client.spawn([], { command }) : Client.connect(address));

for await (const line of createInterface(process.stdin)) {
  const { name, args, tail } = decode(Buffer.from(line));
  const asked = client.request(name, args, { tail: tail && Buffer.from(tail, 'base64') });
  const said = await asked.then(
    ({ data, ...body }) => (data instanceof Uint8Array ? { body, tail: data.toString('base64') } : { body: data === undefined ? body : { ...body, data } }),
    ({ code, message, hint, data }) => ({ code, message, hint, data }),
  );
  console.log(encode(said));
}
await client.close();
