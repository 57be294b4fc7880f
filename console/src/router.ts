// Where the viewer is. Filters, ranges and sorts live in the query, so that a link shows the same view.

import { computed, signal } from "@preact/signals";

const here = signal(location.pathname + location.search);
export const path = computed(() => here.value.split("?")[0]!);
export const query = computed(() => new URLSearchParams(here.value.split("?")[1] ?? ""));

addEventListener("popstate", () => (here.value = location.pathname + location.search));

export function go(to: string, replace = false): void {
  if (to === here.peek()) return;
  const samePage = to.split("?")[0] === path.peek();
  history[replace ? "replaceState" : "pushState"](null, "", to);
  here.value = to;
  if (!samePage) {
    scrollTo(0, 0);
    document.getElementById("main")?.focus({ preventScroll: true });
  }
}

/** The same page with other values in the query; empty ones leave it. */
export function withQuery(values: Record<string, string>): string {
  const changed = new URLSearchParams(query.value);
  for (const [name, value] of Object.entries(values)) {
    if (value) changed.set(name, value);
    else changed.delete(name);
  }
  const text = changed.toString();
  return path.value + (text ? `?${text}` : "");
}

/** Links of this console open without a load of the page. */
document.addEventListener("click", (event) => {
  const link = (event.target as Element).closest?.("a[href]");
  if (!(link instanceof HTMLAnchorElement) || event.defaultPrevented || event.button !== 0) return;
  if (event.metaKey || event.ctrlKey || event.shiftKey || event.altKey || link.target) return;
  if (link.origin !== location.origin || link.hash) return;
  event.preventDefault();
  go(link.pathname + link.search);
});

export const part = (text: string): string => encodeURIComponent(text);
/** /pods/NAMESPACE/NAME for NAMESPACE/NAME. */
export const podLink = (key: string): string => `/pods/${key.split("/").map(part).join("/")}`;
export const nodeLink = (name: string): string => `/nodes/${part(name)}`;
export const quotaLink = (name: string): string => `/quotas/${part(name)}`;
