// Reads flowcharts as Mermaid does: `node mermaid_peer.mjs NODE_MODULES` takes a JSON list of texts on stdin and answers, for
// each, what Mermaid makes of it: {nodes: [[id, text], …], edges: [[start, end, stroke, text], …]}, or {error}.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const modules = process.argv[2];
const { JSDOM } = createRequire(join(modules, "x.js"))("jsdom");
const { window } = new JSDOM("");
Object.assign(globalThis, { window, document: window.document });
const { default: mermaid } = await import(pathToFileURL(join(modules, "mermaid", "dist", "mermaid.core.mjs")));

function decoded(text) {
  // Mermaid marks entities while it parses, and puts their characters into the image in the end.
  const entities = text.replaceAll("ﬂ°°", "&#").replaceAll("ﬂ°", "&").replaceAll("¶ß", ";");
  const element = window.document.createElement("textarea");
  element.innerHTML = entities.replaceAll("<br>", "\n").replaceAll("<br/>", "\n");
  return element.value;
}

async function read(text) {
  try {
    await mermaid.parse(text);
    const { db } = await mermaid.mermaidAPI.getDiagramFromText(text);
    return {
      nodes: [...db.getVertices().values()].map((node) => [node.id, decoded(node.text)]),
      edges: db.getEdges().map((edge) => [edge.start, edge.end, edge.stroke, decoded(edge.text)]),
    };
  } catch (error) {
    return { error: String(error) };
  }
}

const found = [];
for (const text of JSON.parse(readFileSync(0, "utf-8"))) {
  found.push(await read(text));
}
process.stdout.write(JSON.stringify(found));
