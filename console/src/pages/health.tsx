import type { JSX } from "preact";
import { me, useLoaded } from "../api";
import { count, moment } from "../format";
import { Attentions, Card, Command, Empty, Freshness, Head, Panel, Triangle } from "../parts";
import type { HealthAnswer } from "../shapes";
import { useOverview } from "./overview";

const isBad = (answer: HealthAnswer): boolean => answer.status.checks.some((check) => !check.ok);

export function Health(): JSX.Element {
  const loaded = useLoaded<HealthAnswer>("health", 10);
  const { data: overview } = useOverview();
  const data = loaded.data;
  return (
    <>
      <Head
        title="Health"
        sentence={data?.sentence ?? "Health of koord"}
        command="koord status"
        sub={
          <>
            <Freshness atS={loaded.atS} />
            {data && <span>koord {data.status.version}</span>}
            {me.value && (
              <span>
                As {me.value.user}, signed in by {me.value.signedInBy}
              </span>
            )}
            {me.value && <span>Console since {moment(me.value.startedAtS)}</span>}
          </>
        }
      >
        {me.value?.grafanaUrl && (
          <a class="button" style={{ lineHeight: "30px" }} href={me.value.grafanaUrl} target="_blank" rel="noreferrer noopener">
            Grafana
          </a>
        )}
      </Head>
      <div class="grid first">
        <Card title="Checks" size={8} command="koord status">
          <Panel of={loaded} rows={8}>
            {(answer) => (
              <div class="scroll">
              <table>
                <thead>
                  <tr>
                    <th style={{ width: "24%" }}>Check</th>
                    <th>What</th>
                    {isBad(answer) && <th>How to mend it</th>}
                  </tr>
                </thead>
                <tbody>
                  {answer.status.checks.map((check) => (
                    <tr class="row" key={check.name}>
                      <td class="nowrap">
                        {check.ok ? <span aria-label="passes">✓ </span> : <><Triangle /> <span class="unseen">fails</span></>}
                        {check.name}
                      </td>
                      <td>
                        {check.problems.map((problem) => (
                          <div key={problem.what}>{problem.what}</div>
                        ))}
                        {check.ok && <span class="dim">passes</span>}
                      </td>
                      {isBad(answer) && (
                        <td class="dim">
                          {check.problems.map((problem) => (
                            <div key={problem.how}>{problem.how}</div>
                          ))}
                        </td>
                      )}
                    </tr>
                  ))}
                </tbody>
              </table>
              </div>
            )}
          </Panel>
        </Card>
        <Card title="Needs attention" size={4} say={overview ? count(overview.attentionInAll) : ""}>
          {overview?.attention.length ? <Attentions items={overview.attention} /> : <Empty title="Nothing needs attention" />}
          {data && data.status.notes.length > 0 && (
            <div class="body">
              <h3>Notes</h3>
              <ul>
                {data.status.notes.map((note) => (
                  <li key={note} class="dim small" style={{ marginTop: "6px" }}>
                    {note}
                  </li>
                ))}
              </ul>
            </div>
          )}
          <div class="body">
            <Command command="koord status" />
          </div>
        </Card>
      </div>
    </>
  );
}
