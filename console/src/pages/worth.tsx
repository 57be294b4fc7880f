import type { JSX } from "preact";
import { useLoaded } from "../api";
import { count, given, moment, NONE } from "../format";
import { Bar, Card, Empty, Figure, Head, Panel, Segments } from "../parts";
import { go, query, withQuery } from "../router";
import type { WorthAnswer, WorthMoment } from "../shapes";
import { Loading } from "./overview";

const SINCE = [
  ["1h", "1 h"],
  ["24h", "24 h"],
  ["7d", "7 d"],
  ["30d", "30 d"],
] as const;
const BY = [
  ["namespace", "Namespace"],
  ["quota", "Quota"],
  ["workload", "Workload"],
] as const;

/** The node to compare with. */
const SIZES = [
  { name: "cores", text: "Node, cores", placeholder: "32" },
  { name: "gib", text: "Node, GiB", placeholder: "128" },
  { name: "price", text: "Price, an hour", placeholder: "none" },
] as const;

const hours = (value: number): string => (value >= 100 ? count(value) : value < 1 ? String(Number(value.toPrecision(2))) : value.toFixed(1));

export function Worth(): JSX.Element {
  const since = query.value.get("since") || "24h";
  const by = query.value.get("by") || "namespace";
  const size = new URLSearchParams();
  for (const { name } of SIZES) if (query.value.get(name)) size.set(name, query.value.get(name)!);
  const loaded = useLoaded<WorthAnswer>(`worth?since=${encodeURIComponent(since)}&by=${encodeURIComponent(by)}${size.size ? `&${size}` : ""}`, 60);
  const data = loaded.data;
  const range = <Segments label="Range" keys options={SINCE} value={since as "24h"} onChange={(value) => go(withQuery({ since: value === "24h" ? "" : value }), true)} />;
  if (!data && !loaded.error) return <Loading title="Worth" />;
  return (
    <>
      <Head title="Worth" sentence={data?.sentence ?? "What co-location is worth"} command={data?.command ?? "koord report"} sub={data && <span>From {data.source}</span>}>
        {data && (
          <button class="button" onClick={() => save(data)}>
            Save as CSV
          </button>
        )}
      </Head>
      {!data ? (
        <section class="card">
          <Panel of={loaded}>{() => null}</Panel>
        </section>
      ) : (
        <>
          <div class="card strip" role="group" aria-label="Figures">
            <Figure name="Offered to batch" value={hours(data.offeredCpuHours)} unit="core-hours" more={`${hours(data.offeredGibHours)} GiB-hours`} />
            <Figure name="Lent" value={hours(data.total.lentCpuHours)} unit="core-hours" more={`${hours(data.total.lentGibHours)} GiB-hours`} />
            <Figure name="Used" value={hours(data.total.usedCpuHours)} unit="core-hours" more={`${hours(data.total.usedGibHours)} GiB-hours`} />
            <Figure
              name="As much as"
              value={hours(data.total.nodeHoursSaved)}
              unit="node-hours"
              more={data.total.costSaved === null ? "a price shows what that costs" : `worth ${given(data.total.costSaved)}`}
            />
            <Figure name="Evicted" value={count(data.total.evictions)} unit={data.total.evictions === 1 ? "pod" : "pods"} more="of those on lent resources" link="/changes" />
          </div>
          <div class="grid">
            {data.course.length > 1 && (
              <Card title="Over time" say={`cores, since ${moment(data.course[0]!.atS)}`} command={data.command}>
                <div class="body">
                  <Course moments={data.course} />
                </div>
              </Card>
            )}
            <Card
              title="Who it went to"
              size={8}
              tools={
                <>
                  {range}
                  <Segments label="Group" options={BY} value={by as "namespace"} onChange={(value) => go(withQuery({ by: value === "namespace" ? "" : value }), true)} />
                </>
              }
              command={data.command}
            >
              {data.rows.length ? <Rows data={data} /> : <Empty title="No job ran on lent resources">Give jobs the label of a profile: koord admit shows what it makes of them.</Empty>}
            </Card>
            <Card title="How it is counted" size={4}>
              <div class="body">
                <div class="sizes">
                  {SIZES.map(({ name, text, placeholder }) => (
                    <label class="field" key={name}>
                      <span>{text}</span>
                      <input
                        type="number"
                        min="0"
                        step="any"
                        placeholder={placeholder}
                        value={query.value.get(name) ?? ""}
                        onChange={(event) => go(withQuery({ [name]: event.currentTarget.value }), true)}
                      />
                    </label>
                  ))}
                </div>
                <ul>
                  {data.notes.map((note) => (
                    <li key={note} class="dim" style={{ fontSize: "13px", marginBottom: "8px" }}>
                      {note[0]!.toUpperCase() + note.slice(1)}.
                    </li>
                  ))}
                </ul>
              </div>
            </Card>
          </div>
        </>
      )}
    </>
  );
}

function Rows({ data }: { data: WorthAnswer }): JSX.Element {
  const most = Math.max(1e-9, ...data.rows.map((row) => row.lentCpuHours));
  return (
    <div class="scroll">
      <table>
        <thead>
          <tr>
            <th>{data.by[0]!.toUpperCase() + data.by.slice(1)}</th>
            <th class="n">Lent</th>
            <th class="n">Used</th>
            <th>
              <span class="unseen">Share</span>
            </th>
            <th class="n wide-only">GiB-hours</th>
            <th class="n wide-only">Node-hours</th>
            <th class="n">Evicted</th>
          </tr>
        </thead>
        <tbody>
          {data.rows.map((row) => (
            <tr class="row" key={row.name}>
              <td class="name">{row.name || NONE}</td>
              <td class="n">{hours(row.lentCpuHours)}</td>
              <td class="n">{hours(row.usedCpuHours)}</td>
              <td style={{ width: "26%" }}>
                <Bar
                  shares={[
                    { part: row.usedCpuHours / most, colour: "var(--batch)" },
                    { part: Math.max(0, row.lentCpuHours - row.usedCpuHours) / most, colour: "var(--line)" },
                  ]}
                />
              </td>
              <td class="n wide-only">{hours(row.lentGibHours)}</td>
              <td class="n wide-only">{hours(row.nodeHoursSaved)}</td>
              <td class="n">{count(row.evictions)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Offered, lent and used cores: three lines. */
function Course({ moments }: { moments: WorthMoment[] }): JSX.Element {
  const [wide, high] = [1200, 160];
  const most = Math.max(1, ...moments.map((each) => each.offeredMilli));
  const line = (of: keyof WorthMoment): string =>
    moments.map((each, i) => `${i ? "L" : "M"}${((i / (moments.length - 1)) * wide).toFixed(1)} ${(high - (each[of] / most) * high).toFixed(1)}`).join("");
  const last = moments.at(-1)!;
  return (
    <>
      <svg width="100%" height={high} viewBox={`0 0 ${wide} ${high}`} preserveAspectRatio="none" role="img" aria-label={`Offered ${count(last.offeredMilli / 1000)}, lent ${count(last.lentMilli / 1000)}, used ${count(last.usedMilli / 1000)} cores at the end`}>
        <path d={line("offeredMilli")} fill="none" stroke="var(--dim)" stroke-width="1.5" stroke-dasharray="5 4" vector-effect="non-scaling-stroke" />
        <path d={line("lentMilli")} fill="none" stroke="var(--batch)" stroke-width="1.5" stroke-dasharray="1.5 3" vector-effect="non-scaling-stroke" />
        <path d={line("usedMilli")} fill="none" stroke="var(--batch)" stroke-width="1.5" vector-effect="non-scaling-stroke" />
      </svg>
      <div class="legend" style={{ marginTop: "8px", justifyContent: "space-between" }}>
        <span>{moment(moments[0]!.atS)}</span>
        <span>now</span>
      </div>
      <div class="legend" style={{ marginTop: "8px" }}>
        {(
          [
            ["offered", last.offeredMilli, "var(--dim)", "5 4"],
            ["lent to pods", last.lentMilli, "var(--batch)", "1.5 3"],
            ["used", last.usedMilli, "var(--batch)", ""],
          ] as const
        ).map(([name, milli, stroke, dashes]) => (
          <span key={name}>
            <svg width="18" height="8" aria-hidden="true">
              <path d="M0 4h18" stroke={stroke} stroke-width="1.5" stroke-dasharray={dashes} />
            </svg>
            {name} {count(milli / 1000)}
          </span>
        ))}
      </div>
    </>
  );
}

function save(data: WorthAnswer): void {
  // A cell that begins like a formula is text in a spreadsheet.
  const cell = (value: unknown): string => `"${String(value ?? "").replace(/^([=+\-@\t\r])/, "'$1").replaceAll('"', '""')}"`;
  const names = ["name", "lentCpuHours", "usedCpuHours", "lentGibHours", "usedGibHours", "evictions", "nodeHoursSaved", "costSaved"] as const;
  const lines = [names.join(","), ...data.rows.map((row) => names.map((name) => (typeof row[name] === "number" ? row[name] : cell(row[name]))).join(","))];
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" }));
  link.download = `koord-worth-${data.since}-${data.by}.csv`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
