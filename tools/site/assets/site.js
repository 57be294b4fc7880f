// The theme, the search and copying. Pages are complete without it.
"use strict";

const script = document.currentScript;
const root = script.dataset.root;
const dark = matchMedia("(prefers-color-scheme: dark)");

function kept(value) {
  try {
    if (value !== undefined) localStorage.setItem("koord-theme", value);
    return localStorage.getItem("koord-theme");
  } catch {
    return null; // The choice then holds for this page.
  }
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  const button = document.getElementById("theme");
  if (button) button.textContent = theme === "dark" ? "Light" : "Dark";
}

// Before the first paint, so that the page does not flash.
setTheme(kept() ?? (dark.matches ? "dark" : "light"));

addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme");
  button.hidden = false;
  setTheme(document.documentElement.dataset.theme);
  button.addEventListener("click", () => {
    const theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
    kept(theme);
    setTheme(theme);
  });
  dark.addEventListener("change", () => kept() ?? setTheme(dark.matches ? "dark" : "light"));
  const menu = document.getElementById("menu");
  const narrow = matchMedia("(max-width: 860px)");
  const fold = () => (menu.open = !narrow.matches);
  fold();
  narrow.addEventListener("change", fold);
  document.querySelector(".pages [aria-current]")?.scrollIntoView({ block: "nearest" });
  document.querySelectorAll(".code").forEach(addCopy);
  search();
});

function addCopy(block) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    const text = block.querySelector("code").textContent;
    try {
      await navigator.clipboard.writeText(`${text}\n`);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(block.querySelector("code"));
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  block.append(button);
}

// The search: all words of the query must be in a passage; titles and headings count more than text.

let rows = null;
let onRows = () => {};

// Called by search.js, which the first use of the search loads.
function searchRows(list) {
  rows = list.map(([href, title, heading, text]) => ({
    href, title, heading, text, lower: [title.toLowerCase(), heading.toLowerCase(), text.toLowerCase()],
  }));
  onRows();
}

function load() {
  if (document.getElementById("rows")) return;
  const element = document.createElement("script");
  element.id = "rows";
  element.src = `${root}search.js`;
  document.head.append(element);
}

function score(row, words) {
  const [title, heading, text] = row.lower;
  let sum = row.heading ? 0 : 1;
  for (const word of words) {
    const start = new RegExp(`(^|[^a-z0-9])${word.replace(/[^a-z0-9]/g, "\\$&")}`);
    let best = 0;
    if (title.includes(word)) best = start.test(title) ? (row.heading ? 6 : 12) : 3;
    if (heading.includes(word)) best = Math.max(best, start.test(heading) ? 8 : 3);
    if (text.includes(word)) best += start.test(text) ? 2 : 1;
    if (best === 0) return 0;
    sum += best;
  }
  return sum;
}

function found(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length || !rows) return [];
  return rows
    .map((row) => ({ row, points: score(row, words) }))
    .filter(({ points }) => points > 0)
    .sort((a, b) => b.points - a.points)
    .slice(0, 12)
    .map(({ row }) => ({ ...row, excerpt: excerpt(row, words) }));
}

function excerpt(row, words) {
  const at = Math.max(0, Math.min(...words.map((word) => row.lower[2].indexOf(word)).filter((place) => place >= 0), 1e9));
  const from = at > 1e8 ? 0 : row.text.lastIndexOf(" ", Math.max(0, at - 30)) + 1;
  const rest = row.text.slice(from, from + 130);
  const end = rest.length < 130 ? rest.length : rest.lastIndexOf(" ");
  return `${from ? "… " : ""}${rest.slice(0, end)}${end < row.text.length - from ? " …" : ""}`;
}

function search() {
  const input = document.getElementById("query");
  const list = document.getElementById("hits");
  let chosen = -1;

  const close = () => {
    list.hidden = true;
    chosen = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };

  const choose = (number) => {
    const hits = [...list.querySelectorAll("a")];
    if (!hits.length) return;
    chosen = (number + hits.length) % hits.length;
    hits.forEach((hit, at) => hit.setAttribute("aria-selected", String(at === chosen)));
    hits[chosen].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", hits[chosen].id);
  };

  const show = () => {
    if (!input.value.trim()) return close();
    const hits = found(input.value);
    list.replaceChildren(...hits.map(hitOf));
    if (!hits.length) {
      const none = document.createElement("p");
      none.setAttribute("role", "option");
      none.setAttribute("aria-disabled", "true");
      none.textContent = rows ? `No page has all of these words: ${input.value}` : "Loading…";
      list.append(none);
    }
    list.hidden = false;
    chosen = -1;
    input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-expanded", "true");
    if (hits.length) choose(0);
  };

  onRows = show;
  input.addEventListener("focus", load);
  input.addEventListener("input", show);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter") {
      list.querySelector("[aria-selected=true]")?.click();
    } else if (event.key === "Escape") {
      close();
      input.blur();
    }
  });
  list.addEventListener("click", close);
  document.addEventListener("pointerdown", (event) => event.target.closest(".find") || close());
  document.addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.ctrlKey || event.metaKey || event.target.closest("input")) return;
    event.preventDefault();
    input.focus();
    input.select();
  });
}

function hitOf(row, number) {
  const hit = document.createElement("a");
  hit.href = root + row.href;
  hit.id = `hit-${number}`;
  hit.setAttribute("role", "option");
  hit.setAttribute("aria-selected", "false");
  hit.tabIndex = -1;
  const title = document.createElement("b");
  title.textContent = row.heading ? `${row.title} › ${row.heading}` : row.title;
  const text = document.createElement("span");
  text.textContent = row.excerpt;
  hit.append(title, text);
  return hit;
}
