// The fields of a form: one class for each kind of value. A field reads its value, takes another one, and finds what is inside of it.
// Texts of schemas become text nodes and values of attributes: nothing of them is ever markup.

import { element, named, say } from "../elements.js";
import { Numeral, decode, encode, isInteger, isNumber, isObject, numberOf, same } from "./json.js";
import { constOf, extrasOf, itemsOf, kindOf, offersExtras, resolved, rulesOf, shown, typeName, variantName, variants } from "./schema.js";

export const ABSENT = Symbol("absent");
const DEEPEST = 8; // of fields in fields; what is deeper is JSON, as a schema that contains itself has no end
const MOST_AT_FIRST = 10; // items that a list is begun with
export const MOST_FIELDS = 500; // of a form; a schema may ask for ten objects of ten objects of ten objects
const SHORT = 80; // characters of a text for which one line is enough
const SIMPLE = new Set(["string", "integer", "number", "boolean", "enum"]);
let numbers = 0;

// A field for a schema, at a depth inside of the schema `root`. `choices` are the variants to choose from.
export function fieldOf(schema, at, { isOptional = false, choices = variants(schema, at.root) } = {}) {
  const [only] = choices;
  const isSimple = choices.length === 1 && SIMPLE.has(kindOf(only));
  const isTooMuch = !isSimple && (at.depth > DEEPEST || at.budget.left <= 0);
  if (isTooMuch || choices.length === 0) return new JsonField(resolved(schema, at.root) ?? {}, choices.length === 0);
  if (choices.length > 1) return new UnionField(choices, at);
  switch (kindOf(only)) {
    case "const":
      return new ConstField(constOf(only));
    case "enum":
      return new ChoiceField(only.enum, isOptional, only);
    case "boolean":
      return new ChoiceField([true, false], isOptional, only);
    case "integer":
    case "number":
      return new NumberField(only);
    case "string":
      return new TextField(only);
    case "array":
      return new ListField(only, at);
    case "object":
      return new ObjectField(only, at);
    default:
      return new JsonField(only, false);
  }
}

class Field {
  input = null; // the element that a label is for
  onTouch = () => {};

  at() {
    return null;
  }

  listen() {
    this.input.addEventListener("input", () => this.onTouch());
  }
}

class TextField extends Field {
  constructor(schema) {
    super();
    const isSecret = schema.format === "password" || schema.writeOnly === true;
    const isLine = isSecret || typeof schema.format === "string" || schema.pattern !== undefined || schema.maxLength <= SHORT;
    const type = isSecret ? "password" : schema.format === "date" ? "date" : "text";
    const given = typeof schema.default === "string" ? schema.default : null;
    const common = { autocomplete: "off", autocapitalize: "none", spellcheck: "false", placeholder: given };
    const modes = { email: "email", uri: "url", "uri-reference": "url", iri: "url" };
    this.input = isLine ? element("input", { type, ...common, inputmode: modes[schema.format] ?? null }) : element("textarea", { rows: "1", ...common });
    this.root = this.input;
    this.listen();
    if (schema.contentEncoding === "base64") this.root = element("div", {}, this.input, this.files());
  }

  // Bytes are picked as a file, whose name stays here.
  files() {
    const pick = element("input", { type: "file", "aria-label": "Bytes of a file" });
    pick.addEventListener("change", async () => {
      const [file] = pick.files;
      if (file === undefined) return;
      const reader = new FileReader();
      await new Promise((resolve) => {
        reader.onloadend = resolve;
        reader.readAsDataURL(file);
      });
      if (typeof reader.result !== "string") return;
      this.write(reader.result.slice(reader.result.indexOf(",") + 1));
      this.onTouch();
    });
    return pick;
  }

  read(problems, path) {
    if (this.input.validity.badInput) problems.push({ path, message: "this is not complete" });
    return this.input.value;
  }

  write(value) {
    if (typeof value !== "string") return false;
    this.input.value = value;
    if (this.input.value !== value && this.input.type === "date") {
      this.input.type = "text"; // no date, which the field would drop
      this.input.value = value;
    }
    return this.input.value === value;
  }
}

class NumberField extends Field {
  constructor(schema) {
    super();
    this.isWhole = schema.type === "integer";
    const given = isNumber(schema.default) ? encode(schema.default) : null;
    this.input = element("input", { type: "text", inputmode: this.isWhole ? "numeric" : "decimal", autocomplete: "off", spellcheck: "false", placeholder: given, class: "short" });
    this.root = this.input;
    this.listen();
  }

  read(problems, path) {
    const text = this.input.value.trim();
    if (text === "") return ABSENT;
    const value = numberOf(text);
    if (value === null) problems.push({ path, message: this.isWhole ? "this is no whole number" : "this is no number" });
    return value ?? ABSENT;
  }

  write(value) {
    if (!isNumber(value) || (this.isWhole && !isInteger(value))) return false;
    this.input.value = value instanceof Numeral ? value.text : encode(value);
    return true;
  }
}

class ChoiceField extends Field {
  constructor(values, isOptional, schema) {
    super();
    this.values = values;
    const none = !isOptional ? "choose…" : Object.hasOwn(schema, "default") ? "left out: " + shown(schema.default) : "left out";
    const options = values.map((value, index) => element("option", { value: String(index), dir: "auto" }, shown(value)));
    this.input = element("select", { autocomplete: "off" }, element("option", { value: "" }, none), ...options);
    this.root = this.input;
    this.input.addEventListener("change", () => this.onTouch());
  }

  read() {
    return this.input.value === "" ? ABSENT : this.values[Number(this.input.value)];
  }

  write(value) {
    const index = this.values.findIndex((each) => same(each, value));
    this.input.value = index < 0 ? "" : String(index);
    return index >= 0;
  }
}

class ConstField extends Field {
  constructor(value) {
    super();
    this.value = value;
    this.root = element("code", { class: "const" }, named(shown(value)));
  }

  read() {
    return this.value;
  }

  write(value) {
    return same(value, this.value);
  }
}

class JsonField extends Field {
  constructor(schema, isNever) {
    super();
    this.input = element("textarea", { rows: "2", autocomplete: "off", autocapitalize: "none", spellcheck: "false", class: "json", placeholder: isNever ? "no value fits here" : "JSON" });
    if (schema.type === "object") this.input.value = "{}";
    this.root = this.input;
    this.listen();
  }

  read(problems, path) {
    const text = this.input.value.trim();
    if (text === "") return ABSENT;
    try {
      return decode(text);
    } catch (error) {
      problems.push({ path, message: "this is no JSON, in which a text stands in quotes: " + error.message });
      return ABSENT;
    }
  }

  write(value) {
    this.input.value = encode(value, 2);
    return true;
  }
}

class UnionField extends Field {
  constructor(choices, at) {
    super();
    this.choices = choices;
    this.where = at;
    const options = choices.map((each, index) => element("option", { value: String(index), dir: "auto" }, variantName(each)));
    this.input = element("select", { autocomplete: "off" }, ...options);
    this.input.addEventListener("change", () => {
      this.choose(Number(this.input.value));
      this.onTouch();
    });
    this.body = element("div", { class: "body" });
    this.root = element("div", { class: "union" }, this.input, this.body);
    const index = choices.findIndex((each) => kindOf(each) !== "const" || constOf(each) !== null);
    this.choose(Math.max(0, index));
  }

  choose(index) {
    this.input.value = String(index);
    this.field = fieldOf(this.choices[index], { ...this.where, depth: this.where.depth + 1 }, { choices: [this.choices[index]] });
    this.field.onTouch = () => this.onTouch();
    this.field.input?.setAttribute("aria-label", variantName(this.choices[index]));
    this.body.replaceChildren(this.field.root);
  }

  read(problems, path) {
    return this.field.read(problems, path);
  }

  write(value) {
    for (const index of this.choices.keys()) {
      this.choose(index);
      if (this.field.write(value) && same(this.field.read([], ""), value)) return true;
    }
    return false;
  }

  at(part) {
    return this.field.at(part);
  }
}

class ListField extends Field {
  constructor(schema, at) {
    super();
    const { first, rest } = itemsOf(schema);
    this.where = { ...at, depth: at.depth + 1 };
    this.first = first;
    this.rest = rest;
    this.rows = [];
    this.list = element("ol", { class: "items", start: "0" });
    this.more = element("button", { type: "button", onclick: () => this.grow() }, "Add an item");
    this.root = element("div", { class: "body" }, this.list, this.more);
    const least = Number.isInteger(schema.minItems) ? Math.min(schema.minItems, MOST_AT_FIRST) : 0;
    while (this.rows.length < Math.max(first.length, rest === null ? 0 : least)) this.add();
    this.more.hidden = rest === null;
  }

  grow() {
    const row = this.add();
    this.onTouch();
    row.focus();
  }

  add() {
    const index = this.rows.length;
    const isFixed = index < this.first.length;
    const row = new Slot("", isFixed ? this.first[index] : this.rest, { isRequired: true, at: this.where, onRemove: isFixed ? null : () => this.remove(row) });
    row.onTouch = () => this.onTouch();
    this.rows.push(row);
    this.list.append(element("li", {}, row.root));
    return row;
  }

  remove(row) {
    const index = this.rows.indexOf(row);
    this.rows.splice(index, 1);
    this.list.children[index].remove();
    this.more.focus();
    this.onTouch();
  }

  read(problems, path) {
    return this.rows.map((row, index) => row.read(problems, path + "/" + index));
  }

  write(value) {
    if (!Array.isArray(value) || (this.rest === null && value.length !== this.first.length)) return false;
    while (this.rows.length > Math.max(value.length, this.first.length)) this.remove(this.rows.at(-1));
    while (this.rows.length < value.length) this.add();
    return value.length === this.rows.length && value.every((each, index) => this.rows[index].write(each));
  }

  at(part) {
    return this.rows[Number(part)] ?? null;
  }
}

class ObjectField extends Field {
  constructor(schema, at) {
    super();
    this.where = { ...at, depth: at.depth + 1 };
    this.extras = extrasOf(schema);
    this.slots = new Map();
    this.added = [];
    this.root = element("div", { class: "body" });
    const required = new Set(Array.isArray(schema.required) ? schema.required : []);
    const properties = isObject(schema.properties) ? schema.properties : {};
    const names = Object.keys(properties);
    for (const name of [...names.filter((each) => required.has(each)), ...names.filter((each) => !required.has(each))]) {
      if (resolved(properties[name], at.root) !== null) this.insert(name, properties[name], required.has(name));
    }
    for (const name of required) {
      if (typeof name === "string" && !this.slots.has(name)) this.insert(name, this.extras ?? true, true);
    }
    this.more = element("button", { type: "button", onclick: () => this.grow() }, "Add a property");
    if (offersExtras(schema)) this.root.append(this.more);
    else if (this.slots.size === 0) this.root.append(element("p", { class: "faint" }, "No input."));
  }

  insert(name, schema, isRequired) {
    const slot = new Slot(name, schema, { isRequired, at: this.where });
    slot.onTouch = () => this.onTouch();
    this.slots.set(name, slot);
    this.root.append(slot.root);
  }

  grow() {
    const row = this.add("");
    this.onTouch();
    row.name.focus();
  }

  add(name) {
    const row = new Slot(null, this.extras ?? true, { isRequired: true, at: this.where, onRemove: () => this.remove(row) });
    row.name.value = name;
    row.name.addEventListener("input", () => this.onTouch());
    row.onTouch = () => this.onTouch();
    this.added.push(row);
    if (this.more.parentNode === this.root) this.more.before(row.root);
    else this.root.append(row.root);
    return row;
  }

  remove(row) {
    this.added.splice(this.added.indexOf(row), 1);
    row.root.remove();
    this.more.focus();
    this.onTouch();
  }

  read(problems, path) {
    const found = new Map();
    for (const [name, slot] of this.slots) found.set(name, slot.read(problems, path + "/" + escaped(name)));
    for (const row of this.added) {
      const name = row.name.value;
      const where = path + "/" + escaped(name);
      if (found.has(name)) problems.push({ path: where, message: "two properties have this name" });
      found.set(name, row.read(problems, where));
    }
    return Object.fromEntries([...found].filter(([, value]) => value !== ABSENT)); // makes an own property also of `__proto__`
  }

  write(value) {
    if (!isObject(value)) return false;
    for (const row of [...this.added]) this.remove(row);
    for (const [name, slot] of this.slots) {
      if (!Object.hasOwn(value, name)) slot.leaveOut();
      else if (!slot.write(value[name])) return false;
    }
    const others = Object.keys(value).filter((name) => !this.slots.has(name));
    return others.length === 0 || (this.extras !== null && others.every((name) => this.add(name).write(value[name])));
  }

  at(part) {
    return this.slots.get(part) ?? this.added.find((row) => row.name.value === part) ?? null;
  }
}

// A place for a value: its name, what is said of it, its field, and what is wrong with it. An optional one is left out until it is
// filled. `name` is null for a property whose name is typed, and empty for an item of a list.
export class Slot {
  constructor(name, schema, { isRequired, at, onRemove = null }) {
    const id = "field-" + ++numbers;
    at.budget.left -= 1;
    this.schema = schema;
    this.where = at;
    this.isRequired = isRequired;
    this.onTouch = () => {};
    const whole = resolved(schema, at.root) ?? {};
    this.whole = whole;
    this.choices = variants(schema, at.root);
    if (!isRequired && whole.default === null) { // what is left out is null
      const others = this.choices.filter((each) => each.type !== "null");
      this.choices = others.length ? others : this.choices;
    }
    const [only] = this.choices;
    this.isSimple = this.choices.length === 1 && SIMPLE.has(kindOf(only));
    this.error = element("p", { class: "error problem", id: id + "-error", hidden: true });
    this.place = element("div", { class: "place" });
    this.leave = element("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.leaveOut(true) }, "Leave out");
    this.include = element("button", { type: "button", class: "quiet", hidden: true, onclick: () => this.fill(true) }, "Add");
    this.name = name === null ? element("input", { type: "text", class: "name", autocomplete: "off", spellcheck: "false", "aria-label": "Name of the property", placeholder: "name" }) : null;
    const type = this.choices.length === 1 ? (kindOf(only) === "const" ? "fixed" : typeName(only)) : this.choices.length === 0 ? "nothing" : "one of " + this.choices.length;
    const label = element(this.isSimple ? "label" : "span", { class: "field-name", id: id + "-name", ...(this.isSimple ? { for: id } : {}) }, name === "" ? "item" : named(name ?? "value"));
    const head = [this.name, name === "" ? element("span", { class: "hidden" }, label) : label, element("span", { class: "faint" }, type + (isRequired ? "" : ", optional")), this.include, this.leave];
    if (onRemove !== null) head.push(element("button", { type: "button", class: "quiet", "aria-describedby": id + "-name", onclick: onRemove }, "Remove"));
    for (const button of [this.include, this.leave]) button.setAttribute("aria-describedby", id + "-name");
    const told = [whole.title !== name ? whole.title : undefined, whole.description].filter((text) => typeof text === "string" && text !== "");
    const rules = rulesOf(this.choices.length === 1 ? { ...only, ...(Object.hasOwn(whole, "default") ? { default: whole.default } : {}) } : whole);
    this.help = element("div", { class: "help", id: id + "-help" }, ...told.map((text) => element("p", {}, named(text))), rules.length ? element("p", { class: "faint" }, named(rules.join("; "))) : null);
    const body = [element("div", { class: "field-head" }, ...head), this.help, this.place, this.error];
    const group = this.isSimple ? {} : { role: "group", "aria-labelledby": id + "-name" };
    this.root = element("div", { class: "field", ...group }, ...body);
    this.id = id;
    this.reset();
  }

  // As at first: a required value with its default, an optional one left out.
  reset() {
    this.field = null;
    if (this.isRequired || this.isSimple) this.build();
    this.include.hidden = this.field !== null;
    this.isIncluded = this.isRequired;
    this.leave.hidden = true;
    if (this.isRequired && Object.hasOwn(this.whole, "default")) this.field.write(this.whole.default);
  }

  build() {
    const field = fieldOf(this.schema, this.where, { isOptional: !this.isRequired, choices: this.choices });
    field.onTouch = () => this.touch();
    this.field = field;
    if (field.input !== null) {
      field.input.id = this.id;
      field.input.setAttribute("aria-describedby", this.id + "-help " + this.id + "-error");
      if (!this.isSimple) field.input.setAttribute("aria-labelledby", this.id + "-name");
      if (this.isRequired) field.input.setAttribute("aria-required", "true");
    }
    this.place.replaceChildren(field.root);
  }

  touch() {
    this.isIncluded = true;
    this.tell("");
    const isEmpty = this.field instanceof ChoiceField && this.field.read() === ABSENT;
    if (!this.isRequired) {
      this.isIncluded = !isEmpty;
      this.leave.hidden = isEmpty;
    }
    this.onTouch();
  }

  fill(byHand) {
    if (this.field === null) this.build();
    this.include.hidden = true;
    this.isIncluded = true;
    this.leave.hidden = this.isRequired;
    if (!byHand) return;
    if (Object.hasOwn(this.whole, "default")) this.field.write(this.whole.default);
    this.focus();
    this.onTouch();
  }

  leaveOut(byHand) {
    if (!this.isRequired) this.place.replaceChildren();
    this.tell("");
    this.reset();
    if (!byHand) return;
    this.focus();
    this.onTouch();
  }

  focus() {
    const wanted = this.field === null ? this.include : this.place.querySelector("input, select, textarea, button");
    wanted?.focus();
  }

  read(problems, path) {
    if (!this.isIncluded) return ABSENT;
    const value = this.field.read(problems, path);
    if (value === ABSENT && this.isRequired && !problems.some((each) => each.path === path)) problems.push({ path, message: "a value is required", isMissing: true });
    return value;
  }

  write(value) {
    this.tell("");
    this.fill(false);
    return this.field.write(value);
  }

  at(part) {
    return this.field?.at(part) ?? null;
  }

  // Say what is wrong with the value, or that nothing is.
  tell(message) {
    say(this.error, message);
    this.error.hidden = message === "";
    if (message === "") this.field?.input?.removeAttribute("aria-invalid");
    else this.field?.input?.setAttribute("aria-invalid", "true");
  }
}

export function escaped(name) {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}
