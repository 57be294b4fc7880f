// The stream of events: one connection for all that the page shows. A hidden tab closes it; one that comes back resumes
// from the last event it saw, and loads everything again if the server no longer has what came since.

import { effect, signal } from "@preact/signals";
import { again, API, me } from "./api";
import type { MapDelta, Overview } from "./shapes";

export type Connection = "connecting" | "live" | "lost";
export const connection = signal<Connection>("connecting");
/** When the server was last heard, in seconds. */
export const heardS = signal(0);
export const overview = signal<Overview | null>(null);

type Heard = (data: unknown) => void;
const listeners = new Map<string, Set<Heard>>();
const topics = signal("");
const hidden = signal(document.hidden);
document.addEventListener("visibilitychange", () => (hidden.value = document.hidden));

let source: EventSource | null = null;
let lastId = "";
let retry = 0;

export function listen(topic: string, heard: Heard): () => void {
  const there = listeners.get(topic) ?? new Set();
  listeners.set(topic, there.add(heard));
  name();
  return () => {
    there.delete(heard);
    if (!there.size) listeners.delete(topic);
    name();
  };
}

let naming = false;
function name(): void {
  if (naming) return;
  naming = true;
  queueMicrotask(() => {
    naming = false;
    topics.value = [...listeners.keys()].sort().join(",");
  });
}

/** What was loaded holds all that came until this event: the stream goes on from there. */
export function loadedAt(epoch: string, rev: number): void {
  const [of, at] = [lastId.slice(0, lastId.lastIndexOf("-")), Number(lastId.slice(lastId.lastIndexOf("-") + 1))];
  if (of !== epoch || !(at >= rev)) lastId = `${epoch}-${rev}`;
}

function open(wanted: string): void {
  const from = lastId ? `&from=${encodeURIComponent(lastId)}` : "";
  const opened = new EventSource(`${API}/events?topics=${encodeURIComponent(wanted)}${from}`);
  source = opened;
  const heard = (event: Event): void => {
    const { lastEventId, data } = event as MessageEvent<string>;
    if (lastEventId) lastId = lastEventId;
    connection.value = "live";
    heardS.value = Date.now() / 1000;
    if (event.type === "reset") again.value++;
    else if (event.type !== "hello") for (const each of listeners.get(event.type) ?? []) each(JSON.parse(data));
  };
  for (const type of ["hello", "reset", ...wanted.split(",")]) opened.addEventListener(type, heard);
  opened.onopen = () => {
    connection.value = "live";
    heardS.value = Date.now() / 1000;
  };
  opened.onerror = () => {
    connection.value = "lost";
    if (opened.readyState !== EventSource.CLOSED) return;
    // The browser gives up where the server refuses: rights may have changed, or the session has ended.
    clearTimeout(retry);
    retry = window.setTimeout(() => source === opened && (close(), open(topics.peek())), 5000);
  };
}

function close(): void {
  clearTimeout(retry);
  source?.close();
  source = null;
}

/** Begins to follow; once somebody is signed in. */
export function follow(): void {
  effect(() => {
    close();
    if (!hidden.value && topics.value && me.value) open(topics.value);
  });
  listen("overview", (data) => {
    const next = data as Overview;
    const before = overview.peek();
    // Events are the same for all viewers: what only one may see is in the answer that it loads.
    const examples = new Map(before?.pending.groups.map((group) => [group.reason + group.plugin, group.examples]));
    for (const group of next.pending.groups) group.examples = examples.get(group.reason + group.plugin) ?? [];
    overview.value = { ...next, hiddenPods: before?.hiddenPods ?? 0 };
  });
}

export type { MapDelta };
