// Numbers and times as people read them. Unknown is a dash, never zero.

export const NONE = "–";
const GIB = 2 ** 30;
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

type Maybe = number | null | undefined;

export const count = (value: Maybe): string => (value == null ? NONE : whole.format(value));

/** Amounts have one decimal below a hundred, none above. */
export function amount(value: Maybe): string {
  if (value == null) return NONE;
  return Math.abs(value) < 99.95 ? value.toFixed(1) : whole.format(value);
}

export const cores = (milli: Maybe): string => amount(milli == null ? milli : milli / 1000);
export const gib = (bytes: Maybe): string => amount(bytes == null ? bytes : bytes / GIB);

/** What somebody chose, such as a request or a capacity: whole numbers stay whole. */
export const given = (value: Maybe): string =>
  value == null ? NONE : Number.isInteger(value) ? whole.format(value) : amount(value);
export const coresGiven = (milli: Maybe): string => given(milli == null ? milli : milli / 1000);
export const gibGiven = (bytes: Maybe): string => given(bytes == null ? bytes : bytes / GIB);

export const percent = (part: Maybe, all: Maybe): string =>
  part == null || all == null ? NONE : all ? `${Math.round((100 * part) / all)}%` : "0%";
export const permille = (value: Maybe): string => (value == null ? NONE : `${Math.round(value / 10)}%`);

export function duration(seconds: Maybe): string {
  if (seconds == null) return NONE;
  const all = Math.max(0, Math.floor(seconds));
  if (all < 60) return `${all} s`;
  const minutes = Math.floor(all / 60);
  if (all < 600) return all % 60 ? `${minutes} min ${all % 60} s` : `${minutes} min`;
  if (all < 3600) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 10) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  if (hours < 48) return `${hours} h`;
  return `${Math.floor(hours / 24)} days`;
}

const two = (value: number): string => String(value).padStart(2, "0");

/** In the viewer's zone. */
export function clock(atS: number, seconds = false): string {
  const at = new Date(atS * 1000);
  return `${two(at.getHours())}:${two(at.getMinutes())}${seconds ? `:${two(at.getSeconds())}` : ""}`;
}

export function moment(atS: number, nowS: number = Date.now() / 1000): string {
  const at = new Date(atS * 1000);
  if (new Date(nowS * 1000).toDateString() === at.toDateString()) return clock(atS);
  return `${at.toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock(atS)}`;
}

export const utc = (atS: number): string => `${new Date(atS * 1000).toISOString().slice(0, 19)}Z`;

export const plural = (value: number, noun: string, many = `${noun}s`): string =>
  `${whole.format(value)} ${value === 1 ? noun : many}`;

export const BANDS = ["system", "prod", "mid", "batch", "free"] as const;
export type Band = (typeof BANDS)[number];
const NAMES: Record<string, string> = { prod: "services" };
export const bandName = (band: string): string => NAMES[band] ?? band;
