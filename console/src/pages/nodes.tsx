import type { JSX } from "preact";
import { coresGiven, cores, count, duration, gib, NONE, permille, plural } from "../format";
import { Bar, Card, Empty, Freshness, Head } from "../parts";
import { nodeLink, query } from "../router";
import { MARKS, type NodeColumns } from "../shapes";
import { Filter, Table, useList, type Column } from "../table";
import { useOverview } from "./overview";
import { ActButton } from "../acts";

export function marksTold(marks: number | null | undefined): string {
  const told: Record<number, string> = {
    [MARKS.notReady]: "not ready",
    [MARKS.noReport]: "no report",
    [MARKS.lendingOff]: "lending off",
    [MARKS.cordoned]: "cordoned",
  };
  return Object.entries(told)
    .filter(([bit]) => (marks ?? 0) & Number(bit))
    .map(([, text]) => text)
    .join(", ");
}

const COLUMNS: Column<NodeColumns>[] = [
  {
    title: "Node",
    sort: "name",
    name: true,
    cell: (c, i) => (
      <>
        <a class="mono" data-row href={nodeLink(c.name[i]!)}>
          {c.name[i]}
        </a>
        {marksTold(c.marks[i]) && (
          <span class="small dim">
            {" "}
            {c.marks[i]! & MARKS.needsAttention ? "△ " : ""}
            {marksTold(c.marks[i])}
          </span>
        )}
      </>
    ),
  },
  { title: "Group", sort: "group", wideOnly: true, cell: (c, i) => <span class="dim">{c.group[i]}</span> },
  { title: "Used", sort: "usedPermille", numeric: true, cell: (c, i) => permille(c.usedPermille[i]) },
  {
    title: "",
    width: "18%",
    wideOnly: true,
    cell: (c, i) => {
      const all = c.capacityMilli[i] || 1;
      return (
        <Bar
          shares={(["system", "prod", "mid", "batch", "free"] as const).map((band) => ({ part: (c[`${band}Milli`][i] ?? 0) / all, colour: `var(--${band})` }))}
        />
      );
    },
  },
  { title: "Services", sort: "prodMilli", numeric: true, wideOnly: true, cell: (c, i) => cores(c.prodMilli[i]) },
  { title: "Batch", sort: "batchMilli", numeric: true, cell: (c, i) => cores(c.batchMilli[i]) },
  { title: "Held back", sort: "heldBackMilli", numeric: true, wideOnly: true, cell: (c, i) => cores(c.heldBackMilli[i]) },
  { title: "Lends", sort: "lentMilli", numeric: true, cell: (c, i) => cores(c.lentMilli[i]) },
  { title: "Left", sort: "lentLeftMilli", numeric: true, wideOnly: true, cell: (c, i) => cores(c.lentLeftMilli[i]) },
  { title: "CPUs", sort: "capacityMilli", numeric: true, wideOnly: true, cell: (c, i) => coresGiven(c.capacityMilli[i]) },
  { title: "Memory used", sort: "memoryUsedBytes", numeric: true, wideOnly: true, cell: (c, i) => (c.memoryUsedBytes[i] == null ? NONE : `${gib(c.memoryUsedBytes[i])} GiB`) },
  { title: "Pods", sort: "pods", numeric: true, wideOnly: true, cell: (c, i) => count(c.pods[i]) },
  { title: "Report", sort: "reportAgeS", numeric: true, cell: (c, i) => <span class="dim">{duration(c.reportAgeS[i])}</span> },
];

export function Nodes(): JSX.Element {
  const { data } = useOverview();
  const group = query.value.get("group");
  const by = query.value.get("by");
  const list = useList<NodeColumns>("nodes", { ...(group ? { group } : {}), ...(by ? { by } : {}) }, 5);
  const nodes = data?.nodes;
  const trouble = nodes ? [nodes.silent ? `${nodes.silent} ${nodes.silent === 1 ? "does" : "do"} not report` : "", nodes.total - nodes.ready ? `${nodes.total - nodes.ready} not ready` : ""].filter(Boolean) : [];
  return (
    <>
      <Head
        title="Nodes"
        sentence={nodes ? `${plural(nodes.total, "node")}, ${trouble.length ? trouble.join(", ") : "all report"}; ${count(nodes.lending)} lend.` : "Nodes"}
        command="koord top nodes"
        sub={
          <>
            <Freshness />
            <span>cores, by band</span>
          </>
        }
      >
        <ActButton act="thresholds" scope={{}}>
          Thresholds…
        </ActButton>
        <ActButton act="colocation-off" scope={{}}>
          Turn lending off…
        </ActButton>
      </Head>
      <Card title="All nodes" tools={<Filter label="Filter nodes" names={["group", "by"]} />} command="koord top nodes">
        <Table
          label="Nodes"
          list={list}
          columns={COLUMNS}
          keys={(c) => c.name}
          empty={<Empty title="There are no nodes">Join one to the cluster; koord agent then reports what it uses.</Empty>}
        />
      </Card>
    </>
  );
}
