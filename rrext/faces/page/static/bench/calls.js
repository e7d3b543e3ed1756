// Requests to the server over a WebSocket, as any other client sends them: with the limits, the permits and the audit lines of its
// user. It is opened with the first request, and closed when it has had nothing to do for a while.

import { decode, encode } from "./json.js";

const NAME = "rrext workbench"; // in lists of connections
const IDLE = 60000; // milliseconds until a socket without a request is closed

export class CallFailure extends Error {
  constructor({ code, message, hint, data }) {
    super(message);
    this.code = code;
    this.hint = hint;
    this.data = data;
  }
}

export class Calls {
  // `key` gives the key of the user, empty on a server without keys.
  constructor(key) {
    this.key = key;
    this.opening = null;
    this.socket = null;
    this.pending = new Map();
    this.seq = 0;
    this.idle = 0;
  }

  // Send a request: its number, and its answer. `onEvent(name, body)` gets the events of the request.
  async send(command, args, onEvent = () => {}) {
    this.opening ??= this.open();
    await this.opening;
    return this.post(command, args, onEvent);
  }

  async ask(command, args) {
    return (await this.send(command, args)).answer;
  }

  get isBusy() {
    return this.pending.size > 0;
  }

  // End the connection; the server cancels what runs on it.
  close() {
    clearTimeout(this.idle);
    this.socket?.close();
    this.lose("the connection was closed");
  }

  async open() {
    const socket = new WebSocket(location.origin.replace(/^http/, "ws") + "/");
    this.socket = socket;
    socket.addEventListener("message", ({ data }) => this.take(data));
    try {
      await new Promise((resolve, reject) => {
        socket.addEventListener("open", resolve);
        socket.addEventListener("close", () => reject(new CallFailure({ code: "connection_lost", message: "no WebSocket of this server can be opened; a proxy before it has to pass them on" })));
      });
      socket.addEventListener("close", () => {
        if (this.socket === socket) this.lose("the connection to the server is lost");
      });
      const key = this.key();
      await (key === "" ? this.post("rrext_identify", { clientName: NAME }) : this.post("auth", { auth: key, clientName: NAME })).answer;
    } catch (error) {
      socket.close();
      if (this.socket === socket) this.lose(error.message);
      throw error;
    }
  }

  post(command, args, onEvent = () => {}) {
    const seq = ++this.seq;
    clearTimeout(this.idle);
    const answer = new Promise((resolve, reject) => this.pending.set(seq, { resolve, reject, onEvent }));
    answer.catch(() => {}); // its caller may look later
    this.socket.send(encode({ type: "request", seq, command, arguments: args }));
    return { seq, answer };
  }

  take(data) {
    if (typeof data !== "string") return; // raw tails come only to who asks for them
    let message;
    try {
      message = decode(data);
    } catch (error) {
      this.socket.close(); // such as one for which the browser has no memory
      this.lose("an answer cannot be read: " + error.message);
      return;
    }
    if (message.type === "event") {
      this.pending.get(message.body.request)?.onEvent(message.event, message.body);
      return;
    }
    const asked = this.pending.get(message.request_seq);
    if (asked === undefined) return;
    this.pending.delete(message.request_seq);
    if (message.success) asked.resolve(message.body);
    else asked.reject(new CallFailure(message));
    if (!this.isBusy) this.rest();
  }

  rest() {
    clearTimeout(this.idle);
    this.idle = setTimeout(() => {
      if (!this.isBusy) this.close();
    }, IDLE);
  }

  lose(message) {
    this.socket = this.opening = null;
    const pending = [...this.pending.values()];
    this.pending.clear();
    for (const { reject } of pending) reject(new CallFailure({ code: "connection_lost", message }));
  }
}
