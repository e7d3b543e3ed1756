/** JSON whose integers are exact: one beyond 2^53 is a bigint, in both directions. */
import { randomUUID } from 'node:crypto';

/** Stands before the digits of a bigint while it is a text; nobody else knows it. */
const MARK = randomUUID();
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, 'g');
const UTF8 = new TextDecoder('utf-8', { fatal: true });

export function encode(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    // A bigint, or a circle, which fails again. A replacer is slow, and few values need one.
    return JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? `${MARK}${each}` : each)).replace(MARKED, '$1');
  }
}

export function decode(bytes: Uint8Array): any {
  const text = UTF8.decode(bytes);
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  let isInString = false;
  const marked = text.replace(/\\.|"|-?\d[\d.eE+-]*/g, (token) => {
    if (token === '"') isInString = !isInString;
    const isLarge = !isInString && /^-?\d{16,}$/.test(token) && !Number.isSafeInteger(Number(token));
    return isLarge ? `"${MARK}${token}"` : token;
  });
  if (marked === text) return JSON.parse(text);
  const isMarked = (each: unknown): each is string => typeof each === 'string' && each.startsWith(MARK);
  return JSON.parse(marked, (_, each) => (isMarked(each) ? BigInt(each.slice(MARK.length)) : each));
}
