import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { useLoaded } from "../api";
import { cores, coresGiven, count, moment, NONE, plural } from "../format";
import { Bar, Card, Empty, Freshness, Head, Panel, Swatch } from "../parts";
import { part, podLink } from "../router";
import type { NodePod, ServiceColumns, ServiceDetail } from "../shapes";
import { Filter, Table, useList, type Column } from "../table";
import { Loading, useOverview } from "./overview";

const COLUMNS: Column<ServiceColumns>[] = [
  {
    title: "Service",
    sort: "name",
    name: true,
    cell: (c, i) => (
      <>
        <a class="mono" data-row href={`/services/${[c.namespace[i]!, c.kind[i]!, c.name[i]!].map(part).join("/")}`}>
          {c.namespace[i]}/{c.name[i]}
        </a>
        <span class="dim small"> {c.kind[i]}</span>
      </>
    ),
  },
  {
    title: "Ready",
    sort: "ready",
    numeric: true,
    cell: (c, i) => (
      <>
        {c.ready[i]! < c.total[i]! ? "△ " : ""}
        {count(c.ready[i])}
        <span class="dim"> of {count(c.total[i])}</span>
      </>
    ),
  },
  { title: "Slowed, 24 h", sort: "slowedLastDay", numeric: true, wideOnly: true, cell: (c, i) => count(c.slowedLastDay[i]) },
  { title: "Evicted, 1 h", sort: "evictedLastHour", numeric: true, wideOnly: true, cell: (c, i) => count(c.evictedLastHour[i]) },
  { title: "Used", sort: "usedMilli", numeric: true, cell: (c, i) => cores(c.usedMilli[i]) },
  { title: "Asked", sort: "askedMilli", numeric: true, wideOnly: true, cell: (c, i) => coresGiven(c.askedMilli[i]) },
  {
    title: "",
    width: "18%",
    wideOnly: true,
    cell: (c, i) => <Bar shares={[{ part: (c.usedMilli[i] ?? 0) / Math.max(1, c.askedMilli[i] ?? 0), colour: "var(--prod)" }]} />,
  },
  { title: "Neighbours", sort: "neighbours", numeric: true, wideOnly: true, cell: (c, i) => count(c.neighbours[i]) },
];

export function Services(): JSX.Element {
  const { data } = useOverview();
  const list = useList<ServiceColumns>("services", {}, 10);
  const ready = data?.services;
  const missing = ready ? ready.total - ready.ready : 0;
  const sentence = ready
    ? ready.total === 0
      ? "No service runs here."
      : `${missing ? `${count(missing)} of ${plural(ready.total, "service pod")} ${missing === 1 ? "is" : "are"} not ready` : `All ${plural(ready.total, "service pod")} are ready`}${ready.slowed ? `; ${ready.slowed} slowed in the last hour` : ""}.`
    : "Services";
  return (
    <>
      <Head
        title="Services"
        sentence={sentence}
        command="kubectl get pods -A -L koordinator.sh/qosClass"
        sub={
          <>
            <Freshness />
            {ready?.slowed === null && <span>Slowed: {ready.slowedWhyNull}</span>}
          </>
        }
      />
      <Card title="All services" tools={<Filter label="Filter services" />} say="cores">
        <Table
          label="Services"
          list={list}
          columns={COLUMNS}
          keys={(c) => c.name.map((name, i) => `${c.namespace[i]}/${c.kind[i]}/${name}`)}
          empty={<Empty title="No service runs here">Pods of priority band prod, with a controller, are services.</Empty>}
        />
      </Card>
    </>
  );
}

const MOST_ROWS = 25;

export function PodRows({ pods, hidden = 0, most, outside }: { pods: NodePod[]; hidden?: number; most?: number | undefined; outside?: number | null | undefined }): JSX.Element {
  const [whole, setWhole] = useState(false);
  const shown = whole ? pods : pods.slice(0, MOST_ROWS);
  const all = Math.max(1, most ?? 0, outside ?? 0, ...pods.map((pod) => Math.max(pod.usedMilli ?? 0, pod.askedMilli)));
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th>Pod</th>
            <th class="wide-only">QoS</th>
            <th class="n wide-only">Asked</th>
            <th class="n">Used</th>
            <th style={{ width: "28%" }}>
              <span class="unseen">Share</span>
            </th>
            <th class="n wide-only">State</th>
          </tr>
        </thead>
        <tbody>
          {outside != null && (
            <tr>
              <td>
                <Swatch band="system" />
                outside of pods
              </td>
              <td class="wide-only dim">{NONE}</td>
              <td class="n wide-only">{NONE}</td>
              <td class="n">{cores(outside)}</td>
              <td>
                <Bar shares={[{ part: outside / all, colour: "var(--system)" }]} />
              </td>
              <td class="n wide-only" />
            </tr>
          )}
          {shown.map((pod) => (
            <tr class="row" key={`${pod.namespace}/${pod.name}`}>
              <td class="name">
                <Swatch band={pod.band} />
                <a class="mono" data-row href={podLink(`${pod.namespace}/${pod.name}`)}>
                  {pod.namespace}/{pod.name}
                </a>
              </td>
              <td class="dim wide-only">{pod.qos}</td>
              <td class="n wide-only">{coresGiven(pod.askedMilli)}</td>
              <td class="n">{cores(pod.usedMilli)}</td>
              <td>
                <Bar
                  shares={[
                    { part: (pod.usedMilli ?? 0) / all, colour: `var(--${pod.band})` },
                    ...(pod.askedMilli > (pod.usedMilli ?? 0) && pod.usedMilli !== null ? [{ part: (pod.askedMilli - pod.usedMilli) / all, colour: "var(--line)" }] : []),
                  ]}
                />
              </td>
              <td class="n dim wide-only">{pod.ready ? "ready" : pod.phase === "Running" ? "not ready" : pod.phase.toLowerCase()}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {shown.length < pods.length && (
        <p class="empty small" style={{ padding: "10px 16px 14px" }}>
          {count(shown.length)} of {plural(pods.length, "pod")}
          {" · "}
          <button class="link" onClick={() => setWhole(true)}>
            Show all
          </button>
        </p>
      )}
      {hidden > 0 && <Empty title={`${plural(hidden, "pod")} you may not see`}>You lack the right to list pods in their namespaces.</Empty>}
    </div>
  );
}

export function Service({ namespace, kind, name }: { namespace: string; kind: string; name: string }): JSX.Element {
  const loaded = useLoaded<ServiceDetail>(`services/${[namespace, kind, name].map(part).join("/")}`, 5);
  const data = loaded.data;
  if (!data && !loaded.error) return <Loading title={name} />;
  const command = `koord explain ${kind.toLowerCase()}/${name} -n ${namespace}`;
  return (
    <>
      <Head
        title={name}
        crumbs={
          <>
            <a class="link" href="/services">
              Services
            </a>{" "}
            / {namespace} / {kind}
          </>
        }
        sentence={data?.sentence ?? name}
        command={command}
        sub={<Freshness atS={loaded.atS} />}
      />
      {!data ? (
        <section class="card">
          <Panel of={loaded}>{() => null}</Panel>
        </section>
      ) : (
        <div class="grid first">
          <Card title="Pods" size={8} say={`${count(data.ready)} of ${count(data.total)} ready; cores`} command={command}>
            <PodRows pods={data.pods} />
          </Card>
          <Card title="Slowed by neighbours" size={4} say="24 h">
            {data.slowdowns.length ? (
              <div class="body">
                <dl class="kv times days">
                  {data.slowdowns.map((each, i) => [
                    <dt key={`${i}t`}>{moment(each.atS)}</dt>,
                    <dd key={`${i}d`}>
                      {each.message} <span class="dim small">{each.pod}</span>
                    </dd>,
                  ])}
                </dl>
              </div>
            ) : (
              <Empty title={data.detectionNote ? "Not detected here" : "None was slowed"}>{data.detectionNote || "Agents compare each pod with its usual self."}</Empty>
            )}
          </Card>
          <Card title="Neighbours on the same nodes" say="those with most use first; cores">
            {data.neighbours.length ? <PodRows pods={data.neighbours} /> : <Empty title="There are none">No batch, mid or free pod runs on the nodes of this service.</Empty>}
          </Card>
        </div>
      )}
    </>
  );
}
