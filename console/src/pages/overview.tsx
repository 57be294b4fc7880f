import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { useLoaded } from "../api";
import { BandChart } from "../chart";
import { cores, coresGiven, count, duration, NONE, percent, plural } from "../format";
import { loadedAt, overview } from "../live";
import { NodeMap } from "../map";
import { Attentions, Bar, Card, Empty, Figure, Freshness, Head, Lines, Panel, Segments } from "../parts";
import { go, query, quotaLink, withQuery } from "../router";
import type { Overview as Answer, ReasonGroup, Series, Tenant } from "../shapes";

const RANGES = [
  ["1h", "1 h"],
  ["24h", "24 h"],
  ["7d", "7 d"],
] as const;
export const SECONDS: Record<string, number> = { "1h": 3600, "2h": 7200, "24h": 86400, "7d": 604800 };

export function useOverview(): { data: Answer | null; loaded: ReturnType<typeof useLoaded<Answer>> } {
  const loaded = useLoaded<Answer>("overview");
  useEffect(() => {
    if (!loaded.data) return;
    const now = overview.peek();
    if (!now || now.epoch !== loaded.data.epoch || now.rev <= loaded.data.rev) overview.value = loaded.data;
    loadedAt(loaded.data.epoch, loaded.data.rev);
  }, [loaded.data]);
  return { data: overview.value ?? loaded.data, loaded };
}

export function Overview(): JSX.Element {
  const { data, loaded } = useOverview();
  if (!data)
    return (
      <>
        <Head title="Overview" sentence={loaded.error ? "The overview cannot be shown." : "Loading the cluster"} />
        <section class="card">
          <Panel of={loaded} rows={3}>
            {() => null}
          </Panel>
        </section>
      </>
    );
  return (
    <>
      <Head
        title="Overview"
        sentence={data.sentence}
        command="koord status && koord top nodes"
        sub={
          <>
            <Freshness atS={data.atS} />
            <span>
              {plural(data.nodes.total, "node")}, {coresGiven(data.cpuMilli.capacity)} cores
            </span>
            <span>{reports(data)}</span>
            <span>
              Lending on {count(data.nodes.lending)} of {plural(data.nodes.total, "node")}
            </span>
            {data.hiddenPods > 0 && <span>{plural(data.hiddenPods, "pod")} you may not see</span>}
          </>
        }
      />
      {data.nodes.total === 0 ? <FirstSteps /> : <Filled data={data} />}
    </>
  );
}

function reports({ nodes }: Answer): string {
  if (!nodes.reporting) return "no reports yet";
  const ages = nodes.youngestReportS === null ? "" : `, ${nodes.youngestReportS} to ${duration(nodes.oldestReportS)} old`;
  return `${plural(nodes.reporting, "report")}${ages}`;
}

function FirstSteps(): JSX.Element {
  return (
    <Card title="What to do first">
      <Empty title="This cluster has no nodes yet">
        Add one, then install koord agent on it: koord install --help. To try koord without nodes of your own, run koord up --demo.
      </Empty>
    </Card>
  );
}

function Filled({ data }: { data: Answer }): JSX.Element {
  return (
    <>
      <Figures data={data} />
      <div class="grid">
        <Bands />
        <Card title="Needs attention" size={4} say={data.attentionInAll > data.attention.length ? `${data.attention.length} of ${data.attentionInAll}` : count(data.attentionInAll)} command="koord status">
          {data.attention.length ? <Attentions items={data.attention} /> : <Empty title="Nothing needs attention">Nodes report, koord's components run, and no roll-out has stopped.</Empty>}
        </Card>
        <NodeMap />
        <Reasons groups={data.pending.groups} total={data.pending.total} />
        <Tenants tenants={data.tenants} inAll={data.tenantsInAll} />
      </div>
    </>
  );
}

function Figures({ data }: { data: Answer }): JSX.Element {
  const { cpuMilli: cpu, services, pending } = data;
  const lentUsed = cpu.used ? cpu.used.batch + cpu.used.mid : null;
  const largest = pending.groups[0];
  const countedS = data.atS - data.countedSinceAtS;
  const moved = `and ${count(data.movedLastHour)} moved`;
  return (
    <div class="card strip" role="group" aria-label="Figures">
      <Figure
        name="Services ready"
        value={count(services.ready)}
        unit={`of ${plural(services.total, "pod")}`}
        more={services.slowed === null ? "slowdowns are not detected" : services.slowed ? `${services.slowed} slowed in the last hour` : "none slowed in the last hour"}
        why={services.slowedWhyNull || undefined}
        link="/services"
      />
      <Figure
        name="CPU used"
        value={percent(cpu.usedInAll, cpu.capacity)}
        unit={
          <>
            {cores(cpu.usedInAll)} of {coresGiven(cpu.capacity)}
            <span class="wide-only"> cores</span>
          </>
        }
        more={cpu.used ? `services alone ${percent(cpu.used.prod, cpu.capacity)}` : "no node has reported"}
        link="/nodes?sort=-usedMilli"
      />
      <Figure
        name="Lent to batch"
        value={cores(cpu.lent)}
        unit="cores"
        more={`${cores(lentUsed)} used, ${cpu.heldBack === null ? NONE : cores(cpu.heldBack)} held back`}
        why={cpu.heldBack === null ? "No agent reports what it holds back." : undefined}
        link="/nodes?sort=-lentMilli"
      />
      <Figure
        name="Pods pending"
        value={count(pending.total)}
        unit={pending.oldestS === null ? undefined : `oldest ${duration(pending.oldestS)}`}
        more={largest ? `${count(largest.pods)}: ${largest.title}` : "none waits"}
        link="/pending"
      />
      <Figure
        name="Evicted, last hour"
        value={count(data.evictedLastHour)}
        unit={data.evictedLastHour === 1 ? "pod" : "pods"}
        more={countedS < 3500 ? `${moved}, in ${duration(countedS)}` : `${moved} with notice`}
        link="/changes"
      />
    </div>
  );
}

export function Bands(): JSX.Element {
  const range = query.value.get("range") || "1h";
  const resource = query.value.get("resource") === "memory" ? "memory" : "cpu";
  const loaded = useLoaded<Series>(`series?scope=cluster&resource=${resource}&from_s=${SECONDS[range] ?? 3600}&points=240`, range === "1h" ? 10 : 60);
  const [text, setText] = useState("");
  return (
    <Card
      title={resource === "cpu" ? "CPU by band" : "Memory by band"}
      size={8}
      say={text}
      sayWide
      tools={
        <>
          <Segments label="Range" keys options={RANGES} value={range as "1h"} onChange={(value) => go(withQuery({ range: value === "1h" ? "" : value }), true)} />
          <Segments
            label="Resource"
            options={[
              ["cpu", "CPU"],
              ["memory", "Memory"],
            ]}
            value={resource}
            onChange={(value) => go(withQuery({ resource: value === "cpu" ? "" : value }), true)}
          />
        </>
      }
    >
      <div class="body">
        <Panel of={loaded} rows={8}>
          {(series) =>
            series.prod.length < 2 ? (
              <div style={{ minHeight: "248px" }}>
                <Empty title="There are no figures yet">The console has just started; the first figures come within 20 s.</Empty>
              </div>
            ) : (
              <BandChart series={series} height={224} note={sourceOf(series)} onRead={setText} />
            )
          }
        </Panel>
      </div>
    </Card>
  );
}

export function sourceOf(series: Series): string {
  const unit = series.unit === "bytes" ? "GiB" : "cores";
  return `In ${unit}. ${series.note && `${series.note[0]!.toUpperCase()}${series.note.slice(1)}.`}`;
}

export function Reasons({ groups, total, size = 6 }: { groups: ReasonGroup[]; total: number; size?: number }): JSX.Element {
  const most = Math.max(1, ...groups.map((group) => group.pods));
  return (
    <Card title="Why pods are pending" size={size} say={total ? plural(total, "pod") : undefined} command="koord top pending">
      {!groups.length ? (
        <Empty title="No pod is pending">Every pod has a node.</Empty>
      ) : (
        <table>
          <thead class="unseen">
            <tr>
              <th>Reason</th>
              <th>Share</th>
              <th>Pods</th>
            </tr>
          </thead>
          <tbody>
            {groups.map((group) => (
              <tr class="row" key={group.reason + group.plugin}>
                <td>
                  <a data-row href={`/pending?reason=${encodeURIComponent(group.reason)}`}>
                    {group.title}
                  </a>
                  <div class="dim small">
                    {group.plugin && `${group.plugin}, `}oldest {duration(group.oldestS)}
                  </div>
                </td>
                <td class="share">
                  <Bar shares={[{ part: group.pods / most, colour: "var(--dim)" }]} />
                </td>
                <td class="n">{count(group.pods)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Card>
  );
}

/** What a quota uses of what it may use now; its guarantee as a tick. */
export function QuotaBar({ used, least, runtime }: { used: number; least: number; runtime: number }): JSX.Element {
  const all = Math.max(1, runtime, used, least);
  const at = (value: number): string => `${(100 * value) / all}%`;
  const within = Math.min(used, least || used);
  return (
    <svg width="100%" height="24" role="img" aria-label={`used ${coresGiven(used)}, guaranteed ${coresGiven(least)}, may use ${coresGiven(runtime)} cores`}>
      <rect y="8" width={at(runtime)} height="10" fill="var(--track)" />
      <rect y="8" width={at(within)} height="10" fill={least ? "var(--text)" : "var(--dim)"} opacity="0.75" />
      {least > 0 && used > least && <rect x={at(least)} y="8" width={at(used - least)} height="10" fill="var(--dim)" opacity="0.55" />}
      {least > 0 && <rect x={`calc(${at(least)} - 2.5px)`} y="4" width="2.5" height="18" fill="var(--text)" />}
    </svg>
  );
}

export function borrowing(tenant: Pick<Tenant, "usedMilli" | "minMilli" | "runtimeMilli">): string {
  if (!tenant.minMilli) return "no guarantee";
  if (tenant.usedMilli > tenant.minMilli) return `borrows ${cores(tenant.usedMilli - tenant.minMilli)}`;
  if (tenant.usedMilli < tenant.minMilli) return `leaves ${cores(tenant.minMilli - tenant.usedMilli)} of its guarantee`;
  return "uses its guarantee";
}

/** What a quota may use now; a quota without bounds may use all. */
export const mayUse = (tenant: Pick<Tenant, "runtimeMilli" | "maxMilli">): string =>
  tenant.runtimeMilli ? ` of ${coresGiven(tenant.runtimeMilli)}` : tenant.maxMilli === null ? ", no limit" : " of 0";

export function QuotaLegend(): JSX.Element {
  return (
    <div class="legend" style={{ padding: "8px 16px 14px" }}>
      <span>
        <svg width="12" height="12" aria-hidden="true">
          <rect x="5" width="2.5" height="12" fill="var(--text)" />
        </svg>
        guarantee
      </span>
      <span>
        <b style={{ background: "var(--text)", opacity: 0.75 }} />
        within it
      </span>
      <span>
        <b style={{ background: "var(--dim)", opacity: 0.55 }} />
        borrowed
      </span>
      <span>
        <b style={{ background: "var(--track)" }} />
        may be used now
      </span>
    </div>
  );
}

function Tenants({ tenants, inAll }: { tenants: Tenant[]; inAll: number }): JSX.Element {
  return (
    <Card title="Tenants" size={6} say={inAll > tenants.length ? `${tenants.length} of ${inAll}, CPU in cores` : "CPU in cores"} command="koord top quotas">
      {!tenants.length ? (
        <Empty title="There are no quotas">
          Tenants share a cluster by ElasticQuota: each has a guarantee, and borrows what others leave.
        </Empty>
      ) : (
        <>
          <table>
            <thead class="unseen">
              <tr>
                <th>Quota</th>
                <th>Use</th>
                <th>Cores</th>
              </tr>
            </thead>
            <tbody>
              {tenants.map((tenant) => (
                <tr class="row" key={tenant.quota + tenant.band}>
                  <td>
                    <a data-row href={quotaLink(tenant.quota)}>
                      {tenant.quota}
                    </a>
                    <div class="dim small">
                      {tenant.band !== "-" && `${tenant.band}, `}
                      {tenant.problem || borrowing(tenant)}
                    </div>
                  </td>
                  <td class="share wide">
                    <QuotaBar used={tenant.usedMilli} least={tenant.minMilli} runtime={tenant.runtimeMilli} />
                  </td>
                  <td class="n">
                    {cores(tenant.usedMilli)}
                    <span class="dim">{mayUse(tenant)}</span>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
          <QuotaLegend />
        </>
      )}
    </Card>
  );
}

export function Loading({ title }: { title: string }): JSX.Element {
  return (
    <>
      <Head title={title} sentence={title} />
      <section class="card">
        <Lines />
      </section>
    </>
  );
}
