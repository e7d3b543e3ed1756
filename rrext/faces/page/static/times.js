// The tools of a pipeline over the last minutes: calls, failures and latencies, as numbers and as two small pictures each.

import { element, latency, named, say, whole } from "./elements.js";

const SVG = "http://www.w3.org/2000/svg";
const PAUSE = 5000; // milliseconds between two looks: half a step
const WIDTH = 4; // units of a step
const HEIGHT = 40;

export class ToolTimes {
  constructor(feed, token) {
    this.feed = feed;
    this.token = token;
    this.list = element("ul", { class: "times" });
    this.said = element("p", { class: "faint" });
    this.root = element("div", {}, element("h3", {}, "Tools"), this.said, this.list);
    this.at = -Infinity;
  }

  // Look anew, if the last look was a while ago.
  async look() {
    if (performance.now() - this.at < PAUSE) return;
    this.at = performance.now();
    try {
      const answer = await this.feed.post("/status/tools", this.token);
      const told = await answer.text();
      if (told === this.told) return;
      this.told = told;
      this.show(JSON.parse(told));
    } catch {
      // the connection is lost, which the page says, and looks anew when it is back
    }
  }

  show({ step, steps, tools }) {
    const minutes = (step * steps) / 60;
    const word = "Each bar is " + whole(step) + " seconds of the last " + whole(minutes) + " minutes. Calls by other tools and agents count here too.";
    say(this.said, tools.length ? word : "No tool was called yet.");
    this.list.replaceChildren(...tools.map((each) => toolView(each, step, steps)));
  }
}

function toolView({ node, tool, calls, failed, p50, p99, steps: told }, step, steps) {
  const figures = [
    ["Calls", whole(calls), null],
    ["Failed", whole(failed), failed ? "error" : null],
    ["p50", latency(p50), null],
    ["p99", latency(p99), null],
  ];
  const facts = element("dl", {}, ...figures.map(([name, text, style]) => element("div", {}, element("dt", {}, name), element("dd", { class: style }, text))));
  const most = Math.max(0, ...told.map(([, count]) => count));
  const slowest = Math.max(0, ...told.map(([, , , , longest]) => longest));
  const lost = told.reduce((sum, [, , count]) => sum + count, 0);
  const callBars = told.flatMap(([age, count, bad]) => [
    bar(steps - 1 - age, count / most, "calls", whole(count) + " calls, " + whole(bad) + " failed, " + ago(age * step)),
    ...(bad ? [bar(steps - 1 - age, bad / most, "bad", whole(bad) + " of " + whole(count) + " calls failed, " + ago(age * step))] : []),
  ]);
  const timeBars = told.flatMap(([age, , , mean, longest]) => {
    const text = "mean " + latency(mean) + ", longest " + latency(longest) + ", " + ago(age * step);
    return [bar(steps - 1 - age, longest / slowest, "longest", text), bar(steps - 1 - age, mean / slowest, "mean", text)];
  });
  return element(
    "li",
    {},
    element("h4", {}, named(tool), " ", element("span", { class: "faint" }, named(node))),
    facts,
    chart("Calls, and those that failed", "at most " + whole(most) + " a step", callBars, steps, whole(lost) + " failed"),
    chart("Latency: mean, and longest", "at most " + latency(slowest), timeBars, steps, latency(p50) + " p50, " + latency(p99) + " p99"),
  );
}

function ago(seconds) {
  return seconds < 60 ? whole(seconds) + " s ago" : whole(Math.round(seconds / 6) / 10) + " min ago";
}

function chart(name, scale, bars, steps, summary) {
  const picture = document.createElementNS(SVG, "svg");
  for (const [key, value] of Object.entries({ viewBox: "0 0 " + steps * WIDTH + " " + HEIGHT, preserveAspectRatio: "none", role: "img", "aria-label": name + ": " + scale + ", " + summary })) picture.setAttribute(key, value);
  picture.append(...bars);
  return element("figure", {}, element("figcaption", {}, name, element("span", {}, scale)), picture);
}

function bar(place, share, style, text) {
  const height = Math.max(share > 0 ? 1.5 : 0, share * HEIGHT);
  const rect = document.createElementNS(SVG, "rect");
  for (const [key, value] of Object.entries({ x: place * WIDTH, y: HEIGHT - height, width: WIDTH - 0.6, height, class: style })) rect.setAttribute(key, String(value));
  const title = document.createElementNS(SVG, "title");
  title.textContent = text;
  rect.append(title);
  return rect;
}
