// The table of pipelines: a row for each, and its details below it when it is opened.

import { date, duration, element, latency, named, perSecond, say, whole } from "./elements.js";
import { PipelinePicture } from "./picture.js";
import { ToolTimes } from "./times.js";

const OPEN_AT_FIRST = 3; // with more pipelines than these, nothing is open until somebody opens it
const FILTERED = 8; // a filter is of use only among more
const COLUMNS = [
  ["Pipeline", ""],
  ["State", ""],
  ["Calls/s", "number"],
  ["p50", "number wide"],
  ["p99", "number wide"],
  ["Pipes", "number wide"],
  ["Objects", "number wide"],
  ["Calls", "number wide"],
  ["Failed", "number"],
];
const LONG_NAME = 60; // characters; a longer name may be cut in its row
let numbers = 0;

export class TaskTable {
  // `acts` has `terminate(key, name)`, which asks whether to, and does it, and `call(key)`, which goes to the tools of a pipeline.
  constructor(place, heading, filter, feed, acts) {
    this.heading = heading;
    this.feed = feed;
    this.acts = acts;
    this.place = place;
    this.filter = filter;
    this.views = new Map();
    this.wereOpen = new Set();
    this.isFirst = true;
    const heads = COLUMNS.map(([name, style]) => element("th", { scope: "col", class: style || null }, name));
    this.table = element("table", { class: "tasks" }, element("caption", { class: "hidden" }, "Pipelines"), element("thead", {}, element("tr", {}, ...heads)));
    this.empty = element("p", { class: "faint" }, "No pipeline runs. A client starts one with execute, or the command line names it.");
    filter.input.addEventListener("input", () => this.sift());
    filter.failing.addEventListener("change", () => this.sift());
    this.clear();
  }

  // Forget all rows, but for which of them were open: after a break of the connection they are open again.
  clear() {
    if (this.views.size) {
      this.wereOpen = new Set([...this.views.values()].filter((view) => view.isOpen).map((view) => view.key));
      this.isFirst = false;
    }
    for (const view of this.views.values()) view.body.remove();
    this.views.clear();
    this.place.replaceChildren(this.empty);
  }

  update(rows, gone, now) {
    for (const key of gone) this.remove(key);
    for (const { key, row } of rows) {
      const known = this.views.get(key);
      if (known === undefined) this.add(key, row);
      else known.update(row);
    }
    if (this.isFirst && this.views.size <= OPEN_AT_FIRST) {
      for (const view of this.views.values()) view.open();
    }
    this.isFirst = false;
    for (const view of this.views.values()) view.tick(now);
    if (gone.length || rows.length) this.sift();
  }

  remove(key) {
    const body = this.views.get(key)?.body;
    if (body?.contains(document.activeElement)) this.heading.focus(); // or the focus would be lost
    body?.remove();
    this.views.delete(key);
  }

  add(key, row) {
    const view = new TaskView(key, row, this.feed, this.acts);
    const after = row.ended === undefined ? [...this.views.values()].find((each) => each.row.ended !== undefined) : undefined;
    this.table.insertBefore(view.body, after === undefined ? null : after.body); // those that have ended are the last
    this.views.set(key, view);
    if (this.wereOpen.has(key)) view.open();
  }

  sift() {
    const many = this.views.size > FILTERED;
    this.filter.row.hidden = !many;
    const wanted = many ? this.filter.input.value.trim().toLowerCase() : "";
    const isFailing = many && this.filter.failing.checked;
    let shown = 0;
    for (const view of this.views.values()) {
      const { name, source, project, state } = view.row;
      const isNamed = [name, source, project, state].join("\n").toLowerCase().includes(wanted);
      view.body.hidden = !isNamed || (isFailing && !view.hasFailed);
      shown += !view.body.hidden;
    }
    say(this.filter.count, wanted || isFailing ? shown + " of " + this.views.size : "");
    const content = this.views.size ? this.table : this.empty;
    if (this.place.firstChild !== content) this.place.replaceChildren(content);
  }
}

class TaskView {
  constructor(key, row, feed, acts) {
    this.key = key;
    this.feed = feed;
    this.acts = acts;
    this.picture = null;
    this.times = null;
    this.now = 0;
    this.isOpen = false;
    const id = "task-" + ++numbers;
    this.toggle = element("button", { type: "button", class: "toggle", "aria-expanded": "false", "aria-controls": id, onclick: () => this.turn() }, named(row.name));
    this.cells = COLUMNS.slice(1).map(([name, style]) => element("td", { class: style || null }));
    this.details = element("tr", { class: "details", id, hidden: true }, element("td", { colspan: COLUMNS.length }));
    const head = element("th", { scope: "row" }, this.toggle);
    this.body = element("tbody", {}, element("tr", { class: "task" }, head, ...this.cells), this.details);
    this.update(row);
  }

  get hasFailed() {
    return this.row.ended === undefined ? this.row.failedCalls + this.row.failed > 0 : this.row.state === "Failed";
  }

  turn() {
    if (this.isOpen) this.close();
    else this.open();
  }

  close() {
    this.isOpen = false;
    this.details.hidden = true;
    this.toggle.setAttribute("aria-expanded", "false");
  }

  open() {
    this.isOpen = true;
    this.details.hidden = false;
    this.toggle.setAttribute("aria-expanded", "true");
    if (this.facts === undefined) this.build();
    this.update(this.row);
  }

  build() {
    this.facts = element("dl", { class: "facts" });
    this.lists = element("div");
    const parts = [this.facts];
    if (this.row.ended === undefined) {
      this.picture = new PipelinePicture(this.feed, this.key, this.row.name);
      this.times = new ToolTimes(this.feed, this.key);
      parts.push(element("p", {}, element("button", { type: "button", onclick: () => this.acts.call(this.key) }, "Call its tools…")), this.picture.root, this.times.root);
    }
    parts.push(this.lists);
    if (this.row.own) {
      parts.push(element("p", {}, element("button", { type: "button", class: "danger", onclick: () => this.acts.terminate(this.key, this.row.name) }, "Terminate…")));
    } else if (this.row.ended === undefined) {
      parts.push(element("p", { class: "faint" }, "This pipeline is the server's: its clients use it, and do not end it. You see your own traffic."));
    }
    this.details.firstChild.append(...parts);
  }

  // The server's clock, once a second: times are told from it, whatever the clock of the browser says.
  tick(now) {
    this.now = now;
    if (!this.isOpen || this.facts === undefined) return;
    this.tell(facts(this.row, now));
    if (this.body.offsetParent !== null) this.times?.look(); // nobody sees it beside the workbench
  }

  update(row) {
    this.row = row;
    const isRunning = row.ended === undefined;
    const failed = isRunning ? row.failedCalls + row.failed : 0;
    const texts = isRunning
      ? [row.restarts ? row.state + ", " + whole(row.restarts.count) + "× restarted" : row.state, perSecond(row.rate), latency(row.p50), latency(row.p99), whole(row.pipes), whole(row.completed), whole(row.calls), whole(failed)]
      : [row.state, "–", "–", "–", "–", "–", "–", "–"];
    texts.forEach((text, index) => say(this.cells[index], text));
    this.cells[0].className = "state " + (isRunning ? (row.unavailable.length ? "partial" : "running") : row.state === "Failed" ? "error" : "ended");
    this.cells[7].classList.toggle("error", failed > 0);
    if (!this.isOpen) return;
    this.tell(facts(row, this.now));
    if (isRunning) {
      this.list([
        ["Unavailable nodes", row.unavailable.map((each) => each.nodeId + " (" + each.provider + "): " + each.reason)],
        ["Errors of objects", row.errors],
        ["Warnings", row.warnings],
      ]);
      this.picture?.update(row);
    }
  }

  tell(found) {
    if (found.map(([name]) => name).join() !== this.factNames) {
      this.factNames = found.map(([name]) => name).join();
      this.facts.replaceChildren(...found.map(([name]) => element("div", {}, element("dt", {}, name), element("dd", {}, named("")))));
    }
    found.forEach(([, text], index) => say(this.facts.children[index].querySelector("bdi"), text));
  }

  list(lists) {
    const told = JSON.stringify(lists);
    if (told === this.told) return;
    this.told = told;
    this.lists.replaceChildren(
      ...lists.filter(([, items]) => items.length).map(([name, items]) => element("div", { class: "notes" }, element("h3", {}, name), element("ul", {}, ...items.map((item) => element("li", {}, named(item)))))),
    );
  }
}

const WHY = { restarted: "restarted", lost: "its process was lost" };

function facts(row, now) {
  const found = [
    ...(row.name.length > LONG_NAME ? [["Name", row.name]] : []),
    ["Started", date(row.began)],
    ["Source", row.source || "–"],
    ["Project", row.project || "–"],
  ];
  if (row.ended !== undefined) {
    return [...found, ["Ended", date(row.ended)], ["Ran for", duration(row.ended - row.began)], ["Exit code", row.exitCode === null ? "unknown" : String(row.exitCode)], ["Objects of its whole life", objects(row)]];
  }
  const { used, limit, waiting } = row.threads;
  found.find(([name]) => name === "Started")[1] += now ? ", " + duration(now - row.began) + " ago" : "";
  if (row.restarts) found.push(["Restarts", whole(row.restarts.count) + ", last at " + date(row.restarts.time) + " (" + WHY[row.restarts.reason] + ")"]);
  found.push(["Calls", whole(row.calls) + ", " + whole(row.failedCalls) + " failed"], ["Latency", latency(row.p50) + " (p50), " + latency(row.p99) + " (p99)"]);
  found.push(["Objects", objects(row) + ", " + whole(row.pipes) + " open"]);
  found.push(["Threads", whole(used) + " of " + whole(limit) + (waiting ? ", " + whole(waiting) + " wait" : "")]);
  if (row.leftBehind) found.push(["Left behind", whole(row.leftBehind) + " calls still run after their answer"]);
  if (row.loopBlocks) found.push(["Loop blocked", whole(row.loopBlocks) + " times"]);
  if (row.description) found.push(["Description", row.description]);
  return found;
}

function objects(row) {
  return whole(row.completed) + " done, " + whole(row.failed) + " failed";
}
