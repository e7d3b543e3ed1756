// Results on the page: as text, and as a table if they are one.

import { element, named, say, whole } from "../elements.js";
import { encode, isObject } from "./json.js";

const MOST_SHOWN = 200000; // characters of a result or of chunks on the page; all of it can be saved
const KEPT_ADDRESS = 10000; // milliseconds for the browser to begin with a download
const MOST_ROWS = 500; // of a table
const MOST_COLUMNS = 50;

export function cut(text) {
  return text.length > MOST_SHOWN ? text.slice(0, MOST_SHOWN) + "…" : text;
}

// A text with what can be done with it.
export function valueView(name, text, note) {
  const notes = [note, text.length > MOST_SHOWN ? "The first " + whole(MOST_SHOWN) + " of " + whole(text.length) + " characters; Save has all." : ""];
  const save = element("button", { type: "button", class: "quiet", onclick: () => download(text) }, "Save");
  const copy = navigator.clipboard === undefined ? null : element("button", { type: "button", class: "quiet", onclick: () => copied(copy, text) }, "Copy");
  return element(
    "section",
    { "aria-label": name },
    element("div", { class: "field-head" }, element("h4", {}, name), element("span", { class: "faint" }, notes.filter(Boolean).join(" ")), copy, save),
    element("pre", { class: "value", tabindex: "0", role: "group", "aria-label": name }, cut(text)),
  );
}

async function copied(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    say(button, "Copied");
  } catch {
    say(button, "The browser does not let this page copy");
  }
}

function download(text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
  element("a", { href: address, download: "result.txt" }).click();
  setTimeout(() => URL.revokeObjectURL(address), KEPT_ADDRESS);
}

// The columns and rows of a result that is a table, as that of a database, or has one list of objects; null if it is none.
export function tableOf(result) {
  const rows = rowsOf(result);
  if (rows === null || rows.length === 0) return null;
  if (rows.every(isObject)) {
    const columns = [...new Set(rows.slice(0, MOST_ROWS).flatMap((row) => Object.keys(row)))];
    return columns.length && columns.length <= MOST_COLUMNS ? { columns, rows: rows.map((row) => columns.map((name) => (Object.hasOwn(row, name) ? row[name] : undefined))) } : null;
  }
  const columns = isObject(result) && Array.isArray(result.columns) ? result.columns : null;
  const isTable = columns !== null && columns.length > 0 && columns.length <= MOST_COLUMNS && rows.every(Array.isArray);
  return isTable ? { columns: columns.map((each) => (isObject(each) ? String(each.name) : String(each))), rows } : null;
}

function rowsOf(result) {
  if (Array.isArray(result)) return result;
  if (!isObject(result)) return null;
  if (Array.isArray(result.rows)) return result.rows;
  const lists = Object.values(result).filter((each) => Array.isArray(each) && each.length && each.every(isObject));
  return lists.length === 1 ? lists[0] : null;
}

export function tableView({ columns, rows }) {
  const text = (value) => (value === undefined ? "" : typeof value === "string" ? value : encode(value));
  const heads = columns.map((name) => element("th", { scope: "col" }, named(name)));
  const body = rows.slice(0, MOST_ROWS).map((row) => element("tr", {}, ...columns.map((_, index) => element("td", {}, named(cut(text(row[index])))))));
  const caption = rows.length > MOST_ROWS ? "The first " + whole(MOST_ROWS) + " of " + whole(rows.length) + " rows" : whole(rows.length) + (rows.length === 1 ? " row" : " rows");
  return element("div", { class: "scroll rows", tabindex: "0", role: "group", "aria-label": "Rows" }, element("table", {}, element("caption", {}, caption), element("thead", {}, element("tr", {}, ...heads)), element("tbody", {}, ...body)));
}
