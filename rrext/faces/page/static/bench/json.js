// JSON whose numbers stay as they were written: JavaScript's own would round 2^53 + 1, and 0.10 is not what was typed.

// Stands before a number while it is a text; nobody else knows it.
const MARK = [...crypto.getRandomValues(new Uint32Array(4))].map((part) => part.toString(36)).join("-") + ":";
const MARKED = new RegExp('"' + MARK + '([^"]+)"', "g");
const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/;
const EXACT_DIGITS = 15; // decimal digits that a double keeps
const INEXACT = /[\d.]{16}|\d[eE][-+]?\d{3}/; // stands in each text with a number that a double may not keep

// A number that JavaScript has no exact form of.
export class Numeral {
  constructor(text) {
    this.text = text;
  }

  toJSON() {
    return MARK + this.text;
  }
}

// The number that a text writes in JSON, or null.
export function numberOf(text) {
  if (!NUMBER.test(text)) return null;
  const digits = text.replace(/[eE].*$/, "").replace(/\D/g, "").replace(/^0+/, "");
  const value = Number(text);
  return digits.length <= EXACT_DIGITS && Number.isFinite(value) && (value !== 0 || digits === "") ? value : new Numeral(text);
}

export function isNumber(value) {
  return typeof value === "number" || value instanceof Numeral;
}

export function isInteger(value) {
  return value instanceof Numeral ? /^-?\d+$/.test(value.text) : Number.isInteger(value);
}

export function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !(value instanceof Numeral);
}

// The value of a JSON text. Raises SyntaxError.
export function decode(text) {
  if (!INEXACT.test(text)) return JSON.parse(text);
  let isInString = false; // one pattern for a whole string would fail for one of megabytes
  const marked = text.replace(/\\.|"|-?\d[\d.eE+-]*/g, (token) => {
    if (token === '"') isInString = !isInString;
    return !isInString && numberOf(token) instanceof Numeral ? '"' + MARK + token + '"' : token;
  });
  return JSON.parse(marked, (_, each) => (typeof each === "string" && each.startsWith(MARK) ? new Numeral(each.slice(MARK.length)) : each));
}

export function encode(value, indent) {
  const text = JSON.stringify(value, null, indent) ?? "null";
  return text.includes(MARK) ? text.replace(MARKED, "$1") : text;
}

// Whether two values mean the same JSON; the order of properties means nothing.
export function same(one, other) {
  if (isNumber(one) && isNumber(other)) return encode(one) === encode(other);
  if (Array.isArray(one)) return Array.isArray(other) && one.length === other.length && one.every((each, index) => same(each, other[index]));
  if (!isObject(one)) return one === other;
  if (!isObject(other)) return false;
  const names = Object.keys(one);
  return names.length === Object.keys(other).length && names.every((name) => Object.hasOwn(other, name) && same(one[name], other[name]));
}
