// Keys of all pages.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { finding } from "./find";
import { copy } from "./parts";
import { go } from "./router";
import { toggle } from "./theme";

export const helping = signal(false);

const PAGES: Record<string, string> = { o: "/", p: "/pending", n: "/nodes", s: "/services", q: "/quotas", c: "/changes", v: "/worth", h: "/health" };
const KEYS = [
  ["/", "find a node, a pod or a quota"],
  ["g, then o p n s q c v h", "overview, pending, nodes, services, quotas, changes, worth, health"],
  ["j k", "next and previous row"],
  ["Enter", "open the row"],
  ["[ ]", "shorter and longer time range"],
  ["c", "copy the command that prints the same"],
  ["t", "light or dark"],
  ["?", "this list"],
  ["Esc", "back"],
] as const;
let goingUntil = 0;

export function onKey(event: KeyboardEvent): void {
  if (event.metaKey || event.ctrlKey || event.altKey || event.defaultPrevented) return;
  const at = event.target as HTMLElement;
  if (document.querySelector("dialog[open]") || at.closest("input, select, textarea")) return;
  const going = Date.now() < goingUntil;
  goingUntil = 0;
  if (going && PAGES[event.key]) go(PAGES[event.key]!);
  else if (event.key === "g") goingUntil = Date.now() + 1500;
  else if (event.key === "/") finding.value = true;
  else if (event.key === "?") helping.value = true;
  else if (event.key === "t") toggle();
  else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  else if (event.key === "c") void copy(document.querySelector<HTMLElement>("[data-copies]")?.dataset.copies ?? location.href);
  else if (event.key === "[" || event.key === "]") range(event.key === "]" ? 1 : -1);
  else if (event.key === "Escape" && history.length > 1) history.back();
  else return;
  event.preventDefault();
}

function step(by: number): void {
  const rows = [...document.querySelectorAll<HTMLElement>("main [data-row]")].filter((row) => row.offsetParent);
  const at = rows.indexOf(document.activeElement as HTMLElement);
  rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))]?.focus();
}

function range(by: number): void {
  const choices = [...document.querySelectorAll<HTMLElement>("[data-range] button")];
  const at = choices.findIndex((each) => each.getAttribute("aria-pressed") === "true");
  choices[at + by]?.click();
}

/** A dialog that has the focus until it closes, and gives it back. */
export function Dialog(props: { label: string; class?: string; onClose: () => void; children: JSX.Element | JSX.Element[] }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current!.showModal();
    return () => dialog.current?.close();
  }, []);
  return (
    <dialog
      ref={dialog}
      class={props.class}
      aria-label={props.label}
      onCancel={(event) => {
        event.preventDefault();
        props.onClose();
      }}
      onClick={(event) => event.target === dialog.current && props.onClose()}
    >
      {props.children}
    </dialog>
  );
}

export function HelpDialog(): JSX.Element {
  const close = (): void => void (helping.value = false);
  return (
    <Dialog label="Keys" onClose={close}>
      <div class="inside">
        <h2>Keys</h2>
        <dl class="keys">
          {KEYS.map(([key, text]) => [
            <dt key={key}>
              <kbd>{key}</kbd>
            </dt>,
            <dd key={text}>{text}</dd>,
          ])}
        </dl>
      </div>
      <footer>
        <button class="button main" onClick={close} autofocus>
          Close
        </button>
      </footer>
    </Dialog>
  );
}
