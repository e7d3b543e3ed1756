// The workbench: choose a pipeline and a tool, fill in the form of its schema, run it, see what comes. It asks the server as any
// other client does; what the tools of others say is text.

import { Calls } from "./calls.js";
import { element, named, say } from "../elements.js";
import { encode } from "./json.js";
import { Panel } from "./panel.js";

const FILTERED = 8; // a filter is of use only among more
const KEPT_PANELS = 12; // tools whose input and result are kept while others are shown

export class Bench {
  constructor(place, key) {
    this.calls = new Calls(key);
    this.pipelines = new Map();
    this.panels = new Map();
    this.tools = [];
    this.token = null;
    this.listing = 0;
    this.isOld = true;
    this.at = (id) => place.querySelector("#bench-" + id);
    this.at("find").addEventListener("input", () => this.showPipelines());
    this.at("filter").addEventListener("input", () => this.showTools());
    this.at("pipeline").addEventListener("change", () => this.choose(this.at("pipeline").value));
    this.at("refresh").addEventListener("click", () => this.list());
    this.isOpen = false;
    this.clear();
  }

  // Forget all that was filled in and all results, and end what runs.
  forget() {
    this.calls.close();
    this.pipelines.clear();
    this.panels.clear();
    this.clear();
  }

  clear() {
    this.token = null;
    this.tools = [];
    this.chosen = null;
    this.at("find").value = this.at("filter").value = "";
    this.at("work").replaceChildren(element("p", { class: "faint" }, "Choose a tool to call it."));
    this.showPipelines();
    this.showTools();
  }

  // Nobody looks: what runs goes on, and its connection with it.
  rest() {
    if (!this.calls.isBusy) this.calls.close();
  }

  open() {
    this.isOpen = true;
    if (this.token === null && this.pipelines.size) this.choose([...this.pipelines.keys()][0]);
  }

  // The next update has all pipelines: which of them ended meanwhile, nobody tells.
  begin() {
    this.isOld = true;
  }

  // Take what the server tells of its pipelines; those that have ended are none to call.
  update(rows, gone) {
    let isOther = false;
    if (this.isOld) {
      const now = new Set(rows.map(({ key }) => key));
      gone = [...this.pipelines.keys()].filter((key) => !now.has(key));
      this.isOld = false;
    }
    for (const key of gone) isOther = this.pipelines.delete(key) || isOther;
    for (const { key, row } of rows) {
      if (row.ended !== undefined) continue;
      const known = this.pipelines.get(key);
      if (known === undefined || known.name !== row.name || known.began !== row.began) {
        this.pipelines.set(key, row);
        isOther = true;
        if (known !== undefined && key === this.token) this.list(); // it was restarted: its tools may be others
      }
    }
    if (isOther) this.showPipelines();
    if (this.isOpen && this.token === null) this.open();
  }

  showPipelines() {
    const find = this.at("find");
    this.at("find-row").hidden = this.pipelines.size <= FILTERED;
    const wanted = find.value.trim().toLowerCase();
    const all = [...this.pipelines].sort(([, one], [, other]) => one.name.localeCompare(other.name, "en", { numeric: true }));
    const shown = all.filter(([, row]) => row.name.toLowerCase().includes(wanted));
    const options = shown.map(([key, row]) => element("option", { value: key, dir: "auto" }, row.name));
    const select = this.at("pipeline");
    const isHere = shown.some(([key]) => key === this.token);
    if (!isHere) options.unshift(element("option", { value: "" }, this.pipelines.size === 0 ? "no pipeline runs" : shown.length ? "choose…" : "none has this name"));
    select.replaceChildren(...options);
    select.value = isHere ? this.token : "";
    say(this.at("found"), wanted ? shown.length + " of " + this.pipelines.size : "");
    if (this.token !== null && !this.pipelines.has(this.token)) this.say("This pipeline has ended.", true);
  }

  choose(token) {
    if (token === "" || !this.pipelines.has(token)) return;
    this.token = token;
    this.chosen = null;
    this.at("filter").value = "";
    if (!this.pipelines.get(token).name.toLowerCase().includes(this.at("find").value.trim().toLowerCase())) this.at("find").value = "";
    this.tools = [];
    this.at("work").replaceChildren(element("p", { class: "faint" }, "Choose a tool to call it."));
    this.showPipelines();
    this.showTools();
    this.list();
  }

  async list() {
    const listing = ++this.listing;
    const { token } = this;
    if (token === null) return;
    this.say("Looking for its tools…");
    try {
      const { tools, undescribed = [] } = await this.calls.ask("tools", { token });
      if (listing !== this.listing) return;
      this.tools = tools;
      const missing = undescribed.map((each) => each.nodeId + "." + each.name + ": " + each.message);
      this.say([tools.length ? "" : "It has no tool that you may call.", ...missing].filter(Boolean).join("\n"), missing.length > 0);
    } catch (error) {
      if (listing !== this.listing) return;
      this.tools = [];
      this.say("Its tools are not known: " + error.message, true);
    }
    this.showTools();
    if (this.chosen !== null) this.renew();
  }

  // The chosen tool again, if its schema has changed.
  renew() {
    const tool = this.tools.find((each) => each.nodeId === this.chosen.nodeId && each.name === this.chosen.name);
    if (tool !== undefined && encode(tool) !== encode(this.chosen)) this.show(tool);
  }

  say(text, isError = false) {
    say(this.at("said"), text);
    this.at("said").classList.toggle("error", isError);
  }

  showTools() {
    const filter = this.at("filter");
    this.at("filter-row").hidden = this.tools.length <= FILTERED;
    const wanted = filter.value.trim().toLowerCase();
    const shown = this.tools.filter((tool) => [tool.nodeId, tool.name, tool.description ?? ""].join("\n").toLowerCase().includes(wanted));
    const items = shown.map((tool) => {
      const [line] = String(tool.description ?? "").split("\n");
      const isChosen = this.chosen !== null && tool.nodeId === this.chosen.nodeId && tool.name === this.chosen.name;
      const parts = [element("b", {}, named(tool.name)), element("span", { class: "faint" }, named(tool.nodeId)), line ? element("span", { class: "about" }, named(line)) : null];
      return element("li", {}, element("button", { type: "button", class: "tool", "aria-pressed": String(isChosen), onclick: () => this.show(tool, true) }, ...parts));
    });
    this.at("tools").replaceChildren(...items);
    say(this.at("filtered"), wanted ? shown.length + " of " + this.tools.length : "");
  }

  show(tool, byHand = false) {
    this.chosen = tool;
    const name = encode([this.token, tool.nodeId, tool.name]);
    let panel = this.panels.get(name);
    if (panel === undefined || encode(panel.tool) !== encode(tool)) {
      panel = new Panel(this.calls, this.token, tool);
      this.panels.set(name, panel);
      for (const old of this.panels.keys()) {
        if (this.panels.size > KEPT_PANELS && !this.panels.get(old).isRunning && old !== name) this.panels.delete(old);
      }
    }
    this.at("work").replaceChildren(panel.root);
    for (const button of this.at("tools").querySelectorAll("button")) button.setAttribute("aria-pressed", "false");
    this.showTools();
    if (byHand) panel.heading.focus();
  }
}
