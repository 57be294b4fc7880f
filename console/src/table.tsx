// Lists: the server filters, sorts and cuts; the browser draws the rows that are visible. Rows keep their places under
// the pointer: newer ones wait for a click.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useLoaded, type Loaded } from "./api";
import { count, plural } from "./format";
import { Empty, Panel } from "./parts";
import { go, query, withQuery } from "./router";
import type { Page } from "./shapes";

const STEPS = [100, 300, 1000];
const WINDOWED_FROM = 200;
const ROW = 35;
const BEYOND = 20;

export interface Column<C> {
  title: string;
  /** The column of the answer that the head sorts by. */
  sort?: keyof C & string;
  numeric?: boolean;
  /** Hidden on narrow screens. */
  wideOnly?: boolean;
  width?: string;
  name?: boolean;
  cell: (columns: Required<C>, row: number) => ComponentChildren;
}

export interface List<C> {
  loaded: Loaded<Page<C>>;
  more: () => void;
  limit: number;
}

/** A page of a list, with the sort and the filter of the query. */
export function useList<C>(to: string, fixed: Record<string, string> = {}, everyS = 10): List<C> {
  const [step, setStep] = useState(0);
  const wanted = new URLSearchParams(fixed);
  const { filter, sort, cursor } = Object.fromEntries(query.value) as Record<string, string>;
  if (filter) wanted.set("filter", filter);
  if (sort) wanted.set("sort", sort);
  if (cursor) wanted.set("cursor", cursor);
  wanted.set("limit", String(STEPS[step]));
  const loaded = useLoaded<Page<C>>(`${to}?${wanted}`, everyS);
  const last = useRef<Page<C> | null>(null);
  if (loaded.data) last.current = loaded.data;
  // A longer page, or another sort, replaces the last one when it is there.
  const data = loaded.data ?? (loaded.error ? null : last.current);
  return { loaded: { ...loaded, data }, limit: STEPS[step]!, more: () => setStep(Math.min(step + 1, STEPS.length - 1)) };
}

export function Filter({ label, names = [] }: { label: string; names?: string[] }): JSX.Element {
  const [text, setText] = useState(query.value.get("filter") ?? "");
  useEffect(() => {
    const timer = setTimeout(() => text !== (query.peek().get("filter") ?? "") && go(withQuery({ filter: text, cursor: "" }), true), 200);
    return () => clearTimeout(timer);
  }, [text]);
  const set = names.filter((name) => query.value.get(name));
  return (
    <span class="filters">
      <input type="search" aria-label={label} placeholder={label} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      {set.map((name) => (
        <button key={name} class="tag strong" onClick={() => go(withQuery({ [name]: "" }))} aria-label={`Without ${name} ${query.value.get(name)}`}>
          {name}: {query.value.get(name)} <span aria-hidden="true">×</span>
        </button>
      ))}
    </span>
  );
}

export function Table<C extends object>(props: {
  label: string;
  list: List<C>;
  columns: Column<C>[];
  /** What names a row. */
  keys: (columns: Required<C>) => string[];
  empty: ComponentChildren;
}): JSX.Element {
  return (
    <Panel of={props.list.loaded} rows={8}>
      {(page) => <Rows {...props} page={page} />}
    </Panel>
  );
}

function Rows<C extends object>(props: {
  label: string;
  list: List<C>;
  page: Page<C>;
  columns: Column<C>[];
  keys: (columns: Required<C>) => string[];
  empty: ComponentChildren;
}): JSX.Element {
  const [inside, setInside] = useState(false);
  const held = useRef<Page<C>>(props.page);
  const keysOf = (page: Page<C>): string[] => props.keys(page.columns as Required<C>);
  const [before, after] = [keysOf(held.current), keysOf(props.page)];
  const sameOrder = before.length === after.length && before.every((key, i) => key === after[i]);
  const asked = `${query.value}${props.list.limit}`;
  const heldFor = useRef(asked);
  if (sameOrder || !inside || heldFor.current !== asked) {
    held.current = props.page;
    heldFor.current = asked;
  }
  const page = held.current;
  const columns = page.columns as Required<C>;
  const keys = useMemo(() => keysOf(page), [page]);
  const [body, from, to] = useWindow(keys.length);
  const sort = query.value.get("sort") ?? "";
  if (!keys.length)
    return query.value.get("filter") ? <Empty title="Nothing matches">No row has "{query.value.get("filter")}" in it.</Empty> : <>{props.empty}</>;
  const { next } = page;
  const shown = Math.min(keys.length, page.total);
  return (
    <div onPointerEnter={() => setInside(true)} onPointerLeave={() => setInside(false)}>
      {page !== props.page && (
        <button class="newer" onClick={() => setInside(false)}>
          Newer rows: show
        </button>
      )}
      <div class="scroll">
        <table aria-rowcount={page.total}>
          <caption class="unseen">{props.label}</caption>
          <thead>
            <tr>
              {props.columns.map((column) => {
                const down = sort === `-${column.sort}`;
                const up = sort === column.sort;
                return (
                  <th
                    key={column.title}
                    class={`${column.numeric ? "n" : ""}${column.wideOnly ? " wide-only" : ""}`}
                    style={{ width: column.width }}
                    aria-sort={column.sort ? (down ? "descending" : up ? "ascending" : "none") : undefined}
                  >
                    {column.sort ? (
                      <button onClick={() => go(withQuery({ sort: (column.numeric ? !down : up) ? `-${column.sort}` : column.sort!, cursor: "" }), true)}>
                        {column.title}
                        <span aria-hidden="true">{down ? " ↓" : up ? " ↑" : ""}</span>
                      </button>
                    ) : (
                      column.title || <span class="unseen">Share</span>
                    )}
                  </th>
                );
              })}
            </tr>
          </thead>
          <tbody ref={body}>
            {from > 0 && <tr style={{ height: `${from * ROW}px` }} aria-hidden="true" />}
            {keys.slice(from, to).map((key, i) => (
              <tr class="row" key={key} aria-rowindex={from + i + 1}>
                {props.columns.map((column) => (
                  <td key={column.title} class={`${column.numeric ? "n" : ""}${column.wideOnly ? " wide-only" : ""}${column.name ? " name" : ""}`}>
                    {column.cell(columns, from + i)}
                  </td>
                ))}
              </tr>
            ))}
            {to < keys.length && <tr style={{ height: `${(keys.length - to) * ROW}px` }} aria-hidden="true" />}
          </tbody>
        </table>
      </div>
      <p class="empty small" style={{ padding: "10px 16px 14px" }}>
        {count(shown)} of {plural(page.total, "row")}
        {page.hidden > 0 && `; ${count(page.hidden)} more that you may not see`}
        {next && props.list.limit < 1000 && (
          <>
            {" · "}
            <button class="link" onClick={props.list.more}>
              Show more
            </button>
          </>
        )}
        {next && props.list.limit >= 1000 && (
          <>
            {" · "}
            <a class="link" href={withQuery({ cursor: next })}>
              Next rows
            </a>
          </>
        )}
      </p>
    </div>
  );
}

/** Of many rows, those that are visible, and some more. */
function useWindow(rows: number): [{ current: HTMLTableSectionElement | null }, number, number] {
  const body = useRef<HTMLTableSectionElement>(null);
  const [from, setFrom] = useState(0);
  const windowed = rows > WINDOWED_FROM;
  const visible = Math.ceil(innerHeight / ROW) + 2 * BEYOND;
  useEffect(() => {
    if (!windowed) return setFrom(0);
    const look = (): void => {
      const top = -(body.current?.getBoundingClientRect().top ?? 0);
      const first = Math.max(0, Math.floor(top / ROW) - BEYOND);
      setFrom(Math.min(Math.max(0, rows - visible), first - (first % 10)));
    };
    look();
    addEventListener("scroll", look, { passive: true });
    return () => removeEventListener("scroll", look);
  }, [windowed, rows]);
  return windowed ? [body, from, Math.min(rows, from + visible)] : [body, 0, rows];
}
