import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { useLoaded } from "../api";
import { ActButton, begin, show, undo } from "../acts";
import { count, duration, moment, NONE, plural, utc } from "../format";
import { Card, Empty, Freshness, Head, Panel } from "../parts";
import { part } from "../router";
import type { ActName, ChangeColumns, Rollouts, RolloutState } from "../shapes";
import { Filter, Table, useList, type Column } from "../table";

/** What ids of roll-outs begin with. */
const ROLLOUT = "rollout/";
const COLUMNS: Column<ChangeColumns>[] = [
  { title: "When", cell: (c, i) => <span class="nowrap" title={utc(c.atS[i]!)}>{moment(c.atS[i]!)}</span> },
  { title: "Who", wideOnly: true, cell: (c, i) => <span class="dim nowrap">{c.who[i] || NONE}</span> },
  {
    title: "What",
    cell: (c, i) => (
      <>
        {c.kind[i] === "act" ? (
          <a data-row href={`/changes/${part(c.id[i]!)}`}>
            {c.what[i]}
          </a>
        ) : c.link[i] ? (
          <a data-row href={c.link[i]}>
            {c.what[i]}
          </a>
        ) : (
          c.what[i]
        )}
        <div class="dim small">
          {[c.kind[i] === "act" || c.kind[i] === "rollout" ? c.object[i] : "", c.why[i]].filter(Boolean).join(" · ")}
        </div>
      </>
    ),
  },
  { title: "Result", wideOnly: true, cell: (c, i) => <span class="dim">{c.result[i] || NONE}</span> },
  {
    title: "Undo",
    cell: (c, i) =>
      c.canUndo[i] ? (
        <button
          class="link small"
          style={{ minHeight: "24px" }}
          onClick={() => (c.kind[i] === "rollout" ? begin({ act: "rollout-undo", scope: { feature: c.id[i]!.slice(ROLLOUT.length) } }) : void undo(c.id[i]!))}
          aria-label={`Undo: ${c.what[i]}`}
        >
          Undo…
        </button>
      ) : (
        ""
      ),
  },
];

const VERBS: Partial<Record<ActName, string>> = { "rollout-start": "Start…", "rollout-stop": "Stop…", "rollout-resume": "Resume…", "rollout-undo": "Undo…" };

export function Changes({ id }: { id: string }): JSX.Element {
  const rollouts = useLoaded<Rollouts>("rollouts", 5);
  const list = useList<ChangeColumns>("changes", {}, 5);
  useEffect(() => {
    if (id) void show(id);
  }, [id]);
  const total = list.loaded.data?.total ?? 0;
  const moving = rollouts.data?.rollouts.filter((each) => each.state === "running" || each.state === "stopped") ?? [];
  const sentence = moving.length ? moving[0]!.sentence : list.loaded.data ? (total ? `${plural(total, "change")} ${total === 1 ? "is" : "are"} on record; no roll-out is under way.` : "Nothing has been changed, moved or evicted yet.") : "Changes";
  return (
    <>
      <Head title="Changes" sentence={sentence} command="koord colocation rollout status" sub={<Freshness />}>
        <ActButton act="policy" scope={{}}>
          Policy…
        </ActButton>
        <ActButton act="thresholds" scope={{}}>
          Thresholds…
        </ActButton>
        <ActButton act="colocation-off" scope={{}}>
          Lending off…
        </ActButton>
        <ActButton act="colocation-on" scope={{}}>
          Lending on…
        </ActButton>
      </Head>
      <div class="grid first">
        <Card title="Roll-outs" command="koord colocation rollout status">
          <Panel of={rollouts} rows={3}>
            {(data) =>
              data.rollouts.length ? (
                <div class="scroll">
                  <table>
                    <thead>
                      <tr>
                        <th>Feature</th>
                        <th class="wide-only">Steps</th>
                        <th class="wide-only">Since</th>
                        <th class="wide-only">Unready, slowed, evicted of their limits</th>
                        <th>
                          <span class="unseen">Acts</span>
                        </th>
                      </tr>
                    </thead>
                    <tbody>
                      {data.rollouts.map((rollout) => (
                        <Rollout key={rollout.feature} of={rollout} />
                      ))}
                    </tbody>
                  </table>
                </div>
              ) : (
                <Empty title="No feature rolls out by steps" />
              )
            }
          </Panel>
        </Card>
        <Card title="Log" tools={<Filter label="Filter changes" />} say={list.loaded.data ? plural(total, "change") : ""} command="kubectl get events -A --sort-by=.lastTimestamp">
          <Table
            label="Changes"
            list={list}
            columns={COLUMNS}
            keys={(c) => c.id}
            empty={<Empty title="Nothing was changed yet">Moves, evictions, roll-outs, and what is done here appear in this list, with who and why.</Empty>}
          />
        </Card>
      </div>
    </>
  );
}

function Rollout({ of }: { of: RolloutState }): JSX.Element {
  return (
    <tr class="row">
      <td>
        {of.feature}
        <div class="dim small">{of.state === "none" ? of.about : of.sentence}</div>
      </td>
      <td class="nowrap wide-only">
        <span aria-label={of.steps.length ? `at ${of.percent}%, steps ${of.steps.join(", ")}` : "no steps"}>
          {of.steps.map((step, i) => (
            <span key={i} class={`tag${of.state !== "none" && step <= of.percent ? " strong" : ""}`} style={{ marginRight: "4px" }}>
              {step}%
            </span>
          ))}
          {!of.steps.length && <span class="dim">{NONE}</span>}
        </span>
        <div class="dim small">
          {of.state !== "none" && `${count(of.nodes)} of ${plural(of.pool, "node")}`}
          {of.nextAtS !== null && `, next ${moment(of.nextAtS)}`}
        </div>
      </td>
      <td class="wide-only dim">{of.sinceAtS === null ? NONE : duration(Date.now() / 1000 - of.sinceAtS)}</td>
      <td class="wide-only dim">{of.limits.length && of.state !== "none" ? of.limits.map((limit) => `${limit.name} ${count(limit.count)} of ${count(limit.limit)}`).join(", ") : NONE}</td>
      <td class="n">
        {of.acts.map((act) => (
          <span key={act} style={{ marginLeft: "6px" }}>
            <ActButton act={act} scope={{ feature: of.feature }}>
              {VERBS[act] ?? act}
            </ActButton>
          </span>
        ))}
      </td>
    </tr>
  );
}
