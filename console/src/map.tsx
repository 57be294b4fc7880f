// The map of nodes: one tank for each node, drawn on a canvas so that thousands stay fluent. Above a thousand nodes a
// group is a silhouette: nodes sorted by use, four pixels a column. What the pointer is on is drawn on a second canvas.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { again, call, Failure } from "./api";
import { amount, cores, count, percent, permille } from "./format";
import { listen, loadedAt } from "./live";
import { Card, Lines, said, Segments, useWidth, Wrong } from "./parts";
import { go, nodeLink, query, withQuery } from "./router";
import { MARKS, type MapDelta, type NodeMap as MapAnswer } from "./shapes";
import { colour, theme } from "./theme";

export type Mode = "bands" | "cpu" | "memory" | "held";
const MODES = [
  ["bands", "Bands"],
  ["cpu", "CPU"],
  ["memory", "Memory"],
  ["held", "Held back"],
] as const;
const SILHOUETTES_FROM = 1000;
const COLUMN = 4;
const STACK = ["system", "prod", "mid", "batch", "free"] as const;
const SHARES = ["prodPermille", "midPermille", "batchPermille", "freePermille", "systemPermille", "heldBackPermille", "memoryPermille", "marks"] as const;

/** Rows of the map, changed in place by deltas. */
const map: { answer: MapAnswer | null } = { answer: null };
const drawn = signal(0);
const failed = signal<Failure | null>(null);
let waiting: MapDelta[] = [];
let loading = "";

async function load(by: string): Promise<void> {
  loading = by;
  waiting = [];
  try {
    const answer = await call<MapAnswer>(`map?by=${encodeURIComponent(by)}`);
    if (loading !== by) return;
    map.answer = answer;
    failed.value = null;
    loadedAt(answer.epoch, answer.rev);
    const missed = waiting;
    loading = "";
    waiting = [];
    for (const delta of missed) apply(delta);
    drawn.value++;
  } catch (failure) {
    if (failure instanceof Failure) failed.value = failure;
  }
}

function apply(delta: MapDelta): void {
  if (loading || !map.answer) return void waiting.push(delta);
  const answer = map.answer;
  if (delta.epoch !== answer.epoch || delta.rev <= answer.rev) return;
  answer.rev = delta.rev;
  delta.rows.forEach((row, i) => {
    for (const column of SHARES) answer[column][row] = delta[column][i] as number;
    answer.capacityMilli[row] = delta.capacityMilli[i]!;
    const isNew = answer.group[row] === undefined;
    answer.names[row] = delta.names[i]!;
    if (!isNew && answer.by !== "pool") return;
    let group = answer.groups.indexOf(delta.group[i]!);
    if (group < 0) group = answer.groups.push(delta.group[i]!) - 1;
    answer.group[row] = group;
  });
  drawn.value++;
}

/** Milli-cores of a share of a node. */
const milliOf = (answer: MapAnswer, row: number, share: number | null | undefined): number | null =>
  share == null ? null : (share * answer.capacityMilli[row]!) / 1000;

function usedOf(answer: MapAnswer, row: number): number | null {
  let sum = 0;
  for (const band of STACK) {
    const share = answer[`${band}Permille`][row];
    if (share == null) return null;
    sum += share;
  }
  return sum;
}

function shareOf(answer: MapAnswer, mode: Mode, row: number): number | null {
  if (mode === "memory") return answer.memoryPermille[row] ?? null;
  if (mode === "held") return answer.heldBackPermille[row] ?? null;
  return usedOf(answer, row);
}

function told(answer: MapAnswer, row: number): string {
  const [marks, used] = [answer.marks[row] ?? 0, usedOf(answer, row)];
  const states = [
    marks & MARKS.notReady ? "not ready" : "",
    marks & MARKS.cordoned ? "cordoned" : "",
    marks & MARKS.lendingOff ? "lending is off" : "",
  ].filter(Boolean);
  if (used === null || marks & MARKS.noReport) return [`${answer.names[row]}  no report: lends nothing`, ...states].join(" · ");
  const parts = (["prod", "mid", "batch", "free", "system"] as const)
    .filter((band) => band === "prod" || band === "batch" || band === "system" || answer[`${band}Permille`][row])
    .map((band) => `${band === "prod" ? "services" : band} ${cores(milliOf(answer, row, answer[`${band}Permille`][row]))}`);
  const held = answer.heldBackPermille[row];
  if (held) parts.push(`held back ${cores(milliOf(answer, row, held))}`);
  return [`${answer.names[row]}  ${permille(used)} used`, ...parts, ...states].join(" · ");
}

interface Group {
  name: string;
  rows: number[];
  say: string;
}

function groupsOf(answer: MapAnswer): Group[] {
  const rows: number[][] = answer.groups.map(() => []);
  answer.names.forEach((name, row) => void (name && rows[answer.group[row]!]!.push(row)));
  // Nodes without the label, where no node has it, need no heading that says so.
  const single = answer.groups.filter((_, i) => rows[i]!.length).length === 1;
  const groups = answer.groups.map((name, i) => {
    let [used, capacity, held] = [0, 0, 0];
    for (const row of rows[i]!) {
      const share = usedOf(answer, row);
      if (share === null) continue;
      capacity += answer.capacityMilli[row]!;
      used += milliOf(answer, row, share)!;
      held += milliOf(answer, row, answer.heldBackPermille[row]) ?? 0;
    }
    const parts = [`${count(rows[i]!.length)} ${rows[i]!.length === 1 ? "node" : "nodes"}`];
    if (capacity) parts.push(`${percent(used, capacity)} of CPU used`);
    if (held >= 1000) parts.push(`${amount(held / 1000)} cores held back`);
    return { name: single && name.startsWith("no ") ? "all nodes" : name, rows: rows[i]!, say: parts.join(" · ") };
  });
  const byName = new Intl.Collator("en", { numeric: true });
  for (const group of groups) group.rows.sort((a, b) => byName.compare(answer.names[a]!, answer.names[b]!));
  return groups.filter((group) => group.rows.length).sort((a, b) => b.rows.length - a.rows.length || byName.compare(a.name, b.name));
}

interface Hit {
  x: number;
  y: number;
  wide: number;
  high: number;
  row: number;
}

interface Tile {
  wide: number;
  high: number;
  gap: number;
}

function tileOf(nodes: number, small: boolean): Tile {
  if (nodes <= 60) return small ? { wide: 24, high: 32, gap: 5 } : { wide: 34, high: 40, gap: 5 };
  if (nodes <= 600) return small ? { wide: 12, high: 14, gap: 3 } : { wide: 18, high: 20, gap: 3 };
  return small ? { wide: 5, high: 6, gap: 1 } : { wide: 8, high: 10, gap: 1 };
}

type Colours = Record<string, string>;
const coloursNow = (): Colours =>
  Object.fromEntries(["system", "prod", "mid", "batch", "free", "track", "bad", "dim", "text", "card", "p1", "p2", "p3", "p4", "p5"].map((k) => [k, colour(k)]));
const step = (share: number): string => `p${share < 200 ? 1 : share < 400 ? 2 : share < 600 ? 3 : share < 800 ? 4 : 5}`;
const FONT = "12px Inter, ui-sans-serif, system-ui, sans-serif";

/** Draws all groups, or only measures without a context. Returns the height and where each node is. */
function paint(context: CanvasRenderingContext2D | null, answer: MapAnswer, groups: Group[], mode: Mode, width: number, colours: Colours): [number, Hit[]] {
  const nodes = groups.reduce((sum, group) => sum + group.rows.length, 0);
  const small = width < 600;
  const tile = tileOf(nodes, small);
  const hits: Hit[] = [];
  let [y, left, rowHigh] = [0, 0, 0];
  for (const group of groups) {
    const need = Math.max(small ? 200 : 250, group.rows.length * (tile.wide + tile.gap) - tile.gap);
    if (left && left + need > width) [y, left, rowHigh] = [y + rowHigh, 0, 0];
    const start = left;
    const right = Math.min(width, start ? start + need : width);
    if (context) heading(context, group, start, y, right - start, colours);
    if (nodes > SILHOUETTES_FROM && mode === "bands") {
      const high = small ? 48 : 72;
      silhouette(context, answer, group, y + 20, high, width, colours, hits);
      [rowHigh, left] = [high + 44, width];
      continue;
    }
    // Other modes of many nodes show the fullest first.
    const rows = nodes > SILHOUETTES_FROM ? fullestFirst(answer, group.rows, mode) : group.rows;
    let [x, at] = [start, y + 20];
    for (const row of rows) {
      if (x + tile.wide > right + 0.5) [x, at] = [start, at + tile.high + tile.gap];
      hits.push({ x, y: at, wide: tile.wide, high: tile.high, row });
      if (context) tank(context, answer, row, mode, x, at, tile, colours);
      x += tile.wide + tile.gap;
    }
    rowHigh = Math.max(rowHigh, at + tile.high + 16 - y);
    left = at > y + 20 ? width : start + need + 28;
  }
  return [Math.max(0, y + rowHigh - 14), hits];
}

function heading(context: CanvasRenderingContext2D, group: Group, x: number, y: number, wide: number, colours: Colours): void {
  context.font = `500 ${FONT}`;
  context.fillStyle = colours.text!;
  context.fillText(group.name, x, y + 12);
  const after = context.measureText(group.name).width + 8;
  context.font = FONT;
  context.fillStyle = colours.dim!;
  let text = group.say;
  while (text.includes(" · ") && after + context.measureText(text).width > wide) text = text.slice(0, text.lastIndexOf(" · "));
  context.fillText(text, x + after, y + 12);
}

function fullestFirst(answer: MapAnswer, rows: number[], mode: Mode): number[] {
  const key = (row: number): number => shareOf(answer, mode, row) ?? -1;
  const keys = new Map(rows.map((row) => [row, key(row)]));
  return [...rows].sort((a, b) => keys.get(b)! - keys.get(a)! || a - b);
}

function silhouette(context: CanvasRenderingContext2D | null, answer: MapAnswer, group: Group, y: number, high: number, width: number, colours: Colours, hits: Hit[]): void {
  const rows = fullestFirst(answer, group.rows, "bands");
  for (let x = 0; x < width; x += COLUMN) {
    const from = Math.floor((x / width) * rows.length);
    const part = rows.slice(from, Math.max(from + 1, Math.floor(((x + COLUMN) / width) * rows.length)));
    hits.push({ x, y, wide: COLUMN - 1, high, row: part[0]! });
    if (!context) continue;
    context.fillStyle = colours.track!;
    context.fillRect(x, y, COLUMN, high);
    if (usedOf(answer, part[0]!) === null) continue;
    let bottom = y + high;
    for (const band of STACK) {
      const share = part.reduce((sum, row) => sum + (answer[`${band}Permille`][row] ?? 0), 0) / part.length;
      const tall = (share / 1000) * high;
      context.fillStyle = colours[band]!;
      context.fillRect(x, bottom - tall, COLUMN, tall);
      bottom -= tall;
    }
  }
  if (!context) return;
  context.fillStyle = colours.bad!;
  rows.forEach((row, i) => {
    if (answer.marks[row]! & MARKS.needsAttention) context.fillRect((i / rows.length) * width, y + high + 2, 1.5, 5);
  });
}

function hatched(context: CanvasRenderingContext2D, x: number, y: number, wide: number, high: number, stroke: string): void {
  context.save();
  context.beginPath();
  context.rect(x, y, wide, high);
  context.clip();
  context.strokeStyle = stroke;
  context.lineWidth = 1;
  context.beginPath();
  for (let at = -high; at < wide + high; at += 4) {
    context.moveTo(x + at, y + high);
    context.lineTo(x + at + high, y);
  }
  context.stroke();
  context.restore();
}

function tank(context: CanvasRenderingContext2D, answer: MapAnswer, row: number, mode: Mode, x: number, y: number, tile: Tile, colours: Colours): void {
  const { wide, high } = tile;
  const marks = answer.marks[row] ?? 0;
  const used = usedOf(answer, row);
  const share = shareOf(answer, mode, row);
  const large = wide > 12;
  if (!large) {
    context.fillStyle = share === null || mode === "bands" ? colours.track! : colours[step(mode === "held" ? share * 5 : share)]!;
    context.fillRect(x, y, wide, high);
    if (!marks && mode !== "bands") return;
  } else {
    context.save();
    context.beginPath();
    context.roundRect(x, y, wide, high, 2);
    context.fillStyle = share === null || mode === "bands" ? colours.track! : colours[step(mode === "held" ? share * 5 : share)]!;
    context.fill();
    context.clip();
  }
  if (used === null || marks & MARKS.noReport) {
    context.globalAlpha = 0.7;
    hatched(context, x, y, wide, high, colours.dim!);
    context.globalAlpha = 1;
  } else if (mode === "bands") {
    let bottom = y + high;
    for (const band of STACK) {
      const tall = ((answer[`${band}Permille`][row] ?? 0) / 1000) * high;
      if (!tall) continue;
      context.fillStyle = colours[band]!;
      context.fillRect(x, bottom - tall, wide, tall);
      bottom -= tall;
    }
    const held = ((answer.heldBackPermille[row] ?? 0) / 1000) * high;
    if (large && held > 0.8) hatched(context, x, bottom - held, wide, held, colours.batch!);
  }
  if (marks & MARKS.cordoned) {
    context.strokeStyle = colours.text!;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(x, y + high);
    context.lineTo(x + wide, y);
    context.stroke();
  }
  if (large) context.restore();
  if (marks & MARKS.lendingOff) {
    context.setLineDash([2, 2]);
    context.strokeStyle = colours.dim!;
    context.lineWidth = 1;
    context.strokeRect(x + 0.5, y + 0.5, wide - 1, high - 1);
    context.setLineDash([]);
  }
  if (marks & (MARKS.needsAttention | MARKS.notReady)) {
    context.strokeStyle = colours.bad!;
    context.lineWidth = large ? 2 : 1.5;
    context.strokeRect(x, y, wide, high);
    if (!large) return;
    context.fillStyle = colours.bad!;
    context.beginPath();
    context.moveTo(x + wide - 9, y);
    context.lineTo(x + wide, y);
    context.lineTo(x + wide, y + 9);
    context.fill();
  }
}

function sized(canvas: HTMLCanvasElement, width: number, height: number): CanvasRenderingContext2D {
  const ratio = devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d")!;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Milliseconds of the last full draw; tests read it. */
export const lastDraw = { ms: 0 };
(globalThis as { koordMap?: unknown }).koordMap = lastDraw;

export function NodeMap(): JSX.Element {
  const by = query.value.get("by") || "pool";
  const mode = (MODES.find(([name]) => name === query.value.get("show"))?.[0] ?? "bands") as Mode;
  const [box, width] = useWidth();
  const [text, setText] = useState("");
  const canvas = useRef<HTMLCanvasElement>(null);
  const over = useRef<HTMLCanvasElement>(null);
  const hits = useRef<Hit[]>([]);
  const chosen = useRef(-1);
  const nodes = useRef(0);

  useEffect(() => {
    map.answer = null;
    void load(by);
    const end = listen("map", (delta) => apply(delta as MapDelta));
    const reload = again.subscribe(() => void (map.answer && load(by)));
    return () => (end(), reload());
  }, [by]);

  const plain = (): string => {
    const answer = map.answer;
    if (!answer) return "";
    const capacity = answer.capacityMilli.reduce((sum, milli, row) => sum + (answer.names[row] ? milli : 0), 0);
    return `${count(nodes.current)} nodes · ${cores(capacity)} cores`;
  };
  const mark = (row: number): void => {
    chosen.current = row;
    const answer = map.answer;
    if (!answer || !over.current || !canvas.current) return;
    const context = sized(over.current, width, canvas.current.clientHeight);
    const hit = row < 0 ? undefined : hits.current.find((each) => each.row === row);
    setText(hit ? told(answer, row) : plain());
    if (!hit) return;
    context.strokeStyle = colour("text");
    context.lineWidth = 2;
    context.strokeRect(hit.x - 1, hit.y - 1, hit.wide + 2, hit.high + 2);
  };
  const count_ = drawn.value;
  useEffect(() => {
    if (!width || !canvas.current || !map.answer) return;
    const answer = map.answer;
    const frame = requestAnimationFrame(() => {
      const began = performance.now();
      const groups = groupsOf(answer);
      nodes.current = groups.reduce((sum, group) => sum + group.rows.length, 0);
      const colours = coloursNow();
      const [height] = paint(null, answer, groups, mode, width, colours);
      const context = sized(canvas.current!, width, height + 2);
      hits.current = paint(context, answer, groups, mode, width, colours)[1];
      lastDraw.ms = performance.now() - began;
      mark(chosen.current);
    });
    return () => cancelAnimationFrame(frame);
  }, [count_, width, mode, theme.value]);

  const at = (event: PointerEvent | MouseEvent): number => {
    const area = canvas.current!.getBoundingClientRect();
    const [x, y] = [event.clientX - area.left, event.clientY - area.top];
    return hits.current.find((hit) => x >= hit.x && x <= hit.x + hit.wide + 1 && y >= hit.y && y <= hit.y + hit.high + 1)?.row ?? -1;
  };
  const onKey = (event: KeyboardEvent): void => {
    const places = hits.current;
    const index = places.findIndex((hit) => hit.row === chosen.current);
    const perRow = places.filter((hit) => hit.y === places[0]?.y).length;
    const move = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: perRow, ArrowUp: -perRow }[event.key];
    if (move && places.length) {
      event.preventDefault();
      mark(places[Math.max(0, Math.min(places.length - 1, index < 0 ? 0 : index + move))]!.row);
      said.value = told(map.answer!, chosen.current);
    } else if (event.key === "Enter" && chosen.current >= 0) go(nodeLink(map.answer!.names[chosen.current]!));
  };
  const legend = useMemo(() => <Legend mode={mode} silhouettes={nodes.current > SILHOUETTES_FROM} />, [mode, nodes.current > SILHOUETTES_FROM]);
  const ready = count_ > 0 && map.answer !== null;
  return (
    <Card
      title="Nodes"
      say={text}
      sayWide
      command="koord top nodes"
      tools={
        <>
          <Segments label="Show" options={MODES} value={mode} onChange={(value) => go(withQuery({ show: value === "bands" ? "" : value }), true)} />
          <GroupBy by={by} />
        </>
      }
    >
      <div class="body">
        {failed.value && <Wrong failure={failed.value} onRetry={() => void load(by)} />}
        {!ready && !failed.value && <Lines rows={3} />}
        <div class="map" ref={box} hidden={!ready}>
          <canvas
            ref={canvas}
            tabIndex={0}
            role="application"
            aria-label="Map of nodes. Arrow keys choose a node, Enter opens it. The page Nodes has the same as a table."
            onPointerMove={(event) => {
              const row = at(event);
              if (row !== chosen.current) mark(row);
            }}
            onPointerLeave={() => mark(-1)}
            onClick={(event) => {
              const row = at(event);
              if (row >= 0) go(nodeLink(map.answer!.names[row]!));
            }}
            onKeyDown={onKey}
          />
          <canvas ref={over} aria-hidden="true" />
        </div>
        {legend}
      </div>
    </Card>
  );
}

function GroupBy({ by }: { by: string }): JSX.Element {
  const options = [
    ["pool", "by pool"],
    ["topology.kubernetes.io/zone", "by zone"],
    ["node.kubernetes.io/instance-type", "by type"],
  ];
  if (!options.some(([value]) => value === by)) options.push([by, `by ${by}`]);
  return (
    <span class="filters wide-only">
      <select aria-label="Group nodes" value={by} onChange={(event) => go(withQuery({ by: event.currentTarget.value === "pool" ? "" : event.currentTarget.value }), true)}>
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </span>
  );
}

function Legend({ mode, silhouettes }: { mode: Mode; silhouettes: boolean }): JSX.Element {
  const swatch = (name: string, text: string): JSX.Element => (
    <span>
      <b style={{ background: `var(--${name})` }} />
      {text}
    </span>
  );
  return (
    <div class="legend" style={{ marginTop: "12px" }}>
      {mode === "bands" ? (
        <>
          {swatch("prod", "services")}
          {swatch("batch", "batch")}
          <span>
            <b class="hatch" />
            asked for, held back
          </span>
          {swatch("system", "system")}
          {swatch("track", "idle")}
        </>
      ) : (
        <span>
          {mode === "held" ? "0%" : "0%"}{" "}
          {[1, 2, 3, 4, 5].map((i) => (
            <b key={i} style={{ background: `var(--p${i})`, width: "22px", margin: 0, borderRadius: 0 }} />
          ))}{" "}
          {mode === "held" ? "20% of the node" : "100%"}
        </span>
      )}
      {silhouettes && mode === "bands" ? (
        <span>fullest nodes first, 4 px a column; red ticks: needs attention</span>
      ) : (
        <>
          <span>
            <svg width="12" height="12" aria-hidden="true">
              <rect x="1" y="1" width="10" height="10" fill="none" stroke="var(--bad)" stroke-width="2" />
              <path d="M6 0h6v6Z" fill="var(--bad)" />
            </svg>
            needs attention
          </span>
          <span>
            <svg width="12" height="12" aria-hidden="true">
              <rect width="12" height="12" rx="2" fill="var(--track)" />
              <path d="M0 8 8 0M2 12 12 2" stroke="var(--dim)" />
            </svg>
            no report
          </span>
          <span>
            <svg width="12" height="12" aria-hidden="true">
              <rect x=".5" y=".5" width="11" height="11" fill="var(--track)" stroke="var(--dim)" stroke-dasharray="2 2" />
            </svg>
            lending off
          </span>
          <span>
            <svg width="12" height="12" aria-hidden="true">
              <rect width="12" height="12" rx="2" fill="var(--track)" />
              <path d="M0 12 12 0" stroke="var(--text)" stroke-width="1.5" />
            </svg>
            cordoned
          </span>
        </>
      )}
    </div>
  );
}

