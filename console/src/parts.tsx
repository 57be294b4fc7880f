// Parts that all pages are made of.

import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { Failure, type Loaded } from "./api";
import { bandName, clock, duration, moment, NONE, utc } from "./format";
import { connection, heardS } from "./live";
import type { Attention, HistoryEntry } from "./shapes";

/** What a screen reader says, and what a short message shows. */
export const said = signal("");
export const shown = signal("");
let hiding = 0;

export function say(text: string): void {
  said.value = shown.value = text;
  clearTimeout(hiding);
  hiding = window.setTimeout(() => (shown.value = ""), 1600);
}

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied: ${text}`);
  } catch {
    say(`Not allowed to copy. ${text}`);
  }
}

export function Triangle({ full = false }: { full?: boolean }): JSX.Element {
  return (
    <svg width="14" height="14" viewBox="0 0 12 12" aria-hidden="true">
      <path d="M6 1.2 11.2 10.6H.8Z" fill={full ? "var(--bad)" : "none"} stroke="var(--bad)" stroke-width="1.4" stroke-linejoin="round" />
    </svg>
  );
}

/** The start of a page: where it is, its sentence, what it is about. */
export function Head(props: {
  title: string;
  sentence: string | null | undefined;
  crumbs?: ComponentChildren;
  sub?: ComponentChildren;
  command?: string | undefined;
  children?: ComponentChildren;
}): JSX.Element {
  useEffect(() => void (document.title = `${props.title} · koord`), [props.title]);
  return (
    <>
      {props.crumbs && <div class="crumb">{props.crumbs}</div>}
      <div class="head">
        <div>
          <h1>{props.sentence ?? props.title}</h1>
          {props.sub && <div class="sub">{props.sub}</div>}
        </div>
        <div class="acts">
          {props.command && (
            <button class="button" data-copies={props.command} title={props.command} onClick={() => void copy(props.command!)}>
              Copy command
            </button>
          )}
          {props.children}
        </div>
      </div>
    </>
  );
}

/** Whether figures are live, or of when they are. */
export function Freshness({ atS }: { atS?: number | undefined }): JSX.Element {
  if (connection.value === "lost") {
    const since = heardS.value ? `as of ${clock(heardS.value, true)}, no connection` : "no connection";
    return <span class="dot hollow">{since}</span>;
  }
  const at = atS ?? heardS.value;
  return (
    <span class="dot" title={at ? utc(at) : undefined}>
      Live{at ? ` ${clock(at, true)}` : ""}
    </span>
  );
}

export function Copy({ command }: { command: string }): JSX.Element {
  return (
    <button class="copy" title={command} aria-label={`Copy command: ${command}`} onClick={() => void copy(command)}>
      <svg width="13" height="13" viewBox="0 0 13 13" fill="none" stroke="currentColor" stroke-width="1.3" aria-hidden="true">
        <path d="M1.5 3 5 6.5 1.5 10M6.5 10.5h5" stroke-linecap="round" stroke-linejoin="round" />
      </svg>
    </button>
  );
}

export function Command({ command }: { command: string }): JSX.Element {
  return (
    <div class="command">
      <code title={command}>{command}</code>
      <button onClick={() => void copy(command)} aria-label={`Copy command: ${command}`}>
        Copy
      </button>
    </div>
  );
}

export function Card(props: {
  title: ComponentChildren;
  size?: number;
  say?: ComponentChildren;
  sayWide?: boolean;
  tools?: ComponentChildren;
  command?: string | undefined;
  late?: boolean;
  id?: string;
  children?: ComponentChildren;
}): JSX.Element {
  return (
    <section class={`card c${props.size ?? 12}${props.late ? " late" : ""}`} id={props.id}>
      <header>
        <h2>{props.title}</h2>
        {props.tools}
        {props.say && <span class={`say${props.sayWide ? " wide" : ""}`}>{props.say}</span>}
        {props.command && <Copy command={props.command} />}
      </header>
      {props.children}
    </section>
  );
}

export function Wrong({ failure, onRetry }: { failure: Failure; onRetry?: (() => void) | undefined }): JSX.Element {
  const lacks = failure.status === 403;
  return (
    <div class="wrong" role={lacks ? undefined : "alert"}>
      <Triangle />
      <div>
        {failure.object}: {failure.why}
      </div>
      {failure.remedy && <p>{failure.remedy}</p>}
      {onRetry && !lacks && (
        <p>
          Tried again every 5 s.{" "}
          <button class="link" onClick={onRetry}>
            Try now
          </button>
        </p>
      )}
    </div>
  );
}

export function Lines({ rows = 4 }: { rows?: number }): JSX.Element {
  return (
    <div class="lines" aria-busy="true" aria-label="Loading">
      {Array.from({ length: rows }, (_, i) => (
        <i key={i} style={{ width: `${[92, 70, 84, 58][i % 4]}%` }} />
      ))}
    </div>
  );
}

/** A panel's answer in its states: loading, wrong, or there. Old figures stay while new ones cannot be had. */
export function Panel<T>(props: { of: Loaded<T>; rows?: number; children: (data: T) => ComponentChildren }): JSX.Element {
  const { data, error, atS, reload } = props.of;
  if (data === null) return error ? <Wrong failure={error} onRetry={reload} /> : <Lines rows={props.rows ?? 4} />;
  return (
    <>
      {error && (
        <p class="small dim" style={{ padding: "4px 16px 0" }}>
          <span class="dot hollow">{atS ? `as of ${clock(atS, true)}, ` : ""}{error.why}</span>
        </p>
      )}
      {props.children(data)}
    </>
  );
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <b>{title}</b>
      {children}
    </div>
  );
}

/** A figure of a strip. It leads to what it is made of. */
export function Figure(props: {
  name: string;
  value: string;
  unit?: ComponentChildren;
  more?: ComponentChildren;
  link?: string | undefined;
  why?: string | undefined;
}): JSX.Element {
  const inside = (
    <>
      <div class="name">{props.name}</div>
      <div class="value" title={props.why}>
        {props.value}
        {props.unit != null && <small>{props.unit}</small>}
      </div>
      <div class="more">{props.more ?? props.why}</div>
    </>
  );
  return props.link ? <a href={props.link}>{inside}</a> : <div>{inside}</div>;
}

export function Segments<T extends string>(props: {
  label: string;
  options: readonly (readonly [T, string])[];
  value: T;
  onChange: (value: T) => void;
  keys?: boolean;
}): JSX.Element {
  return (
    <span class="seg" role="group" aria-label={props.label} data-range={props.keys ? "" : undefined}>
      {props.options.map(([value, text]) => (
        <button key={value} aria-pressed={value === props.value} onClick={() => props.onChange(value)}>
          {text}
        </button>
      ))}
    </span>
  );
}

export function Swatch({ band }: { band: string }): JSX.Element {
  return <span class="swatch" style={{ background: `var(--${band})` }} title={bandName(band)} />;
}

export interface Share {
  /** 0 to 1. */
  part: number;
  colour?: string;
  hatched?: boolean;
}

export function Bar({ shares, label }: { shares: Share[]; label?: string }): JSX.Element {
  return (
    <div class="bar" role={label ? "img" : undefined} aria-label={label} aria-hidden={label ? undefined : "true"}>
      {shares.map((share, i) => (
        <i
          key={i}
          class={share.hatched ? "hatch" : ""}
          style={{ width: `${Math.max(0, Math.min(1, share.part)) * 100}%`, background: share.hatched ? undefined : share.colour }}
        />
      ))}
    </div>
  );
}

export const Ago = ({ atS }: { atS: number | null }): JSX.Element => (
  <span title={atS === null ? undefined : utc(atS)}>{atS === null ? NONE : moment(atS)}</span>
);

/** One line for each thing that needs somebody. */
export function Attentions({ items }: { items: Attention[] }): JSX.Element {
  return (
    <ul class="list">
      {items.map((item, i) => {
        const inside = (
          <>
            <Triangle full={item.level === "critical"} />
            <b>
              <span class="unseen">{item.level}: </span>
              {item.title}
            </b>
            <span>
              {item.cause}
              {item.sinceAtS !== null && `, for ${duration(Date.now() / 1000 - item.sinceAtS)}`}
            </span>
          </>
        );
        return (
          <li key={i}>
            {item.link ? (
              <a class="note" href={item.link} title={item.remedy}>
                {inside}
              </a>
            ) : (
              <div class="note" title={item.remedy}>
                {inside}
              </div>
            )}
          </li>
        );
      })}
    </ul>
  );
}

export function History({ entries }: { entries: HistoryEntry[] }): JSX.Element {
  if (!entries.length)
    return <Empty title="Nothing was reported">Events of the cluster appear here for as long as it keeps them.</Empty>;
  const today = new Date().toDateString();
  const days = entries.some((entry) => new Date(entry.atS * 1000).toDateString() !== today);
  return (
    <div class="body">
      <dl class={`kv times${days ? " days" : ""}`}>
        {entries.map((entry, i) => [
          <dt key={`${i}t`}>
            <Ago atS={entry.atS} />
          </dt>,
          <dd key={`${i}d`}>
            {entry.link ? <a href={entry.link}>{entry.title}</a> : entry.title} <span class="dim small">{entry.object}</span>
          </dd>,
        ])}
      </dl>
    </div>
  );
}

/** The width of an element, as it changes. */
export function useWidth(): [{ current: HTMLDivElement | null }, number] {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const seen = new ResizeObserver((entries) => setWidth(Math.floor(entries[0]!.contentRect.width)));
    seen.observe(box.current!);
    return () => seen.disconnect();
  }, []);
  return [box, width];
}
