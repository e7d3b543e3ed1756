// The status page: the login, its two views, the sums, recent errors, the log, and the question before a pipeline is terminated.

import { Bench } from "./bench/bench.js";
import { clock, duration, element, latency, named, perSecond, say, whole } from "./elements.js";
import { Feed } from "./feed.js";
import { TaskTable } from "./tasks.js";

const KEPT_FAILURES = 100;
const KEPT_LINES = 200;
const HIDDEN_FOR = 20000; // milliseconds until a page that nobody sees lets go of the server

const at = (id) => document.getElementById(id);
const feed = new Feed({ state, begin, lost, refused });
const filter = { row: at("filter-row"), input: at("filter"), failing: at("failing"), count: at("filter-count") };
const tasks = new TaskTable(at("tasks"), at("pipelines"), filter, feed, { terminate, call: callTools });
const bench = new Bench(at("bench"), () => feed.key);
const errors = new Map(); // id of an error → its row
const names = new Map();
const sums = sumPlaces();
let hasShownKey = false;
let hiding = 0;
let isShown = false;

// The connection

function begin() {
  tasks.clear();
  bench.begin();
  names.clear();
  errors.clear();
  at("failures").replaceChildren(element("p", { class: "faint" }, "None since then."));
  at("lines").replaceChildren();
  at("login").hidden = true;
  at("key-error").textContent = "";
}

function lost(why) {
  tell(why + " Trying again…", "lost");
}

function refused() {
  feed.stop();
  showViews(false);
  bench.forget();
  at("login").hidden = false;
  say(at("key-error"), hasShownKey ? "The server does not know this key." : "");
  tell("A key is needed.", "");
  at("forget").hidden = true;
  forgetKey();
  at("key").focus();
}

function forgetKey() {
  feed.key = "";
  hasShownKey = false;
  at("key").value = "";
}

function tell(text, style) {
  say(at("connection"), text);
  document.body.dataset.connection = style;
}

at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  feed.key = at("key").value.trim();
  hasShownKey = true;
  at("key").value = "";
  tell("Connecting…", "");
  feed.start();
});

at("forget").addEventListener("click", () => {
  feed.stop();
  begin();
  hasShownKey = false;
  refused();
});

document.addEventListener("visibilitychange", () => {
  clearTimeout(hiding);
  if (document.hidden) {
    hiding = setTimeout(() => {
      feed.stop();
      bench.rest();
    }, HIDDEN_FOR);
  } else if (feed.stopped === null && at("login").hidden) {
    feed.start();
  }
});

// The views

function showViews(isOn) {
  isShown = isOn;
  const isBench = location.hash === "#workbench";
  at("views").hidden = !isOn;
  at("board").hidden = !isOn || isBench;
  at("bench").hidden = !isOn || !isBench;
  bench.isOpen = isOn && isBench;
  if (bench.isOpen) bench.open();
  const links = at("views").children;
  [...links].forEach((link, index) => {
    if ((index === 1) === isBench) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  });
}

addEventListener("hashchange", () => {
  const wasBench = bench.isOpen;
  showViews(isShown);
  if (wasBench !== bench.isOpen) at(bench.isOpen ? "bench-title" : "pipelines").focus({ preventScroll: true });
});

function callTools(key) {
  bench.choose(key);
  location.hash = "#workbench";
}

// The state

function state({ head, rows, gone, failures, lines }) {
  if (!isShown) showViews(true);
  at("forget").hidden = !hasShownKey;
  tell("Live", "live");
  say(at("server"), "version " + head.version + ", up for " + duration(head.now - head.serverBegan) + (head.user && hasShownKey ? ", you are " + head.user : ""));
  for (const [name, text] of Object.entries(sums)) {
    say(text.place, text.of(head));
    text.place.classList.toggle("error", name.startsWith("failed") && head[name] > 0);
  }
  const since = "All counts and errors are since " + clock(head.began) + ", " + duration(head.now - head.began) + " ago, when the first of your pages was opened. Latencies are of the last 1,000 calls.";
  say(at("since"), since);
  say(at("scope"), head.isTrusted ? "" : "You see your own pipelines, and your traffic on the server's.");
  say(at("log-scope"), head.isTrusted ? "The server's log." : "Your calls. The server's own log is shown to trusted clients alone (--trust-clients).");
  for (const key of gone) names.delete(key);
  for (const { key, row } of rows) names.set(key, row.name);
  tasks.update(rows, gone, head.now);
  bench.update(rows, gone);
  if (failures.length) showFailures(failures);
  if (lines.length) showLines(lines);
}

function sumPlaces() {
  const found = {
    tasks: ["Pipelines", (head) => whole(head.tasks)],
    rate: ["Calls per second", (head) => perSecond(head.rate)],
    p50: ["Latency p50", (head) => latency(head.p50)],
    p99: ["Latency p99", (head) => latency(head.p99)],
    calls: ["Calls", (head) => whole(head.calls)],
    failedCalls: ["Calls failed", (head) => whole(head.failedCalls)],
    pipes: ["Open pipes", (head) => whole(head.pipes)],
    completed: ["Objects done", (head) => whole(head.completed)],
    failed: ["Objects failed", (head) => whole(head.failed)],
    restarts: ["Restarts", (head) => whole(head.restarts)],
    clients: ["Connections", (head) => whole(head.clients)],
  };
  for (const [id, [name, of]] of Object.entries(found)) {
    const place = element("dd", {}, "–");
    at("sums").append(element("div", { class: "sum " + id }, element("dt", {}, name), place));
    found[id] = { place, of };
  }
  return found;
}

function showFailures(failures) {
  let body = at("failures").querySelector("tbody");
  if (body === null) {
    const heads = ["Time", "Count", "Pipeline", "Where", "Code", "Message"].map((name) => element("th", { scope: "col" }, name));
    body = element("tbody");
    const table = element("table", { class: "failures" }, element("caption", { class: "hidden" }, "Recent errors, the newest first"), element("thead", {}, element("tr", {}, ...heads)), body);
    at("failures").replaceChildren(element("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Recent errors" }, table));
  }
  for (const { id, time, first, count, token, where, code, message } of failures) {
    const name = names.get(token) ?? token ?? "–";
    const often = count > 1 ? whole(count) + "×, first at " + clock(first) : "once";
    const cells = [clock(time), often, name, where, code, message].map((text) => element("td", {}, named(text)));
    errors.get(id)?.remove();
    errors.delete(id);
    errors.set(id, element("tr", {}, ...cells));
    body.prepend(errors.get(id));
  }
  for (const [id, row] of errors) {
    if (errors.size <= KEPT_FAILURES) break;
    row.remove();
    errors.delete(id);
  }
}

function showLines(lines) {
  const log = at("lines");
  const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 8;
  log.append(...lines.map((line) => element("span", { class: / (WARNING|ERROR|CRITICAL) /.test(line.slice(0, 60)) ? "error" : null }, line + "\n")));
  while (log.childElementCount > KEPT_LINES) log.firstElementChild.remove();
  if (isAtEnd) log.scrollTop = log.scrollHeight;
}

// Terminate

let asked = null;

function terminate(key, name) {
  asked = key;
  at("confirm-text").replaceChildren("Calls and objects of ", element("strong", {}, named(name)), " are cancelled. This cannot be undone.");
  at("confirm").showModal();
}

at("confirm-no").addEventListener("click", () => at("confirm").close());
at("confirm-yes").addEventListener("click", async () => {
  at("confirm").close();
  const failure = at("failure");
  try {
    await feed.post("/status/terminate", asked);
    failure.hidden = true;
  } catch (error) {
    failure.hidden = false;
    say(failure, "The pipeline was not terminated: " + error.message);
  }
});

feed.start();
