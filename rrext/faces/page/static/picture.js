// The picture of a pipeline, with live counts on its nodes and edges, and the same as tables.

import { element, named, say, short, whole } from "./elements.js";

export class PipelinePicture {
  constructor(feed, token, title) {
    this.feed = feed;
    this.token = token;
    this.title = title;
    this.row = null;
    this.nodes = [];
    this.edges = [];
    this.frame = element("div", { class: "picture", tabindex: "0", role: "group", "aria-label": "Picture of " + title });
    this.table = element("details", { class: "counts" }, element("summary", {}, "Counts as a table"));
    this.root = element("div", {}, this.frame, this.table);
    this.load();
  }

  // XMLHttpRequest makes a document of the answer by itself; no text becomes markup in this page.
  load() {
    const request = new XMLHttpRequest();
    request.open("POST", "/status/picture");
    request.responseType = "document";
    request.setRequestHeader("Content-Type", "application/json");
    for (const [name, value] of Object.entries(this.feed.headers())) request.setRequestHeader(name, value);
    request.addEventListener("loadend", () => {
      const drawn = request.status === 200 ? request.responseXML : null;
      if (drawn === null) this.frame.replaceChildren(element("p", { class: "faint" }, "There is no picture of this pipeline."));
      else this.show(document.importNode(drawn.documentElement, true));
    });
    request.send(JSON.stringify({ token: this.token }));
  }

  show(svg) {
    svg.setAttribute("aria-label", "Nodes and edges of " + this.title + ". The table below has the counts.");
    this.frame.replaceChildren(svg);
    const nodeRows = element("tbody");
    const edgeRows = element("tbody");
    for (const group of svg.querySelectorAll("g[data-node]")) {
      const node = group.dataset.node;
      const [provider] = texts(group, "provider");
      const cells = ["0", "0", "0"].map((text) => element("td", { class: "number" }, text));
      nodeRows.append(element("tr", {}, element("th", { scope: "row" }, named(node)), element("td", {}, named(provider ?? "")), ...cells));
      this.nodes.push({ group, node, cells, place: group.querySelector("text.count"), isSource: group.classList.contains("source") });
    }
    for (const group of svg.querySelectorAll("g[data-edge]")) {
      const { edge, names, from, to } = group.dataset;
      const cell = element("td", { class: "number" }, "0");
      edgeRows.append(
        element("tr", {}, element("th", { scope: "row" }, named(from)), element("td", {}, named(to)), element("td", {}, edge), element("td", {}, named(names)), cell),
      );
      this.edges.push({ kind: edge, names: names.split(" "), from, to, cell, place: group.querySelector("text.count") });
    }
    this.table.append(
      table("Nodes", ["Node", "Provider", "Calls", "At work", "Failed"], nodeRows),
      table("Edges", ["From", "To", "Kind", "Names", "Count"], edgeRows),
    );
    if (this.row !== null) this.update(this.row);
  }

  update(row) {
    this.row = row;
    const sources = this.nodes.filter((each) => each.isSource);
    for (const { group, node, cells, place, isSource } of this.nodes) {
      const counts = row.nodes[node] ?? [0, 0, 0];
      const calls = counts[0] + (isSource && sources.length === 1 ? row.objects : 0);
      const [, now, failed] = counts;
      [calls, now, failed].forEach((count, index) => say(cells[index], whole(count)));
      const parts = ["×" + short(calls)];
      if (now) parts.push(short(now) + " now");
      if (failed) parts.push(short(failed) + " failed");
      say(place, parts.join(" "));
      group.classList.toggle("busy", now > 0);
      group.classList.toggle("failing", failed > 0);
    }
    const source = sources.length === 1 ? sources[0].node : null; // where the calls of clients begin
    for (const { kind, names, from, to, cell, place } of this.edges) {
      const isAlong = (name) => (kind === "data" ? names.includes(name) : name === "" ? from === source : name === from || name.startsWith(from + "."));
      const along = row.edges.filter(([each, name, end]) => each === kind && end === to && isAlong(name));
      const count = along.reduce((sum, edge) => sum + edge[3], 0);
      say(cell, whole(count));
      say(place, " ×" + short(count));
    }
  }
}

function texts(group, style) {
  return [...group.querySelectorAll("text." + style)].map((text) => text.textContent);
}

function table(caption, columns, body) {
  const heads = columns.map((name, index) => element("th", { scope: "col", class: index > 1 && name !== "Kind" && name !== "Names" ? "number" : null }, name));
  return element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption }, element("table", {}, element("caption", {}, caption), element("thead", {}, element("tr", {}, ...heads)), body));
}
