// What a JSON Schema means for a form: references resolved, unions told apart, the kind of field, its rules in words. It judges no
// value: the server does, by the same schema, and its errors name the field.

import { encode, isObject } from "./json.js";

const MOST_VARIANTS = 50; // a choice of more is no choice for a person
const MOST_STEPS = 300; // references and parts looked at for one field: some lead to themselves, or to ten others each
const MOST_SHOWN = 80; // characters of a value in a rule
const ANNOTATIONS = ["title", "description", "default", "examples", "deprecated"];

// A schema as an object, without `$ref` and `allOf`; null if nothing fits it.
export function resolved(schema, root, steps = { left: MOST_STEPS }) {
  if (schema === false) return null;
  if (!isObject(schema)) return {};
  let found = schema;
  while (typeof found.$ref === "string") {
    const { $ref, ...beside } = found;
    const target = steps.left-- > 0 ? pointed(root, $ref) : undefined;
    if (target === undefined) return { ...beside, unresolved: $ref };
    if (target === false) return null;
    found = isObject(target) ? merged(target, beside) : beside;
  }
  if (!Array.isArray(found.allOf)) return found;
  const { allOf, ...rest } = found;
  let all = {};
  for (const part of allOf) {
    const each = steps.left-- > 0 ? resolved(part, root, steps) : {};
    if (each === null) return null;
    all = merged(all, each);
  }
  return merged(all, rest);
}

// Both schemas as one; where they differ the second one's word counts, and the server's in the end.
function merged(one, other) {
  const both = { ...one, ...other };
  if (isObject(one.properties) && isObject(other.properties)) {
    const names = new Set([...Object.keys(one.properties), ...Object.keys(other.properties)]);
    const of = (name) => [one, other].filter((each) => Object.hasOwn(each.properties, name)).map((each) => each.properties[name]);
    both.properties = Object.fromEntries([...names].map((name) => [name, of(name).length > 1 ? { allOf: of(name) } : of(name)[0]]));
  }
  if (Array.isArray(one.required) && Array.isArray(other.required)) both.required = [...new Set([...one.required, ...other.required])];
  if (Array.isArray(one.allOf) && Array.isArray(other.allOf)) both.allOf = [...one.allOf, ...other.allOf];
  return both;
}

// What a reference within the schema means; undefined if nothing. Nothing is ever fetched.
function pointed(root, reference) {
  if (reference === "#") return root;
  if (!reference.startsWith("#/")) {
    const definitions = [root.$defs, root.definitions].filter(isObject).flatMap((each) => Object.values(each));
    return definitions.filter(isObject).find((each) => each.$id === reference || (each.$anchor && "#" + each.$anchor === reference));
  }
  let found = root;
  for (const part of reference.slice(2).split("/")) {
    const name = unescaped(part);
    if (found === null || typeof found !== "object" || !Object.hasOwn(found, name)) return undefined;
    found = found[name];
  }
  return found;
}

function unescaped(part) {
  try {
    return decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
  } catch {
    return part;
  }
}

// The schemas of which a value fits one: those of a union, and one for each type of a list of types.
export function variants(schema, root, steps = { left: MOST_STEPS }) {
  const whole = resolved(schema, root, steps);
  if (whole === null) return [];
  const name = ["oneOf", "anyOf"].find((each) => Array.isArray(whole[each]) && whole[each].length > 0);
  const { [name]: union, nullable, ...rest } = whole;
  const isFixed = Object.hasOwn(rest, "const") || Array.isArray(rest.enum);
  let found;
  if (name !== undefined && !isFixed) {
    const base = Object.fromEntries(Object.entries(rest).filter(([each]) => !ANNOTATIONS.includes(each)));
    found = [];
    for (const each of union) {
      const part = steps.left-- > 0 ? resolved(each, root, steps) : {}; // beyond it anything
      if (part !== null && found.length < MOST_VARIANTS) found.push(...(steps.left > 0 ? variants(merged(base, part), root, steps) : [{}]));
    }
  } else if (Array.isArray(rest.type) && rest.type.length > 1 && !isFixed) {
    const { title, ...base } = rest; // which is that of all
    found = rest.type.map((type) => ({ ...base, type }));
  } else {
    found = [Array.isArray(rest.type) && rest.type.length === 1 ? { ...rest, type: rest.type[0] } : rest];
  }
  if (nullable === true && !found.some((each) => each.type === "null")) found.push({ type: "null" });
  return [...new Map(found.map((each) => [encode(each), each])).values()].slice(0, MOST_VARIANTS);
}

// The kind of field for a schema without a union: const, enum, boolean, integer, number, string, array, object, or json for all that
// has no form.
export function kindOf(schema) {
  if (schema.unresolved !== undefined) return "json";
  if (Object.hasOwn(schema, "const")) return "const";
  if (Array.isArray(schema.enum)) return schema.enum.length ? "enum" : "json";
  switch (schema.type) {
    case "null":
      return "const";
    case "boolean":
    case "integer":
    case "number":
    case "string":
      return schema.type;
    case "array":
      return "array";
    case "object":
      return isObject(schema.properties) || extrasOf(schema) === null || isObject(schema.additionalProperties) || isObject(schema.patternProperties) ? "object" : "json";
    default:
      if (schema.type !== undefined) return "json";
      if (isObject(schema.properties)) return "object";
      return isObject(schema.items) || Array.isArray(schema.prefixItems) ? "array" : "json";
  }
}

// The only value of a schema of the kind const.
export function constOf(schema) {
  return Object.hasOwn(schema, "const") ? schema.const : null;
}

// The schema of properties that are not listed; null if there may be none.
export function extrasOf(schema) {
  const [pattern] = isObject(schema.patternProperties) ? Object.values(schema.patternProperties) : [];
  if (schema.additionalProperties === false) return pattern ?? null;
  return isObject(schema.additionalProperties) ? schema.additionalProperties : pattern ?? true;
}

// Whether a form offers further properties: only if the schema speaks of them, else most forms would have a button of no use.
export function offersExtras(schema) {
  return schema.additionalProperties !== undefined && schema.additionalProperties !== false || isObject(schema.patternProperties);
}

// The schemas of the items of an array: those of the first ones, and of the others, null if there are none.
export function itemsOf(schema) {
  const first = Array.isArray(schema.prefixItems) ? schema.prefixItems : Array.isArray(schema.items) ? schema.items : [];
  const rest = Array.isArray(schema.items) ? schema.additionalItems : schema.items;
  const isClosed = rest === false || (first.length > 0 && Number.isInteger(schema.maxItems) && schema.maxItems <= first.length);
  return { first, rest: isClosed ? null : rest ?? true };
}

const WORDS = { string: "text", array: "list", const: "fixed", json: "JSON" };

// The type of a value in a word or two.
export function typeName(schema) {
  const kind = kindOf(schema);
  if (kind === "const") return shown(constOf(schema));
  if (kind === "enum") return "choice";
  if (kind === "string" && typeof schema.format === "string") return schema.format;
  if (kind === "string" && schema.contentEncoding === "base64") return "base64";
  return WORDS[kind] ?? kind;
}

// The name of a variant: its title, what tells it apart, or its type.
export function variantName(schema) {
  if (typeof schema.title === "string" && schema.title !== "") return schema.title;
  if (isObject(schema.properties)) {
    const told = Object.entries(schema.properties).find(([, each]) => isObject(each) && (Object.hasOwn(each, "const") || each.enum?.length === 1));
    if (told !== undefined) return told[0] + ": " + shown(Object.hasOwn(told[1], "const") ? told[1].const : told[1].enum[0]);
    const names = Object.keys(schema.properties);
    if (names.length) return "object with " + names.slice(0, 3).join(", ") + (names.length > 3 ? ", …" : "");
  }
  return typeName(schema);
}

export function shown(value) {
  const text = typeof value === "string" ? value : encode(value);
  return text.length > MOST_SHOWN ? text.slice(0, MOST_SHOWN) + "…" : text;
}

// The rules of a value in words.
export function rulesOf(schema) {
  const rules = [];
  const between = (least, most, what) => {
    const [low, high] = [schema[least], schema[most]];
    if (low !== undefined && high !== undefined) rules.push(low === high ? encode(low) + what : encode(low) + " to " + encode(high) + what);
    else if (low !== undefined) rules.push("at least " + encode(low) + what);
    else if (high !== undefined) rules.push("at most " + encode(high) + what);
  };
  between("minLength", "maxLength", " characters");
  between("minimum", "maximum", "");
  if (schema.exclusiveMinimum !== undefined) rules.push("more than " + shown(schema.exclusiveMinimum));
  if (schema.exclusiveMaximum !== undefined) rules.push("less than " + shown(schema.exclusiveMaximum));
  if (schema.multipleOf !== undefined) rules.push("a multiple of " + shown(schema.multipleOf));
  if (schema.pattern !== undefined) rules.push("pattern " + shown(schema.pattern));
  between("minItems", "maxItems", " items");
  if (schema.uniqueItems === true) rules.push("no item twice");
  between("minProperties", "maxProperties", " properties");
  if (schema.contentEncoding !== undefined) rules.push("in " + shown(schema.contentEncoding));
  if (Object.hasOwn(schema, "default")) rules.push("default " + shown(schema.default));
  if (Array.isArray(schema.examples) && schema.examples.length) rules.push("for example " + schema.examples.slice(0, 3).map(shown).join(", "));
  if (schema.deprecated === true) rules.push("deprecated");
  if (schema.unresolved !== undefined) rules.push("its schema " + shown(schema.unresolved) + " is not here");
  return rules;
}
