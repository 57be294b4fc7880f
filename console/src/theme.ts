// Light or dark: as the system is, until the viewer chooses.

import { effect, signal } from "@preact/signals";

const KEPT = "koord-theme";
const dark = matchMedia("(prefers-color-scheme: dark)");

function stored(): string | null {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null;
  }
}

export const theme = signal(stored() ?? (dark.matches ? "dark" : "light"));

export function begin(): void {
  dark.addEventListener("change", () => void (stored() === null && (theme.value = dark.matches ? "dark" : "light")));
  effect(() => void (document.documentElement.dataset.theme = theme.value));
}

export function toggle(): void {
  theme.value = theme.value === "dark" ? "light" : "dark";
  try {
    localStorage.setItem(KEPT, theme.value);
  } catch {
    // The choice then holds until the page is left.
  }
}

export const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
export const calm = (): boolean => matchMedia("(prefers-reduced-motion: reduce)").matches;
