// Find: nodes, pods, services and quotas by a part of their name.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, Failure } from "./api";
import { Dialog } from "./keys";
import { go } from "./router";
import type { Finds } from "./shapes";

export const finding = signal(false);

export function Finder(): JSX.Element {
  const [text, setText] = useState("");
  const [found, setFound] = useState<Finds | null>(null);
  const [error, setError] = useState("");
  const [at, setAt] = useState(0);
  const close = (): void => void (finding.value = false);
  useEffect(() => {
    if (!text.trim()) return setFound(null);
    const ending = new AbortController();
    const timer = setTimeout(async () => {
      try {
        setFound(await call<Finds>(`find?q=${encodeURIComponent(text.trim())}`, { signal: ending.signal }));
        setError("");
        setAt(0);
      } catch (failure) {
        if (failure instanceof Failure) setError(`${failure.object}: ${failure.why}`);
      }
    }, 80);
    return () => (clearTimeout(timer), ending.abort());
  }, [text]);
  const finds = found?.finds ?? [];
  const open = (i: number): void => {
    const find = finds[i];
    if (!find) return;
    close();
    go(find.link);
  };
  const onKey = (event: KeyboardEvent): void => {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move) setAt(Math.max(0, Math.min(finds.length - 1, at + move)));
    else if (event.key === "Enter") open(at);
    else return;
    event.preventDefault();
  };
  const none = found && !finds.length ? `Nothing is called like ${text.trim()}${found.hidden ? "; you may not see some pods" : ""}.` : "";
  return (
    <Dialog label="Find" class="finder" onClose={close}>
      <input
        type="text"
        role="combobox"
        aria-expanded={finds.length > 0}
        aria-controls="finds"
        aria-activedescendant={finds.length ? `find-${at}` : undefined}
        aria-label="Find a node, pod, service or quota"
        placeholder="Node, pod, service or quota"
        autofocus
        spellcheck={false}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={onKey}
      />
      <ul id="finds" role="listbox" aria-label="Found" hidden={!finds.length}>
        {finds.map((find, i) => (
          <li key={find.link} id={`find-${i}`} role="option" aria-selected={i === at} onClick={() => open(i)} onPointerMove={() => setAt(i)}>
            <span class="mono">{find.name}</span>
            <span class="dim">
              {find.kind}
              {find.detail && `, ${find.detail}`}
            </span>
          </li>
        ))}
      </ul>
      <div class="empty" role="status" style={{ paddingTop: finds.length ? 0 : undefined }}>
        {error || none || (finds.length ? "" : "A part of a name is enough. Arrow keys choose, Enter opens.")}
      </div>
    </Dialog>
  );
}
