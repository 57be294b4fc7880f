import type { JSX } from "preact";
import { useLoaded } from "../api";
import { cores, coresGiven, count, gib, NONE, plural } from "../format";
import { Card, Command, Empty, Freshness, Head, Panel } from "../parts";
import { part, podLink, quotaLink } from "../router";
import type { QuotaColumns, QuotaDetail, Tenant } from "../shapes";
import { Filter, Table, useList, type Column } from "../table";
import { borrowing, Loading, mayUse, QuotaBar, QuotaLegend, useOverview } from "./overview";
import { PodRows } from "./services";

const COLUMNS: Column<QuotaColumns>[] = [
  {
    title: "Quota",
    name: true,
    cell: (c, i) => (
      <span style={{ paddingLeft: `${(c.depth[i] ?? 0) * 16}px` }}>
        <a data-row href={quotaLink(c.quota[i]!)}>
          {c.quota[i]}
        </a>
        <span class="dim small">
          {c.band[i] !== "-" && ` ${c.band[i]}`}
          {c.problem[i] && ` △ ${c.problem[i]}`}
        </span>
      </span>
    ),
  },
  { title: "Used", sort: "usedMilli", numeric: true, cell: (c, i) => cores(c.usedMilli[i]) },
  {
    title: "",
    width: "26%",
    wideOnly: true,
    cell: (c, i) => <QuotaBar used={c.usedMilli[i] ?? 0} least={c.minMilli[i] ?? 0} runtime={c.runtimeMilli[i] ?? 0} />,
  },
  { title: "May use now", sort: "runtimeMilli", numeric: true, cell: (c, i) => (!c.runtimeMilli[i] && c.maxMilli[i] === null ? "any" : coresGiven(c.runtimeMilli[i])) },
  { title: "Guarantee", sort: "minMilli", numeric: true, wideOnly: true, cell: (c, i) => coresGiven(c.minMilli[i]) },
  { title: "At most", sort: "maxMilli", numeric: true, wideOnly: true, cell: (c, i) => (c.maxMilli[i] === null ? "any" : coresGiven(c.maxMilli[i])) },
  { title: "Borrows", sort: "borrowsMilli", numeric: true, wideOnly: true, cell: (c, i) => (c.borrowsMilli[i] ? cores(c.borrowsMilli[i]) : NONE) },
  { title: "Lends", sort: "lendsMilli", numeric: true, wideOnly: true, cell: (c, i) => (c.lendsMilli[i] ? cores(c.lendsMilli[i]) : NONE) },
  { title: "GiB used", sort: "usedBytes", numeric: true, wideOnly: true, cell: (c, i) => gib(c.usedBytes[i]) },
  {
    title: "Pending",
    sort: "pending",
    numeric: true,
    cell: (c, i) => (c.pending[i] ? <a href={`/pending?quota=${part(c.quota[i]!)}`}>{count(c.pending[i])}</a> : <span class="dim">0</span>),
  },
];

export function Quotas(): JSX.Element {
  const { data } = useOverview();
  const list = useList<QuotaColumns>("quotas", {}, 10);
  const borrowers = (data?.tenants ?? []).filter((tenant) => tenant.minMilli && tenant.usedMilli > tenant.minMilli);
  const sentence = !data
    ? "Quotas"
    : !data.tenantsInAll
      ? "There are no quotas: every tenant may use the whole cluster."
      : borrowers.length
        ? `${borrowers.slice(0, 3).map((tenant) => tenant.quota).join(", ")} ${borrowers.length === 1 ? "borrows" : "borrow"} ${cores(borrowers.reduce((sum, tenant) => sum + tenant.usedMilli - tenant.minMilli, 0))} cores from other quotas.`
        : "No quota borrows from another one now.";
  return (
    <>
      <Head title="Quotas" sentence={sentence} command="koord top quotas" sub={<Freshness />} />
      <Card title="All quotas" tools={<Filter label="Filter quotas" />} say="CPU in cores" command="koord top quotas">
        <Table
          label="Quotas"
          list={list}
          columns={COLUMNS}
          keys={(c) => c.quota.map((quota, i) => `${quota} ${c.band[i]}`)}
          empty={
            <Empty title="There are no quotas">
              An ElasticQuota gives a tenant a guarantee, and lets it borrow what others leave: kubectl explain elasticquota
            </Empty>
          }
        />
        {list.loaded.data && list.loaded.data.total > 0 && <QuotaLegend />}
      </Card>
    </>
  );
}

function Tenants({ tenants }: { tenants: Tenant[] }): JSX.Element {
  return (
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
  );
}

export function Quota({ name }: { name: string }): JSX.Element {
  const loaded = useLoaded<QuotaDetail>(`quotas/${part(name)}`, 5);
  const data = loaded.data;
  if (!data && !loaded.error) return <Loading title={name} />;
  return (
    <>
      <Head
        title={name}
        crumbs={
          <>
            <a class="link" href="/quotas">
              Quotas
            </a>
            {data?.path.slice(0, -1).map((tenant) => (
              <span key={tenant.quota}>
                {" / "}
                <a class="link" href={quotaLink(tenant.quota)}>
                  {tenant.quota}
                </a>
              </span>
            ))}
          </>
        }
        sentence={data?.sentence ?? name}
        command={data?.command}
        sub={<Freshness atS={loaded.atS} />}
      />
      {!data ? (
        <section class="card">
          <Panel of={loaded}>{() => null}</Panel>
        </section>
      ) : (
        <div class="grid first">
          <Card title="From the root to here" size={6} say="CPU in cores" command={data.command}>
            <Tenants tenants={data.path} />
            <QuotaLegend />
          </Card>
          <Card title="Below" size={6} say={plural(data.children.length, "quota")}>
            {data.children.length ? <Tenants tenants={data.children} /> : <Empty title="This quota has no children">Pods use it directly.</Empty>}
          </Card>
          <Card title="Pods" size={8} say="cores" command={data.command}>
            {data.pods.length || data.hiddenPods ? <PodRows pods={data.pods} hidden={data.hiddenPods} /> : <Empty title="No pod uses this quota" />}
          </Card>
          <Card title="Pending" size={4} say={plural(data.pending.length, "pod")}>
            {data.pending.length ? (
              <ul class="list">
                {data.pending.map((key) => (
                  <li key={key}>
                    <a class="note mono" data-row href={podLink(key)}>
                      <i />
                      {key}
                    </a>
                  </li>
                ))}
              </ul>
            ) : (
              <Empty title="No pod of this quota is pending" />
            )}
            <div class="body">
              <Command command={data.command} />
            </div>
          </Card>
        </div>
      )}
    </>
  );
}
