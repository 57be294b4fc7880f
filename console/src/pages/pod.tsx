import type { ComponentChildren, JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { Failure, useLoaded, type Loaded } from "../api";
import { bandName, clock, cores, coresGiven, count, duration, gib, gibGiven, moment, NONE, plural } from "../format";
import { listen } from "../live";
import { Bar, Card, Command, Empty, Freshness, Head, History, Lines, Panel, say, Swatch, Wrong } from "../parts";
import { nodeLink, part, quotaLink } from "../router";
import type { Against, Explained, Explanation, GangDetail, PodDetail, PodExplained } from "../shapes";
import { ActButton } from "../acts";
import { Loading, Reasons } from "./overview";
import { useTopic } from "./node";
import { PodRows } from "./services";

/** What `koord explain` says. It takes a while on a large cluster: the answer then comes as an event. */
export function useExplained<T>(to: string): Loaded<T> {
  const loaded = useLoaded<Explanation>(to);
  const [heard, setHeard] = useState<{ ticket: string; explanation: Explanation } | null>(null);
  const ticket = loaded.data?.ticket ?? "";
  useEffect(() => {
    if (!ticket) return;
    return listen(`explanation/${ticket}`, (data) => setHeard({ ticket, explanation: data as Explanation }));
  }, [ticket]);
  // While a newer answer is on its way, the last one stays.
  const answer = ticket ? (heard?.explanation ?? null) : loaded.data;
  const error = answer?.error ? new Failure(500, "koord explain", answer.error, "") : loaded.error;
  return { ...loaded, data: (answer?.explained as T | null | undefined) ?? null, error };
}

export function Pod({ namespace, name }: { namespace: string; name: string }): JSX.Element {
  const key = `${namespace}/${name}`;
  const api = `pods/${part(namespace)}/${part(name)}`;
  const tick = useTopic(`pod/${key}`);
  const loaded = useLoaded<PodDetail>(api, 10, tick);
  const explained = useExplained<Explained>(`${api}/explanation`);
  const data = loaded.data;
  useNotice(data);
  if (!data && !loaded.error) return <Loading title={name} />;
  const pending = data && !data.node && data.phase === "Pending";
  const ended = data?.phase === "Succeeded" || data?.phase === "Failed";
  return (
    <>
      <Head
        title={name}
        crumbs={
          <>
            <a class="link" href={pending ? "/pending" : data?.node ? nodeLink(data.node) : "/"}>
              {pending ? "Pending" : data?.node || "Overview"}
            </a>{" "}
            / {namespace}
            {data?.owner && ` / ${data.owner.replace("/", " ")}`}
          </>
        }
        sentence={data?.sentence ?? name}
        command={data?.command}
        sub={
          data && (
            <>
              {data.pendingS !== null ? (
                <span class="dot">Pending for {duration(data.pendingS)}</span>
              ) : (
                <Freshness atS={loaded.atS} />
              )}
              <span>{data.phase}</span>
              {explained.data && explained.data.placedBefore > 0 && <span>{plural(explained.data.placedBefore, "pod")} come before it</span>}
            </>
          )
        }
      >
        {data?.node && !ended && (
          <ActButton act="move-pod" scope={{ pod: key }}>
            Move…
          </ActButton>
        )}
      </Head>
      {!data ? (
        <section class="card">
          <Panel of={loaded}>{() => null}</Panel>
        </section>
      ) : (
        <div class="grid first">
          <Road data={data} explained={explained} />
          <About data={data} explained={explained.data} />
          {pending ? <Changes explained={explained} /> : !ended && <WhyThere explained={explained} />}
          {pending ? <Meanwhile data={data} explained={explained.data} /> : null}
          {!pending && (
            <Card title="History" size={ended ? 12 : 4}>
              <History entries={data.history} />
            </Card>
          )}
          {!ended && <WhyNot explained={explained} pending={!!pending} />}
          {pending && data.history.length > 0 && (
            <Card title="History">
              <History entries={data.history} />
            </Card>
          )}
        </div>
      )}
    </>
  );
}

interface Step {
  name: string;
  state: "done" | "now" | "later";
  what: ComponentChildren;
  when?: string;
}

function Road({ data, explained }: { data: PodDetail; explained: Loaded<Explained> }): JSX.Element {
  const told = explained.data;
  const refusal = told?.explanation?.refusal ?? "";
  const quota = told?.explanation?.quota;
  const waits = !data.node;
  const inQuota = waits && /quota/i.test(data.plugin + refusal);
  const inQueue = waits && told?.outcome === "waiting";
  const nobody = told?.unanswered ?? "";
  const at = !waits ? "start" : nobody ? "queue" : inQueue ? "queue" : inQuota ? "quota" : "node";
  const order = ["queue", "quota", "node", "start"];
  const state = (step: string): Step["state"] => {
    if (!waits) return step === "start" && !data.ready && data.phase !== "Succeeded" ? "now" : "done";
    return order.indexOf(step) < order.indexOf(at) ? "done" : step === at ? "now" : "later";
  };
  const owner = data.owner ? data.owner.replace("/", " ") : "nobody else";
  const explanation = told?.explanation;
  const steps: Step[] = [
    { name: "Created", state: "done", what: `by ${owner}`, when: clock(data.createdAtS, true) },
    {
      name: "Admitted",
      state: "done",
      what: (
        <>
          as a {bandName(data.band)} pod{data.qos && `, QoS ${data.qos}`}
        </>
      ),
      when: clock(data.createdAtS, true),
    },
    {
      name: "Queue",
      state: state("queue"),
      what: nobody || (inQueue ? told!.message : waits ? (told ? (told.placedBefore ? `${plural(told.placedBefore, "pod")} come before it; this answer places them first` : "no pod comes before it") : "") : "its turn came"),
      when: waits ? "now" : "",
    },
    {
      name: "Quota",
      state: state("quota"),
      what: data.quota ? (
        <>
          <a class="link" href={quotaLink(data.quota)}>
            {data.quota}
          </a>
          {waits && quota?.short ? `: ${quota.short}` : inQuota ? `: ${data.message}` : ""}
        </>
      ) : (
        "it uses none"
      ),
      when: waits ? "now" : "",
    },
    {
      name: "Node",
      state: state("node"),
      what: data.node ? (
        <a class="link mono" href={nodeLink(data.node)}>
          {data.node}
        </a>
      ) : explanation ? (
        refusal || `${count(explanation.feasible)} of ${plural(explanation.nodes, "node")} take it`
      ) : (
        data.title
      ),
      when: data.scheduledAtS ? clock(data.scheduledAtS, true) : waits ? "now" : "",
    },
    {
      name: "Start",
      state: state("start"),
      what: data.node ? `${data.phase}${data.ready ? ", ready" : ""}` : "agent sets its limits before the first instruction",
    },
  ];
  const current = steps.findIndex((step) => step.state === "now");
  return (
    <Card title="Path to a node" size={8} say={current < 0 ? "all done" : `step ${current + 1} of ${steps.length}`}>
      <div class="body">
        <ol class="road">
          {steps.map((step, i) => (
            <li key={step.name} class={step.state}>
              <span class="mark" aria-hidden="true">
                {step.state === "done" ? "✓" : step.state === "now" ? (waits ? "!" : "…") : i + 1}
              </span>
              <strong>
                {step.name}
                <span class="unseen">: {step.state === "done" ? "done" : step.state === "now" ? "here now" : "later"}</span>
              </strong>
              <span class="what">{step.what}</span>
              <span class="when">{step.when}</span>
            </li>
          ))}
        </ol>
      </div>
    </Card>
  );
}

function About({ data, explained }: { data: PodDetail; explained: Explained | null }): JSX.Element {
  const lent = data.band === "batch" || data.band === "mid";
  const asks = `${coresGiven(data.askedMilli)} ${lent ? "lent " : ""}${data.askedMilli === 1000 ? "CPU" : "CPUs"}, ${gibGiven(data.askedBytes)} GiB`;
  const rows: [string, ComponentChildren][] = [
    ["Asks for", asks],
    ...(data.usedMilli !== null ? ([["Uses", `${cores(data.usedMilli)} cores, ${gib(data.usedBytes)} GiB`]] as [string, ComponentChildren][]) : []),
    [
      "Band",
      <>
        <Swatch band={data.band} />
        {bandName(data.band)}
        {data.qos && `, QoS ${data.qos}`}
      </>,
    ],
    ["Priority", data.priority === null ? NONE : count(data.priority)],
    ["Quota", data.quota ? <a href={quotaLink(data.quota)}>{data.quota}</a> : "none"],
    ...(data.gang
      ? ([["Gang", <a href={`/gangs/${data.gang.includes("/") ? data.gang.split("/").map(part).join("/") : `${part(data.namespace)}/${part(data.gang)}`}`}>{data.gang}</a>]] as [string, ComponentChildren][])
      : []),
    ["Scheduler", <span class="mono">{data.schedulerName}</span>],
    ["Created", moment(data.createdAtS)],
    ...(data.similarPods
      ? ([
          [
            "Similar pods",
            `${plural(data.similarPods, "pod")} of ${data.quota ? "this quota" : "this namespace"} scheduled in the last hour: half within ${duration(data.similarWaitMedianS)}, 90% within ${duration(data.similarWaitP90S)}`,
          ],
        ] as [string, ComponentChildren][])
      : []),
    ...((explained?.slowdowns ?? []).map((text) => ["Slowed", text]) as [string, ComponentChildren][]),
    ...((explained?.moves ?? []).map((text) => ["Moved", text]) as [string, ComponentChildren][]),
    ...((explained?.unacted ?? []).map((text) => ["Not acted on", text]) as [string, ComponentChildren][]),
  ];
  return (
    <Card title="The pod" size={4} late>
      <div class="body">
        <dl class="kv">
          {rows.map(([name, value], i) => [<dt key={`${i}n`}>{name}</dt>, <dd key={`${i}v`}>{value}</dd>])}
        </dl>
        <Command command={data.command} />
      </div>
    </Card>
  );
}

const SIDES: Record<string, string> = { pod: "You", others: "Wait", node: "Platform", storage: "Platform" };

function Explaining({ explained, children }: { explained: Loaded<Explained>; children: (data: PodExplained, all: Explained) => ComponentChildren }): JSX.Element {
  if (explained.error) return <Wrong failure={explained.error} onRetry={explained.reload} />;
  if (!explained.data) return <Lines rows={3} />;
  if (!explained.data.explanation) return <Empty title={explained.data.message} />;
  return <>{children(explained.data.explanation, explained.data)}</>;
}

function Changes({ explained }: { explained: Loaded<Explained> }): JSX.Element {
  return (
    <Card
      title="What would let it in"
      size={8}
      say={
        <>
          each tried out<span class="wide-only"> on a copy of the cluster</span>
        </>
      }
    >
      <Explaining explained={explained}>
        {(data) =>
          data.outcome === "fits" && data.chosen ? (
            <Empty title={`It fits on ${data.chosen} now`}>The scheduler places it with its next try.</Empty>
          ) : data.changes.length ? (
            <table>
              <thead class="unseen">
                <tr>
                  <th>Who</th>
                  <th>Change</th>
                </tr>
              </thead>
              <tbody>
                {data.changes.map((change, i) => {
                  const sides = [...new Set(change.steps.map((step) => SIDES[step.on] ?? step.on))];
                  return (
                    <tr class="row" key={i}>
                      <td style={{ width: "92px" }}>
                        {sides.map((side) => (
                          <span key={side} class={`tag${side === "You" ? " strong" : ""}`}>
                            {side}
                          </span>
                        ))}
                      </td>
                      <td>
                        {change.steps.map((step) => step.text).join(", and ")}
                        <div class="dim small">{fits(change.nodes)}</div>
                      </td>
                    </tr>
                  );
                })}
              </tbody>
            </table>
          ) : (
            <Empty title="No small change would let it in">{data.message}</Empty>
          )
        }
      </Explaining>
    </Card>
  );
}

function fits(nodes: string[]): string {
  if (!nodes.length) return "";
  const more = nodes.length - 1;
  return `then fits ${nodes[0]}${more ? ` and ${plural(more, "more node", "more nodes")}` : ""}`;
}

const MOST_SCORES = 6;
const MOST_EXAMPLES = 4;

function WhyThere({ explained }: { explained: Loaded<Explained> }): JSX.Element {
  return (
    <Card title="Why on this node" size={8} say="as if it were scheduled now; scores of the best nodes">
      <Explaining explained={explained}>
        {(data) => {
          const best = Math.max(1, ...data.whyThere.map((each) => each.total));
          const shown = data.whyThere.filter((each, i) => i < MOST_SCORES || each.node === data.node);
          return shown.length ? (
            <table>
              <thead>
                <tr>
                  <th>Node</th>
                  <th class="n">Score</th>
                  <th>
                    <span class="unseen">Share</span>
                  </th>
                  <th class="wide-only">Most from</th>
                </tr>
              </thead>
              <tbody>
                {shown.map((each) => (
                  <tr class="row" key={each.node}>
                    <td class="name">
                      <a class="mono" data-row href={nodeLink(each.node)}>
                        {each.node}
                      </a>
                      {each.node === data.node && <span class="small dim"> here</span>}
                    </td>
                    <td class="n">{count(each.total)}</td>
                    <td style={{ width: "30%" }}>
                      <Bar shares={[{ part: each.total / best, colour: "var(--dim)" }]} />
                    </td>
                    <td class="dim small wide-only">
                      {Object.entries(each.scores)
                        .sort((a, b) => b[1] - a[1])
                        .slice(0, 2)
                        .map(([plugin, score]) => `${plugin} ${count(score)}`)
                        .join(", ")}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          ) : (
            <Empty title={data.message || "There is nothing to compare"} />
          );
        }}
      </Explaining>
    </Card>
  );
}

const TONES = ["p4", "p3", "p2", "p1"];

function WhyNot({ explained, pending }: { explained: Loaded<Explained>; pending: boolean }): JSX.Element {
  const nodes = explained.data?.explanation?.nodes;
  return (
    <Card
      title={pending ? "Why not" : "Why not elsewhere"}
      say={
        nodes !== undefined && (
          <>
            {plural(nodes, "node")}
            <span class="wide-only">; each counts for the first plugin that rejects it</span>
          </>
        )
      }
    >
      <Explaining explained={explained}>
        {(data) => (data.whyNot.length ? <Against_ rows={data.whyNot} feasible={data.feasible} /> : <Empty title="No node rejects it">{data.refusal}</Empty>)}
      </Explaining>
    </Card>
  );
}

function Against_({ rows, feasible }: { rows: Against[]; feasible: number }): JSX.Element {
  const sorted = [...rows].sort((a, b) => b.nodes - a.nodes);
  const tone = (i: number): string => TONES[Math.min(i, TONES.length - 1)]!;
  return (
    <>
      <div class="body" style={{ paddingBottom: "4px" }}>
        <div class="shares" role="img" aria-label={[...sorted.map((row) => `${row.nodes}: ${row.reason}`), ...(feasible ? [`${feasible} take it`] : [])].join("; ")}>
          {sorted.map((row, i) => (
            <i key={i} style={{ flex: row.nodes, background: `var(--${tone(i)})`, color: i === 0 ? "var(--card)" : "var(--text)" }}>
              {row.nodes > 2 ? row.nodes : ""}
            </i>
          ))}
          {feasible > 0 && (
            <i style={{ flex: feasible, background: "var(--track)", color: "var(--text)" }}>{feasible > 2 ? `${count(feasible)} take it` : ""}</i>
          )}
        </div>
      </div>
      <div class="scroll">
        <table>
          <thead>
            <tr>
              <th>Reason</th>
              <th class="n">Nodes</th>
              <th>In numbers</th>
              <th class="wide-only">Such as</th>
            </tr>
          </thead>
          <tbody>
            {sorted.map((row, i) => (
              <tr class="row" key={i}>
                <td>
                  <span class="swatch" style={{ background: `var(--${tone(i)})` }} />
                  {row.reason}
                  <div class="dim small" style={{ paddingLeft: "15px" }}>
                    {row.plugin}
                  </div>
                </td>
                <td class="n">{count(row.nodes)}</td>
                <td class="dim">{row.detail || NONE}</td>
                <td class="mono small wide-only">
                  {row.examples.slice(0, MOST_EXAMPLES).map((node, k) => (
                    <span key={node}>
                      {k > 0 && ", "}
                      <a href={nodeLink(node)}>{node}</a>
                    </span>
                  ))}
                  {row.nodes > MOST_EXAMPLES && <span class="dim"> and {count(row.nodes - MOST_EXAMPLES)} more</span>}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

const waitingFor = new Set<string>();

/** A notification of the browser when a pod has got its node, as long as this tab is open. */
function useNotice(data: PodDetail | null): void {
  useEffect(() => {
    if (!data?.node || !waitingFor.delete(data.uid)) return;
    say(`${data.name} was scheduled to ${data.node}`);
    if (globalThis.Notification?.permission === "granted") new Notification(`${data.name} was scheduled`, { body: data.node });
  }, [data?.node]);
}

function Meanwhile({ data, explained }: { data: PodDetail; explained: Explained | null }): JSX.Element {
  const [asked, setAsked] = useState(waitingFor.has(data.uid));
  const ask = async (): Promise<void> => {
    waitingFor.add(data.uid);
    setAsked(true);
    if (globalThis.Notification?.permission === "default") await Notification.requestPermission();
  };
  const preemption = explained?.explanation?.preemption;
  return (
    <Card title="Meanwhile" size={4}>
      <div class="body">
        <p class="dim" style={{ fontSize: "13px" }}>
          koord retries as soon as something changes that could help, not on a timer.
          {preemption?.message && ` Preemption: ${preemption.message}`}
        </p>
        <button class="button" style={{ marginTop: "14px" }} disabled={asked} onClick={() => void ask()}>
          {asked ? "This tab will say so" : "Notify me when it is scheduled"}
        </button>
      </div>
    </Card>
  );
}

interface GangExplained {
  message: string;
  outcome: string;
  whyNot: Record<string, number>;
  changes: string[];
  nodes: Record<string, number>;
}

export function Gang({ namespace, name }: { namespace: string; name: string }): JSX.Element {
  const api = `gangs/${part(namespace)}/${part(name)}`;
  const loaded = useLoaded<GangDetail>(api, 5);
  const explained = useExplained<GangExplained>(`${api}/explanation`);
  const data = loaded.data;
  if (!data && !loaded.error) return <Loading title={name} />;
  return (
    <>
      <Head
        title={name}
        crumbs={
          <>
            <a class="link" href="/pending">
              Pending
            </a>{" "}
            / {namespace} / gang
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
          <Card title="Its pods" size={8} say={`${count(data.scheduled)} of ${count(data.minMember ?? data.pods.length)} have a node`}>
            <PodRows pods={data.pods} />
          </Card>
          <Card title="What would let it in" size={4}>
            {explained.error ? (
              <Wrong failure={explained.error} onRetry={explained.reload} />
            ) : !explained.data ? (
              <Lines rows={3} />
            ) : (
              <div class="body">
                <p>{explained.data.message}</p>
                <ul class="rows">
                  {explained.data.changes.map((text) => (
                    <li key={text} style={{ marginTop: "8px" }}>
                      {text}
                    </li>
                  ))}
                </ul>
                <Command command={data.command} />
              </div>
            )}
          </Card>
          <Reasons groups={data.reasons} total={data.pending} size={12} />
        </div>
      )}
    </>
  );
}

