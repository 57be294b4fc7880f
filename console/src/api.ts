// Requests to the server. Answers are kept by path, so that a page that was seen before shows at once, then anew.

import { effect, signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Me } from "./shapes";

export const API = "/api/v1";

export class Failure extends Error {
  constructor(
    readonly status: number,
    readonly object: string,
    readonly why: string,
    readonly remedy: string,
    /** The whole answer. */
    readonly body: unknown = null,
  ) {
    super(why);
  }
}

export const me = signal<Me | null>(null);
/** Why nobody is signed in; null while that is not known, or somebody is. */
export const signedOut = signal<Failure | null>(null);

export async function call<T>(to: string, init: RequestInit = {}): Promise<T> {
  let answer: Response;
  try {
    answer = await fetch(to.startsWith("/") ? to : `${API}/${to}`, { credentials: "same-origin", ...init });
  } catch (error) {
    if ((error as Error).name === "AbortError") throw error;
    throw new Failure(0, "console", "does not answer", "is koord console still running?");
  }
  if (answer.ok) return (answer.status === 204 ? null : await answer.json()) as T;
  const body = (await answer.json().catch(() => null)) as { object: string; cause: string; remedy: string } | null;
  const failure = new Failure(answer.status, body?.object ?? to, body?.cause ?? answer.statusText, body?.remedy ?? "", body);
  if (answer.status === 401) signedOut.value = failure;
  throw failure;
}

export const post = <T>(to: string, body: unknown, headers: Record<string, string> = {}): Promise<T> =>
  call<T>(to, {
    method: "POST",
    body: JSON.stringify(body),
    headers: { "Content-Type": "application/json", "X-Koord-Csrf": me.peek()?.csrf ?? "", ...headers },
  });

const kept = new Map<string, unknown>();
const MOST_KEPT = 40;

function keep(to: string, answer: unknown): void {
  kept.delete(to);
  kept.set(to, answer);
  if (kept.size > MOST_KEPT) kept.delete(kept.keys().next().value!);
}

/** What loads again: changes of this number, for example after a reset of the stream. */
export const again = signal(0);

export interface Loaded<T> {
  data: T | null;
  error: Failure | null;
  /** When the answer came, in seconds. */
  atS: number;
  reload: () => void;
}

/** The answer at a path, loaded again after `everyS` and whenever `tick` changes. Hidden tabs do not load. */
export function useLoaded<T>(to: string | null, everyS = 0, tick?: unknown): Loaded<T> {
  const data = useSignal<T | null>(null);
  const error = useSignal<Failure | null>(null);
  const atS = useSignal(0);
  const of = useSignal("");
  const turn = useSignal(0);
  useEffect(() => {
    if (to === null) return;
    if (of.value !== to) {
      of.value = to;
      data.value = (kept.get(to) as T | undefined) ?? null;
      error.value = null;
    }
    const ending = new AbortController();
    let timer = 0;
    let busy = false;
    const load = async (): Promise<void> => {
      clearTimeout(timer);
      if (document.hidden && data.peek() !== null) return;
      busy = true;
      try {
        const answer = await call<T>(to, { signal: ending.signal });
        keep(to, answer);
        data.value = answer;
        error.value = null;
        atS.value = Date.now() / 1000;
      } catch (failure) {
        if (!(failure instanceof Failure)) return;
        error.value = failure;
      } finally {
        busy = false;
      }
      const waitS = error.value ? 5 : everyS;
      if (waitS && !ending.signal.aborted) timer = window.setTimeout(load, waitS * 1000);
    };
    const shown = (): void => void (!document.hidden && !busy && load());
    document.addEventListener("visibilitychange", shown);
    const stop = effect(() => {
      again.value;
      turn.value;
      if (!busy) void load();
    });
    return () => {
      ending.abort();
      clearTimeout(timer);
      stop();
      document.removeEventListener("visibilitychange", shown);
    };
  }, [to, everyS, tick]);
  const stale = of.value !== to;
  return {
    data: stale ? ((to && (kept.get(to) as T)) || null) : data.value,
    error: stale ? null : error.value,
    atS: atS.value,
    reload: () => void turn.value++,
  };
}
