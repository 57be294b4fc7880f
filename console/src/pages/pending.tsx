import type { JSX } from "preact";
import { useLoaded } from "../api";
import { bandName, coresGiven, duration, gibGiven, NONE, plural } from "../format";
import { Card, Empty, Freshness, Head, Panel, Swatch } from "../parts";
import { podLink, query, quotaLink } from "../router";
import type { PendingColumns, PendingGroups } from "../shapes";
import { Filter, Table, useList, type Column } from "../table";
import { Reasons } from "./overview";

const COLUMNS: Column<PendingColumns>[] = [
  {
    title: "Pod",
    sort: "name",
    name: true,
    cell: (c, i) => (
      <>
        <Swatch band={c.band[i]!} />
        <a class="mono" data-row href={podLink(`${c.namespace[i]}/${c.name[i]}`)}>
          {c.namespace[i]}/{c.name[i]}
        </a>
        <div class="dim small narrow-only">{c.title[i]}</div>
      </>
    ),
  },
  { title: "Why", sort: "title", wideOnly: true, cell: (c, i) => <span title={c.message[i]}>{c.title[i]}</span> },
  { title: "Plugin", sort: "plugin", wideOnly: true, cell: (c, i) => <span class="dim">{c.plugin[i] || NONE}</span> },
  {
    title: "Quota",
    sort: "quota",
    wideOnly: true,
    cell: (c, i) => (c.quota[i] ? <a href={quotaLink(c.quota[i]!)}>{c.quota[i]}</a> : <span class="dim">{NONE}</span>),
  },
  { title: "Band", sort: "band", wideOnly: true, cell: (c, i) => <span class="dim">{bandName(c.band[i]!)}</span> },
  { title: "CPU", sort: "askedMilli", numeric: true, wideOnly: true, cell: (c, i) => coresGiven(c.askedMilli[i]) },
  { title: "GiB", sort: "askedBytes", numeric: true, wideOnly: true, cell: (c, i) => gibGiven(c.askedBytes[i]) },
  { title: "For", sort: "ageS", numeric: true, cell: (c, i) => duration(c.ageS[i]) },
];

export function Pending(): JSX.Element {
  const groups = useLoaded<PendingGroups>("pending?group=reason", 5);
  const fixed = Object.fromEntries(["reason", "quota", "ns"].map((name) => [name, query.value.get(name) ?? ""]).filter(([, value]) => value));
  const list = useList<PendingColumns>("pending", fixed, 5);
  return (
    <>
      <Head title="Pending" sentence={groups.data?.sentence ?? "Pending pods"} command="koord top pending" sub={<Freshness />} />
      <div class="grid first">
        <Panel of={groups} rows={3}>
          {(data) => <Reasons groups={data.groups} total={data.total} size={12} />}
        </Panel>
        <Card title="Pods" say={list.loaded.data ? plural(list.loaded.data.total, "pod") : ""} tools={<Filter label="Filter pods" names={["reason", "quota", "ns"]} />} command="kubectl get pods -A --field-selector=status.phase=Pending">
          <Table
            label="Pending pods"
            list={list}
            columns={COLUMNS}
            keys={(c) => c.namespace.map((namespace, i) => `${namespace}/${c.name[i]}`)}
            empty={<Empty title="No pod is pending">{Object.keys(fixed).length ? "None matches these filters." : "Every pod has a node."}</Empty>}
          />
        </Card>
      </div>
    </>
  );
}
