// The connection to the server: a stream of server-sent events, read by `fetch`, because an EventSource sends no key.

const SILENCE = 30000; // milliseconds after which a server that says nothing is lost; it speaks every 8 seconds
const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 10000;

export class Feed {
  // `on` has the functions `state`, `begin`, `lost` and `refused`.
  constructor(on) {
    this.on = on;
    this.key = "";
    this.stopped = null;
  }

  start() {
    this.stop();
    const stopped = new AbortController();
    this.stopped = stopped;
    this.run(stopped.signal);
  }

  stop() {
    if (this.stopped !== null) this.stopped.abort();
    this.stopped = null;
  }

  headers() {
    return this.key === "" ? {} : { Authorization: "Bearer " + this.key };
  }

  // A request about one pipeline. Its token is in the body: addresses are logged by proxies.
  async post(path, token) {
    const headers = { ...this.headers(), "Content-Type": "application/json" };
    const answer = await fetch(path, { method: "POST", headers, body: JSON.stringify({ token }) });
    if (!answer.ok) throw new Error(await reason(answer));
    return answer;
  }

  async run(signal) {
    let pause = FIRST_PAUSE;
    while (!signal.aborted) {
      let why = "The connection is lost.";
      try {
        const answer = await this.open(signal);
        if (answer.status === 401) {
          if (!signal.aborted) this.on.refused();
          return;
        }
        if (answer.ok) {
          pause = FIRST_PAUSE;
          this.on.begin();
          why = await this.read(answer.body, signal);
        } else {
          why = await reason(answer);
        }
      } catch {
        // the server is away, or said nothing for too long
      }
      if (signal.aborted) return;
      this.on.lost(why);
      await wait(pause, signal);
      pause = Math.min(pause * 2, LONGEST_PAUSE);
    }
  }

  async open(signal) {
    const silence = new AbortController();
    this.silence = silence;
    this.listen();
    return fetch("/status/feed", {
      headers: this.headers(),
      cache: "no-store",
      signal: AbortSignal.any([signal, silence.signal]),
    });
  }

  listen() {
    clearTimeout(this.timer);
    const silence = this.silence;
    this.timer = setTimeout(() => silence.abort(), SILENCE);
  }

  // Read states to the end of the stream; why it ended.
  async read(stream, signal) {
    const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done || signal.aborted) return "The connection is lost.";
      this.listen();
      const events = (text + value).split("\n\n");
      text = events.pop();
      for (const event of events) {
        if (event.startsWith("event: end")) return "The server ends.";
        try {
          this.on.state(JSON.parse(event.slice("data: ".length)));
        } catch (error) {
          reportError(error); // a bug of the page, and no fault of the connection
        }
      }
    }
  }
}

async function reason(answer) {
  try {
    const { message, hint } = await answer.json();
    return hint ? message + " (" + hint + ")" : message;
  } catch {
    return "The server answered " + answer.status + ".";
  }
}

function wait(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
