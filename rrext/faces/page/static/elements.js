// Elements of the page and the texts of numbers. All text of a server becomes text nodes: nothing of it is ever markup.

export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

// Names are set apart, so that one written from right to left does not turn what stands around it.
export function named(text) {
  return element("bdi", {}, text);
}

// An element that changes only when its text does: focus, selection and screen readers stay where they are.
export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

const WHOLE = new Intl.NumberFormat("en");

export function whole(number) {
  return WHOLE.format(number);
}

// At most five characters, for places that cannot grow.
export function short(number) {
  for (const [size, unit] of [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (number >= size) {
      const scaled = number / (unit === "k" ? 1e3 : size);
      return (scaled >= 100 ? Math.floor(scaled) : scaled.toFixed(1)) + unit;
    }
  }
  return String(number);
}

export function perSecond(rate) {
  return rate >= 10 || rate === 0 ? whole(Math.round(rate)) : rate.toFixed(1);
}

export function latency(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 0.001) return Math.max(1, Math.round(seconds * 1e6)) + " µs";
  if (seconds < 1) return (seconds * 1e3).toPrecision(3).replace(/\.?0+$/, "") + " ms";
  return seconds < 100 ? seconds.toPrecision(3).replace(/\.?0+$/, "") + " s" : Math.round(seconds) + " s";
}

export function duration(seconds) {
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  let rest = Math.max(0, Math.floor(seconds));
  const found = [];
  for (const [size, unit] of parts) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count || found.length || unit === "s") found.push(count + " " + unit);
  }
  return found.slice(0, 2).join(" ");
}

export function clock(time) {
  return new Date(time * 1000).toLocaleTimeString("en-GB");
}

export function date(time) {
  return new Date(time * 1000).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" });
}
