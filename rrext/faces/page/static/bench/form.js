// A form made from a JSON Schema: as fields, or as the JSON that they make.

import { element } from "../elements.js";
import { ABSENT, MOST_FIELDS, Slot, escaped } from "./fields.js";
import { decode, encode, isObject } from "./json.js";
import { resolved } from "./schema.js";

export class Form {
  // `title` is read to those who do not see the form.
  constructor(schema, title) {
    const root = isObject(schema) ? schema : {};
    const says = resolved(root, root) ?? {};
    const input = ["type", "anyOf", "oneOf", "const", "enum"].some((name) => Object.hasOwn(says, name)) ? root : { ...root, type: "object" };
    this.slot = new Slot("input", input, { isRequired: true, at: { root, depth: 0, budget: { left: MOST_FIELDS } } });
    this.slot.root.classList.add("whole");
    this.text = element("textarea", { class: "json", rows: "8", autocomplete: "off", autocapitalize: "none", spellcheck: "false", "aria-label": "Input as JSON" });
    this.error = element("p", { class: "error problem", role: "alert", hidden: true });
    this.fields = element("div", { class: "fields" }, this.slot.root);
    this.raw = element("div", { class: "raw", hidden: true }, this.text);
    this.byFields = this.way("As a form", () => this.showFields());
    this.byText = this.way("As JSON", () => this.showText());
    const ways = element("div", { class: "ways", role: "group", "aria-label": "Way to fill in the input" }, this.byFields, this.byText);
    this.root = element("div", { role: "group", "aria-label": title }, ways, this.fields, this.raw, this.error);
    this.turn(false);
  }

  way(name, onclick) {
    return element("button", { type: "button", class: "way", onclick }, name);
  }

  get isText() {
    return !this.raw.hidden;
  }

  turn(isText) {
    this.raw.hidden = !isText;
    this.fields.hidden = isText;
    this.byText.setAttribute("aria-pressed", String(isText));
    this.byFields.setAttribute("aria-pressed", String(!isText));
    this.tell([]);
  }

  showText() {
    if (this.isText) return;
    const problems = [];
    const value = this.slot.read(problems, "");
    const broken = problems.filter((each) => !each.isMissing);
    if (broken.length) { // it would be lost
      this.tell(broken);
      return;
    }
    this.text.value = encode(value === ABSENT ? {} : value, 2);
    this.turn(true);
  }

  showFields() {
    if (!this.isText) return;
    try {
      const value = decode(this.text.value.trim() || "{}");
      if (this.slot.write(value)) this.turn(false);
      else this.say("This input has what the form has no field for. It can be sent as it is.");
    } catch (error) {
      this.say("This is no JSON: " + error.message);
    }
  }

  // The value, or null after the page has said what is wrong.
  read() {
    this.tell([]);
    if (this.isText) {
      try {
        return { value: decode(this.text.value.trim() || "{}") };
      } catch (error) {
        this.say("This is no JSON: " + error.message);
        return null;
      }
    }
    const problems = [];
    const value = this.slot.read(problems, "");
    if (problems.length === 0) return { value: value === ABSENT ? {} : value };
    this.tell(problems);
    return null;
  }

  // Show each message at its field; what has none stands below the form.
  tell(problems) {
    for (const slot of this.told ?? []) slot.tell("");
    this.told = [];
    const others = [];
    for (const { path, message } of problems) {
      const parts = path.split("/").slice(1).map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
      let slot = this.slot;
      let depth = 0;
      for (let next = slot.at(parts[0]); depth < parts.length && next !== null; next = slot.at(parts[depth])) {
        slot = next;
        depth += 1;
      }
      const rest = parts.slice(depth).map((part) => "/" + escaped(part)).join("");
      if (this.isText || slot === this.slot) {
        others.push((this.isText ? path : rest) + (path && (this.isText || rest) ? ": " : "") + message);
      } else {
        slot.tell((rest ? rest + ": " : "") + message);
        this.told.push(slot);
      }
    }
    this.say(others.join("\n"));
    this.told[0]?.focus();
  }

  say(message) {
    this.error.textContent = message;
    this.error.hidden = message === "";
  }

  reset() {
    this.tell([]);
    this.slot.reset();
    this.text.value = "{}";
  }
}
