// One tool of the workbench: its form, the call, what the call asks and tells, and what came of it.

import { element, latency, named, say, whole } from "../elements.js";
import { Form } from "./form.js";
import { encode, isObject, numberOf } from "./json.js";
import { cut, tableOf, tableView, valueView } from "./results.js";

const MOST_LIVE = 20000; // characters of chunks that are shown while more come: a frame has no time for more
const MOST_CHUNKS = 16 * 1024 * 1024; // characters of chunks that are kept; the oldest ones go

export class Panel {
  constructor(calls, token, tool) {
    this.calls = calls;
    this.token = token;
    this.tool = tool;
    this.seq = null;
    this.isRunning = false;
    this.isDue = false;
    this.form = new Form(tool.inputSchema, "Input of " + tool.name);
    this.heading = element("h3", { tabindex: "-1" }, named(tool.name), " ", element("span", { class: "faint" }, named(tool.nodeId)));
    const marks = Object.entries(isObject(tool.annotations) ? tool.annotations : {}).filter(([, value]) => value === true);
    this.timeout = element("input", { type: "text", inputmode: "decimal", class: "short", autocomplete: "off", placeholder: "none" });
    this.space = element("input", { type: "text", autocomplete: "off", spellcheck: "false", placeholder: "none" });
    const more = element("details", { class: "more", "aria-label": "Options" }, element("summary", {}, "Options"), element("p", {}, element("label", {}, "Seconds until it is given up ", this.timeout)), element("p", {}, element("label", {}, "Space ", this.space)));
    this.run = element("button", { type: "submit", class: "main" }, "Run");
    this.stop = element("button", { type: "button", class: "danger", hidden: true, onclick: () => this.cancel() }, "Cancel");
    const fresh = element("button", { type: "button", onclick: () => this.form.reset() }, "Empty the form");
    this.progress = element("progress", { hidden: true, "aria-label": "Progress" });
    this.state = element("p", { role: "status", class: "outcome" });
    this.step = element("p", { class: "faint" });
    this.asked = element("div");
    this.result = element("div", { class: "result" });
    const form = element("form", { method: "post", autocomplete: "off", novalidate: true }, this.form.root, more, element("p", { class: "buttons left" }, this.run, this.stop, fresh));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.call();
    });
    form.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit(this.run);
    });
    this.root = element(
      "div",
      { class: "panel" },
      this.heading,
      tool.description ? element("p", { class: "description" }, named(tool.description)) : null,
      marks.length ? element("p", { class: "marks" }, ...marks.map(([name]) => element("span", { class: "mark" }, spaced(name)))) : null,
      form,
      this.progress,
      this.state,
      this.step,
      this.asked,
      this.result,
    );
  }

  options() {
    const options = {};
    const seconds = this.timeout.value.trim();
    if (seconds !== "") options.timeout = numberOf(seconds) ?? seconds; // the server says what is wrong with it
    const space = this.space.value.trim();
    if (space !== "") options.context = { spaceId: space };
    return options;
  }

  async call() {
    if (this.isRunning) return;
    const read = this.form.read();
    if (read === null) return;
    this.begin();
    const began = performance.now();
    const took = () => latency((performance.now() - began) / 1000);
    const { nodeId, name } = this.tool;
    const more = { progress: true, stream: true, permits: true, questions: ["form", "url"] };
    let answer;
    try {
      const sent = await this.calls.send(
        "rrext_process",
        { subcommand: "tool", token: this.token, nodeId, tool: name, input: read.value, ...more, ...this.options() },
        (event, body) => this.take(event, body),
      );
      this.seq = sent.seq;
      this.stop.hidden = false;
      answer = await sent.answer;
    } catch (error) {
      this.end((error.code === "cancelled" ? "Cancelled after " : "Failed after ") + took() + ".", "error");
      this.showFailure(error);
      return;
    }
    this.end("Done in " + took() + ".", "good");
    this.showResult(answer.result);
  }

  begin() {
    this.isRunning = true;
    this.run.setAttribute("aria-disabled", "true"); // one that is disabled would lose the focus
    this.chunks = [];
    this.kept = this.dropped = 0;
    this.unseen = "";
    this.live = null;
    this.result.replaceChildren();
    this.asked.replaceChildren();
    this.progress.removeAttribute("value");
    this.progress.hidden = false;
    say(this.step, "");
    this.tell("Running…", "");
  }

  end(text, style) {
    this.isRunning = false;
    this.seq = null;
    this.run.removeAttribute("aria-disabled");
    const hadFocus = this.stop === document.activeElement || this.asked.contains(document.activeElement);
    this.stop.hidden = true;
    this.progress.hidden = true;
    this.asked.replaceChildren();
    if (hadFocus) this.run.focus();
    this.tell(text, style);
  }

  tell(text, style) {
    say(this.state, text);
    this.state.className = "outcome " + style;
  }

  async cancel() {
    try {
      await this.calls.ask("cancel", { requestId: this.seq });
    } catch (error) {
      say(this.step, "It was not cancelled: " + error.message);
    }
  }

  // The events of the call

  take(event, body) {
    if (event === "rrext_progress") this.showProgress(body);
    else if (event === "rrext_chunk") this.takeChunk(body.chunk);
    else if (event === "rrext_permission") this.askPermit(body);
    else if (event === "rrext_question") this.askQuestion(body);
  }

  showProgress({ progress, total, message }) {
    if (total > 0) {
      this.progress.max = Number(total);
      this.progress.value = Number(progress);
    }
    const count = encode(progress) + (total === undefined || total === null ? "" : " of " + encode(total));
    say(this.step, count + (message ? ": " + message : ""));
  }

  // Chunks are shown as they come, as far as there is room: once a frame, as there may be thousands in one.
  takeChunk(chunk) {
    const text = typeof chunk === "string" ? chunk : encode(chunk) + "\n";
    this.chunks.push(text);
    this.kept += text.length;
    if (this.kept > 2 * MOST_CHUNKS) this.dropChunks();
    this.unseen += text;
    if (this.unseen.length > 2 * MOST_LIVE) this.unseen = this.unseen.slice(-MOST_LIVE);
    if (this.isDue) return;
    this.isDue = true;
    requestAnimationFrame(() => this.showChunks());
  }

  dropChunks() {
    let number = 0;
    while (this.kept > MOST_CHUNKS && number < this.chunks.length - 1) {
      this.kept -= this.chunks[number].length;
      number += 1;
    }
    this.chunks.splice(0, number);
    this.dropped += number;
  }

  showChunks() {
    this.isDue = false;
    if (!this.isRunning) return;
    if (this.live === null) {
      this.live = element("pre", { class: "value", tabindex: "0", role: "group", "aria-label": "What came so far" });
      this.result.replaceChildren(this.live);
    }
    const isAtEnd = this.live.scrollHeight - this.live.scrollTop - this.live.clientHeight < 8;
    this.live.append(this.unseen);
    this.unseen = "";
    if (this.live.textContent.length > MOST_LIVE) this.live.textContent = this.live.textContent.slice(-MOST_LIVE);
    if (isAtEnd) this.live.scrollTop = this.live.scrollHeight;
  }

  askPermit({ permission, tool, nodeId, arguments: args, within }) {
    const answer = (allow) => this.answer(box, "rrext_permit", { permission, allow });
    const box = element(
      "div",
      { class: "notice ask", role: "alertdialog", "aria-label": "A permit is asked for" },
      element("p", {}, "May ", element("b", {}, named(nodeId + "." + tool)), " run", within ? " for " : "", within ? named(within) : "", "?"),
      element("pre", { class: "value" }, cut(encode(args ?? {}, 2))),
      element("p", { class: "buttons" }, element("button", { type: "button", onclick: () => answer(false) }, "Refuse"), element("button", { type: "button", class: "main", onclick: () => answer(true) }, "Permit once")),
    );
    this.asked.append(box);
    box.querySelector("button").focus();
  }

  askQuestion({ question, tool, nodeId, params, withdrawn }) {
    if (withdrawn) {
      for (const box of this.asked.querySelectorAll(".ask")) if (box.dataset.question === String(question)) box.remove();
      return;
    }
    const answer = (action, content) => this.answer(box, "rrext_answer", { question, action, ...(content === undefined ? {} : { content }) });
    const isLink = params.mode === "url";
    const form = isLink ? null : new Form(params.requestedSchema ?? { type: "object" }, "Answer");
    const accept = () => {
      const read = form === null ? {} : form.read();
      if (read !== null) answer("accept", read.value);
    };
    const box = element(
      "form",
      { class: "notice ask", role: "alertdialog", "aria-label": "A question", method: "post", "data-question": String(question), novalidate: true },
      element("p", {}, element("b", {}, named(tool ? nodeId + "." + tool : nodeId)), " asks: ", named(String(params.message ?? ""))),
      isLink ? element("p", {}, "Open this address yourself, if you trust it: ", element("code", {}, named(String(params.url ?? "")))) : form.root,
      element("p", { class: "buttons" }, element("button", { type: "button", onclick: () => answer("decline") }, "Decline"), element("button", { type: "submit", class: "main" }, isLink ? "I have done that" : "Answer")),
    );
    box.addEventListener("submit", (event) => {
      event.preventDefault();
      accept();
    });
    this.asked.append(box);
    (box.querySelector(".field input, .field select, .field textarea") ?? box.querySelector("button")).focus();
  }

  async answer(box, command, args) {
    box.remove();
    this.stop.focus();
    try {
      const { answered } = await this.calls.ask(command, args);
      if (!answered) say(this.step, "The answer came too late.");
    } catch (error) {
      say(this.step, "The answer did not arrive: " + error.message);
    }
  }

  // What came of it

  showResult(result) {
    const parts = [];
    if (this.chunks.length) {
      const dropped = this.dropped ? whole(this.dropped) + " of the first ones are not kept." : "";
      parts.push(valueView("Chunks", this.chunks.join(""), dropped));
    }
    if (result !== undefined && (result !== null || this.chunks.length === 0)) {
      const rows = tableOf(result);
      if (rows !== null) parts.push(tableView(rows));
      parts.push(valueView("Result", typeof result === "string" ? result : encode(result, 2), ""));
    }
    this.result.replaceChildren(...parts);
  }

  showFailure({ code, message, hint, data }) {
    const errors = code === "invalid_arguments" && Array.isArray(data?.errors) ? data.errors : [];
    const ours = errors.filter(({ path }) => path === "/input" || path.startsWith("/input/"));
    const facts = [["Code", code ?? "error"], ["Message", message], ...(hint ? [["Hint", hint]] : [])];
    const list = element("dl", { class: "facts failure" }, ...facts.map(([name, text]) => element("div", {}, element("dt", {}, name), element("dd", {}, named(String(text))))));
    const parts = [list];
    if (this.chunks.length) parts.push(valueView("Chunks until then", this.chunks.join(""), ""));
    if (data !== undefined && ours.length < errors.length + (errors.length === 0)) parts.push(valueView("Data", encode(data, 2), ""));
    this.result.replaceChildren(...parts);
    if (ours.length) this.form.tell(ours.map((each) => ({ path: each.path.slice("/input".length), message: each.message })));
  }
}

function spaced(name) {
  return name.replace(/Hint$/, "").replace(/[A-Z]/g, (letter) => " " + letter.toLowerCase());
}
