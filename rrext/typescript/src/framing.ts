/** Messages in a stream of bytes: each after its length, or in WebSocket frames, as Node.js 20 has no WebSocket. No I/O. */
import { randomBytes } from 'node:crypto';
import { RrextError } from './errors.js';

const MAX_HEADER = 8 * 1024;
const MAX_MESSAGE = 256 * 1024 * 1024; // protects against a broken server; real ones have far lower limits

/** `encode` gives the bytes of a message, which may have raw bytes beside its JSON. `take` takes one unit at the start of the
 * data, and gives its size; if it is not whole, minus its size, or 0 as long as that is not known. */
export interface Framing {
  encode(json: string, tail?: Uint8Array): Uint8Array[];
  take(data: Buffer): number;
}
export type Deliver = (json: Buffer, tail?: Buffer) => void;
const broken = (what: string) => new RrextError('parse_error', what);

/** A function that takes pieces of a stream, and gives them to `take` as soon as a unit is whole. */
export function collector(take: (data: Buffer) => number): (piece: Buffer) => void {
  let [held, size, needed]: [Buffer[], number, number] = [[], 0, 1];
  return (piece) => {
    held.push(piece);
    size += piece.length;
    if (size < needed) return;
    let [data, used] = [held.length === 1 ? piece : Buffer.concat(held), 0];
    while (data.length > 0 && (used = take(data)) > 0) data = data.subarray(used);
    [held, size, needed] = [[data], data.length, Math.max(-used, data.length + 1)];
  };
}

/** Frames of `Content-Length`, for stdio and Unix sockets. */
export function lengthFraming(deliver: Deliver): Framing {
  return {
    encode(json, tail) {
      const size = Buffer.byteLength(json);
      const cut = tail ? `Json-Length: ${size}\r\n` : '';
      const whole = Buffer.from(`Content-Length: ${size + (tail?.length ?? 0)}\r\n${cut}\r\n${json}`);
      return tail ? [whole, tail] : [whole];
    },
    take(data) {
      const end = data.subarray(0, MAX_HEADER).indexOf('\r\n\r\n');
      if (end < 0 && data.length < MAX_HEADER) return 0;
      const head = data.toString('latin1', 0, Math.max(end, 0));
      const size = Number(/^content-length: *(\d+) *$/im.exec(head)?.[1]);
      const cut = /^json-length: *(\d+) *$/im.exec(head)?.[1];
      if (end < 0 || !(size <= MAX_MESSAGE && Number(cut ?? 0) <= size)) throw broken('a header without a length that can be');
      const body = data.subarray(end + 4, end + 4 + size);
      if (body.length < size) return -(end + 4 + size);
      deliver(cut ? body.subarray(0, Number(cut)) : body, cut ? body.subarray(Number(cut)) : undefined);
      return end + 4 + size;
    },
  };
}

const [TEXT, BINARY, CLOSE, PING, PONG] = [0x1, 0x2, 0x8, 0x9, 0xa] as const;

/** A whole WebSocket frame of a client, masked. */
function webFrame(opcode: number, payload: Uint8Array): Buffer {
  const size = payload.length;
  const start = size < 126 ? 6 : size < 1 << 16 ? 8 : 14;
  const frame = Buffer.alloc(start + size);
  frame.set([0x80 | opcode, 0x80 | (start === 6 ? size : start === 8 ? 126 : 127)]);
  if (start === 8) frame.writeUInt16BE(size, 2);
  if (start === 14) frame.writeBigUInt64BE(BigInt(size), 2);
  const mask = randomBytes(4);
  frame.set(mask, start - 4);
  for (let i = 0; i < size; i++) frame[start + i] = payload[i]! ^ mask[i & 3]!;
  return frame;
}

/** Messages of a WebSocket: text, or binary with a line of JSON before raw bytes. `reply` sends a frame. */
export function webFraming(deliver: Deliver, reply: (frame: Buffer) => void): Framing {
  let [parts, size, isBinary]: [Buffer[], number, boolean] = [[], 0, false];
  return {
    encode: (json, tail) =>
      tail ? [webFrame(BINARY, Buffer.concat([Buffer.from(`${json}\n`), tail]))] : [webFrame(TEXT, Buffer.from(json))],
    take(data) {
      const [first = 0, second = 0] = data;
      if (second & 0x80 || first & 0x70) throw broken('a WebSocket frame that no server sends');
      const start = second < 126 ? 2 : second === 126 ? 4 : 10;
      if (data.length < start) return -start;
      const length = start === 2 ? second : start === 4 ? data.readUInt16BE(2) : Number(data.readBigUInt64BE(2));
      const [opcode, end, payload] = [first & 0xf, start + length, data.subarray(start, start + length)];
      if (size + length > MAX_MESSAGE) throw broken(`a message of more than ${MAX_MESSAGE} bytes`);
      if (data.length < end) return -end;
      if (opcode === PING || opcode === CLOSE) reply(webFrame(opcode === PING ? PONG : CLOSE, payload));
      if (opcode > BINARY) return end;
      if (opcode > 0) isBinary = opcode === BINARY; // else a message goes on
      parts.push(payload);
      size += length;
      if (!(first & 0x80)) return end;
      const message = Buffer.concat(parts);
      const cut = isBinary ? message.indexOf('\n') : -1;
      [parts, size] = [[], 0];
      deliver(cut < 0 ? message : message.subarray(0, cut), cut < 0 ? undefined : message.subarray(cut + 1));
      return end;
    },
  };
}
