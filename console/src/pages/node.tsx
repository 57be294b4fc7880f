import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useLoaded } from "../api";
import { BandChart } from "../chart";
import { amount, cores, coresGiven, count, duration, gib, gibGiven, NONE, percent } from "../format";
import { listen } from "../live";
import { Card, Command, Empty, Figure, Head, History, Panel, Segments } from "../parts";
import { go, nodeLink, part, query, withQuery } from "../router";
import type { Line, NodeDetail, NodeExplanation, ResourceExplanation, Series } from "../shapes";
import { ActButton } from "../acts";
import { Loading, SECONDS, sourceOf } from "./overview";
import { PodRows } from "./services";

const RANGES = [
  ["1h", "1 h"],
  ["2h", "2 h"],
  ["24h", "24 h"],
] as const;

/** A number that changes when the server says that a topic has changed. */
export function useTopic(topic: string): number {
  const [tick, setTick] = useState(0);
  useEffect(() => listen(topic, () => setTick((before) => before + 1)), [topic]);
  return tick;
}

export function Node({ name }: { name: string }): JSX.Element {
  const tick = useTopic(`node/${name}`);
  const loaded = useLoaded<NodeDetail>(`nodes/${part(name)}`, 10, tick);
  const data = loaded.data;
  if (!data && !loaded.error) return <Loading title={name} />;
  return (
    <>
      <Head
        title={name}
        crumbs={
          <>
            <a class="link" href="/nodes">
              Nodes
            </a>
            {data && (
              <>
                {" / "}
                <a class="link" href={`/nodes?group=${encodeURIComponent(data.pool)}`}>
                  {data.pool}
                </a>
              </>
            )}
          </>
        }
        sentence={data?.sentence ?? name}
        command={data?.command ?? `koord explain node/${name}`}
        sub={
          data && (
            <>
              <span class={`dot${data.reportAgeS === null || data.reportStaleWhy ? " hollow" : ""}`}>
                {data.reportAgeS === null ? "No report" : `Report ${duration(data.reportAgeS)} old`}
              </span>
              <span>
                {coresGiven(data.capacityMilli)} CPUs, {gibGiven(data.memoryBytes.capacity)} GiB
              </span>
              <span>{data.lendingOn ? "Lending on" : "Lending off"}</span>
              {data.cordoned && <span>Cordoned</span>}
              {!data.ready && <span>Not ready</span>}
            </>
          )
        }
      >
        {data &&
          (data.lendingOn ? (
            <ActButton act="colocation-off" scope={{ nodes: [name] }}>
              Turn lending off…
            </ActButton>
          ) : (
            <ActButton act="colocation-on" scope={{ nodes: [name] }}>
              Turn lending on…
            </ActButton>
          ))}
      </Head>
      {!data ? (
        <section class="card">
          <Panel of={loaded}>{() => null}</Panel>
        </section>
      ) : (
        <>
          <Figures data={data} />
          <div class="grid">
            <Bands data={data} />
            <Lending name={name} tick={tick} />
            <Card title="Pods on this node" size={8} say="by band, then by use; cores" command={`kubectl get pods -A --field-selector spec.nodeName=${name}`}>
              {data.pods.length || data.hiddenPods ? (
                <PodRows pods={data.pods} hidden={data.hiddenPods} outside={data.cpuMilli.used?.system} />
              ) : (
                <Empty title="No pod runs here">The scheduler places pods here as soon as one fits.</Empty>
              )}
            </Card>
            <Card title="History" size={4} command={`kubectl get events -A --field-selector involvedObject.name=${name}`}>
              <History entries={data.history} />
            </Card>
          </div>
        </>
      )}
    </>
  );
}

function Figures({ data }: { data: NodeDetail }): JSX.Element {
  const { cpuMilli: cpu, memoryBytes: memory } = data;
  const stale = data.reportStaleWhy || (data.reportAgeS === null ? "The node has not reported." : "");
  const asked = cpu.asked.batch + cpu.asked.mid;
  const lent = cpu.lent;
  return (
    <div class="card strip" role="group" aria-label="Figures">
      <Figure
        name="CPU used"
        value={percent(cpu.usedInAll, cpu.capacity)}
        unit={`${cores(cpu.usedInAll)} of ${coresGiven(cpu.capacity)} cores`}
        more={cpu.used ? `services ${cores(cpu.used.prod)} of ${coresGiven(cpu.asked.prod)} asked` : stale}
      />
      <Figure
        name="Memory used"
        value={percent(memory.usedInAll, memory.capacity)}
        unit={`${gib(memory.usedInAll)} of ${gibGiven(memory.capacity)} GiB`}
        more={`lends ${gib(memory.lent)} GiB`}
      />
      <Figure
        name="Lends"
        value={stale && !lent ? "nothing" : cores(lent)}
        unit={stale && !lent ? undefined : "cores"}
        more={stale && !lent ? stale : `${cores(cpu.lentLeft)} left`}
        link={`${nodeLink(data.name)}?resource=cpu`}
      />
      <Figure
        name="Held back"
        value={cpu.heldBack === null ? NONE : cores(cpu.heldBack)}
        unit={`of ${coresGiven(asked)} cores asked`}
        more={
          cpu.heldBack === null
            ? "the agent does not report it"
            : data.suppressPermille === null
              ? "no threshold is set"
              : `from ${Math.round(data.suppressPermille / 10)}% CPU used`
        }
      />
      <Figure name="Pods" value={count(data.pods.length + data.hiddenPods)} unit={`${count(data.pods.filter((pod) => pod.band === "prod").length)} of services`} more={`${count(data.pods.filter((pod) => pod.ready).length)} ready`} />
    </div>
  );
}

function Bands({ data }: { data: NodeDetail }): JSX.Element {
  const range = query.value.get("range") || "2h";
  const loaded = useLoaded<Series>(`series?scope=node/${part(data.name)}&from_s=${SECONDS[range] ?? 7200}&points=180`, 10);
  const [text, setText] = useState("");
  const limit = data.suppressPermille;
  const line =
    limit === null ? undefined : { value: (limit / 1000) * (data.capacityMilli / 1000), text: `batch is held back above ${Math.round(limit / 10)}%`, colour: "text" };
  return (
    <Card
      title="CPU by band"
      size={7}
      say={text}
      sayWide
      tools={<Segments label="Range" keys options={RANGES} value={range as "2h"} onChange={(value) => go(withQuery({ range: value === "2h" ? "" : value }), true)} />}
    >
      <div class="body">
        <Panel of={loaded} rows={8}>
          {(series) =>
            series.prod.length < 2 ? (
              <div style={{ minHeight: "260px" }}>
                <Empty title="There is no course yet">The console keeps a figure of each node for every minute, and it started less than two minutes ago.</Empty>
              </div>
            ) : (
              <BandChart series={series} height={236} line={line} held note={sourceOf(series)} onRead={setText} />
            )
          }
        </Panel>
      </div>
    </Card>
  );
}

const NAMES: Record<string, string> = {
  capacity: "Capacity",
  safetyMargin: "Margin",
  system: "System uses",
  pods: "Services use",
  nothing: "At least nothing",
  prodReclaimable: "Services leave",
  unused: "Unused now",
  unallocated: "Unallocated",
  limit: "Limit",
};
const nameOf = (line: Line): string => NAMES[line.name] ?? line.name.replace(/([A-Z])/g, " $1").toLowerCase().replace(/^./, (first) => first.toUpperCase());
const COLOURS: Record<string, string> = { capacity: "track", safetyMargin: "p2", system: "system", pods: "prod", prodReclaimable: "prod" };
const SIGNS: Record<string, string> = { minus: "−", plus: "+", atMost: "≤", atLeast: "≥", start: "" };

interface Drawn {
  line: Line;
  from: number;
  to: number;
}

/** Where each line of a calculation begins and ends. */
function drawnOf(lines: Line[]): Drawn[] {
  let at = 0;
  return lines.map((line) => {
    const before = at;
    if (line.op === "start") at = line.amount;
    else if (line.op === "minus") at -= line.amount;
    else if (line.op === "plus") at += line.amount;
    else if (line.op === "atMost") at = Math.min(at, line.amount);
    else if (line.op === "atLeast") at = Math.max(at, line.amount);
    return { line, from: line.op === "start" ? 0 : Math.min(before, at), to: line.op === "start" ? at : Math.max(before, at) };
  });
}

function Lending({ name, tick }: { name: string; tick: number }): JSX.Element {
  const loaded = useLoaded<NodeExplanation>(`nodes/${part(name)}/lending`, 15, Math.floor(tick / 5));
  const chosen = query.value.get("resource") || "cpu";
  const options = [
    ["cpu", "CPU"],
    ["memory", "Memory"],
    ["mid", "Mid"],
  ] as const;
  const wanted = chosen === "memory" ? "kubernetes.io/batch-memory" : chosen === "mid" ? "kubernetes.io/mid-cpu" : "kubernetes.io/batch-cpu";
  return (
    <Card
      title={`How ${wanted.split("/")[1]} is calculated`}
      size={5}
      id="lending"
      tools={
        <span style={{ marginLeft: "auto" }}>
          <Segments label="Resource" options={options} value={chosen as "cpu"} onChange={(value) => go(withQuery({ resource: value === "cpu" ? "" : value }), true)} />
        </span>
      }
    >
      <div class="body">
        <Panel of={loaded} rows={6}>
          {(data) => {
            const resource = data.resources.find((each) => each.resource === wanted);
            return (
              <>
                {data.whyOff && <Empty title="Nothing is lent here">{data.whyOff}</Empty>}
                {resource && <Waterfall of={resource} data={data} />}
                <Command command={`koord explain node/${name}`} />
              </>
            );
          }}
        </Panel>
      </div>
    </Card>
  );
}

function Waterfall({ of, data }: { of: ResourceExplanation; data: NodeExplanation }): JSX.Element {
  const [open, setOpen] = useState(-1);
  const unit = of.unit === "milli-cores" ? 1000 : of.unit === "bytes" ? 2 ** 30 : 1;
  const drawn = drawnOf(of.lines).filter(({ line, from, to }) => !(line.op === "atLeast" && line.name === "nothing" && from === to));
  const all = Math.max(1, ...drawn.map((each) => each.to), of.recomputed ?? 0);
  const place = (from: number, to: number): Record<string, string> => ({ left: `${(100 * Math.max(0, from)) / all}%`, width: `${(100 * (to - Math.max(0, from))) / all}%` });
  return (
    <>
      <div class="sum">
        {drawn.map(({ line, from, to }, i) => {
          const first = i ? "" : " first";
          const why = line.why ? (
            <button aria-expanded={open === i} onClick={() => setOpen(open === i ? -1 : i)} title={line.why}>
              {nameOf(line)}
            </button>
          ) : (
            nameOf(line)
          );
          return (
            <>
              <div class={first.trim()}>{why}</div>
              <div class={`n${first}`}>
                {SIGNS[line.op] ?? line.op} {amount(line.amount / unit)}
              </div>
              <div class={`drawn${first}`}>
                <i style={{ ...place(from, to), background: `var(--${COLOURS[line.name] ?? "dim"})` }} />
              </div>
              {open === i && <p class="why">{line.why}</p>}
            </>
          );
        })}
        <div class="total">Lent now</div>
        <div class="n total">{of.recomputed === null ? NONE : `= ${amount(of.recomputed / unit)}`}</div>
        <div class="drawn total">{of.recomputed !== null && <i style={{ ...place(0, of.recomputed), background: "var(--batch)" }} />}</div>
      </div>
      <p class="dim small" style={{ marginTop: "10px" }}>
        Policy <span class="mono">{of.policy}</span>, in {of.unit === "bytes" ? "GiB" : "cores"}.{" "}
        {of.whyNone && `${of.whyNone}. `}
        {of.published !== null && !of.matches && `The node shows ${amount(of.published / unit)}: ${of.whyDifferent}. `}
        {of.published !== null && of.matches && "The node shows the same. "}
        {data.report.distrusted}
      </p>
      <details class="small dim" style={{ marginTop: "8px" }}>
        <summary>Settings that decide, and where they are set</summary>
        <dl class="kv small" style={{ gridTemplateColumns: "1fr auto auto", marginTop: "8px" }}>
          {data.settings.map((setting) => [
            <dt key={`${setting.field}n`} class="mono">
              {setting.field}
            </dt>,
            <dd key={`${setting.field}v`}>{String(setting.value)}</dd>,
            <dd key={`${setting.field}s`} class="dim">
              {setting.setIn}
            </dd>,
          ])}
        </dl>
      </details>
    </>
  );
}
