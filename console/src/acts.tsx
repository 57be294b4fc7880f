// Acts: a preview of what would happen, a word of agreement, progress, and a way back. The server decides and does; the
// dialog shows what it says.

import { signal } from "@preact/signals";
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { call, Failure, me, post, useLoaded } from "./api";
import { clock, cores, count, gib, plural } from "./format";
import { listen } from "./live";
import { Dialog } from "./keys";
import { copy, Lines, said, say, Triangle, Wrong } from "./parts";
import type { Act, ActName, Preview, PreviewChanged, PreviewRequest, Scope, Settings, SettingValue } from "./shapes";

export interface Wanted {
  act: ActName;
  scope: Scope;
  settings?: Record<string, SettingValue>;
}

type Stage =
  | { is: "form"; wanted: Wanted }
  /** Previews of one number are of one dialog. */
  | { is: "preview"; number: number; wanted: Wanted; preview: Preview | null; changed: string[] }
  | { is: "act"; act: Act };

/** Where a value is set that differs between nodes. */
const SEVERAL = "several places";
const stage = signal<Stage | null>(null);
const FORMS = new Set<ActName>(["thresholds", "policy"]);

export const begin = (wanted: Wanted): void => {
  stage.value = FORMS.has(wanted.act) ? { is: "form", wanted } : { is: "preview", number: ++dialogs, wanted, preview: null, changed: [] };
};
let dialogs = 0;
const close = (): void => void (stage.value = null);

/** A button for an act. Without the rights it says which are missing, and the command for those who have them. */
export function ActButton(props: Wanted & { children: ComponentChildren; main?: boolean }): JSX.Element {
  const missing = me.value?.missing[props.act] ?? [];
  const command = me.value?.commands[props.act] ?? "";
  const why = `You lack: ${missing.join(", ")}. Somebody who may: ${command}`;
  if (missing.length)
    return (
      <button class="button" aria-disabled="true" title={why} onClick={() => say(why)} onDblClick={() => void copy(command)}>
        {props.children}
      </button>
    );
  return (
    <button class={`button${props.main ? " main" : ""}`} onClick={() => begin({ act: props.act, scope: props.scope, ...(props.settings ? { settings: props.settings } : {}) })}>
      {props.children}
    </button>
  );
}

/** Begins to undo an act: the preview of its opposite. */
export async function undo(id: string): Promise<void> {
  try {
    const preview = await post<Preview>(`acts/${encodeURIComponent(id)}/undo`, {});
    stage.value = { is: "preview", number: ++dialogs, wanted: { act: preview.act, scope: preview.scope, settings: preview.settings }, preview, changed: [] };
  } catch (error) {
    if (error instanceof Failure) say(`${error.object}: ${error.why}`);
  }
}

export async function show(id: string): Promise<void> {
  try {
    stage.value = { is: "act", act: await call<Act>(`acts/${encodeURIComponent(id)}`) };
  } catch (error) {
    if (error instanceof Failure) say(`${error.object}: ${error.why}`);
  }
}

export function ActDialog(): JSX.Element | null {
  const now = stage.value;
  if (!now) return null;
  return (
    <Dialog label={now.is === "act" ? "Progress" : "Preview"} onClose={close}>
      {now.is === "form" ? <Form key={now.wanted.act} wanted={now.wanted} /> : now.is === "preview" ? <Previewed key={now.number} stage={now} /> : <Progress key={now.act.id} act={now.act} />}
    </Dialog>
  );
}

function ScopeField({ scope, onChange, settings }: { scope: Scope; onChange: (scope: Scope) => void; settings: Settings | null }): JSX.Element {
  return (
    <label class="field">
      <span>Where</span>
      <select value={scope.pool ?? ""} onChange={(event) => onChange(event.currentTarget.value ? { pool: event.currentTarget.value } : {})}>
        <option value="">the whole cluster</option>
        {settings?.pools.map((pool) => (
          <option key={pool.selector} value={pool.selector}>
            {pool.name} ({plural(pool.nodes, "node")})
          </option>
        ))}
        {scope.pool && !settings?.pools.some((pool) => pool.selector === scope.pool) && <option value={scope.pool}>{scope.pool}</option>}
      </select>
    </label>
  );
}

function Form({ wanted }: { wanted: Wanted }): JSX.Element {
  const [scope, setScope] = useState<Scope>(wanted.scope);
  const [values, setValues] = useState<Record<string, string>>({});
  const loaded = useLoaded<Settings>(`settings${scope.pool ? `?pool=${encodeURIComponent(scope.pool)}` : ""}`);
  const data = loaded.data;
  const policy = wanted.act === "policy";
  const changed = Object.entries(values).filter(([name, value]) => value !== startOf(data, name));
  const settingsOf = (): Record<string, SettingValue> => {
    if (!policy) return Object.fromEntries(changed.map(([name, value]) => [name, value === "" ? null : Number(value)]));
    const chosen: Record<string, SettingValue> = {};
    for (const resource of ["cpu", "memory"]) if (values[resource]) chosen[resource] = values[resource];
    if (values.cpu === MARKED && values.markPercent) chosen.markPercent = Number(values.markPercent);
    return chosen;
  };
  const ready = policy ? !!(values.cpu || values.memory) : changed.length > 0;
  const submit = (event: Event): void => {
    event.preventDefault();
    if (ready) stage.value = { is: "preview", number: ++dialogs, wanted: { act: wanted.act, scope, settings: settingsOf() }, preview: null, changed: [] };
  };
  const set = (name: string) => (event: { currentTarget: HTMLInputElement | HTMLSelectElement }) => setValues({ ...values, [name]: event.currentTarget.value });
  return (
    <form onSubmit={submit}>
      <div class="inside">
        <h2>{policy ? "Choose how lending is calculated" : "Change thresholds"}</h2>
        <ScopeField scope={scope} onChange={(next) => (setScope(next), setValues({}))} settings={data} />
        {loaded.error && <Wrong failure={loaded.error} onRetry={loaded.reload} />}
        {!data && !loaded.error && <Lines rows={4} />}
        {data?.faults.map((fault) => (
          <p key={fault} class="small" style={{ marginTop: "8px" }}>
            <Triangle /> {fault}
          </p>
        ))}
        {data && policy && <PolicyFields data={data} values={values} set={set} />}
        {data &&
          !policy &&
          data.thresholds.map((threshold) => (
            <label class="field" key={threshold.name}>
              <span>
                {threshold.title} ({threshold.unit}, {threshold.minimum} to {threshold.maximum}). Now{" "}
                {threshold.value ?? (threshold.setIn === SEVERAL ? "not the same everywhere" : "no limit")}
                {threshold.setIn !== SEVERAL && (threshold.setIn === "default" ? ", the default" : `, set in ${threshold.setIn}`)}
              </span>
              <input
                type="number"
                min={threshold.minimum}
                max={threshold.maximum}
                step={1}
                placeholder={threshold.own === null ? "inherited" : undefined}
                value={values[threshold.name] ?? startOf(data, threshold.name)}
                onInput={set(threshold.name)}
              />
            </label>
          ))}
      </div>
      <footer>
        <button class="button" type="button" onClick={close} autofocus>
          Cancel
        </button>
        <button class="button main" type="submit" disabled={!ready}>
          Preview
        </button>
      </footer>
    </form>
  );
}

/** The policy that has a mark. */
const MARKED = "adaptive";
const POLICIES: Record<string, string> = {
  adaptive: "what services will leave, as koord predicts it",
  usage: "what services do not use now",
  maxUsageRequest: "what services neither use nor ask for",
  request: "what services do not ask for",
};

const startOf = (data: Settings | null, name: string): string => String(data?.thresholds.find((each) => each.name === name)?.own ?? "");

function PolicyFields({ data, values, set }: { data: Settings; values: Record<string, string>; set: (name: string) => (event: { currentTarget: HTMLInputElement | HTMLSelectElement }) => void }): JSX.Element {
  return (
    <>
      {data.policies.map((policy, i) => (
        <p class="small dim" key={i} style={{ marginTop: "8px" }}>
          {plural(policy.nodes, "node")}: CPU by {policy.cpu}
          {policy.markPercent !== null && ` at ${policy.markPercent}%`}, memory by {policy.memory}, set in {policy.setIn}
        </p>
      ))}
      {(["cpu", "memory"] as const).map((resource) => (
        <label class="field" key={resource}>
          <span>{resource === "cpu" ? "CPU" : "Memory"}</span>
          <select value={values[resource] ?? ""} onChange={set(resource)}>
            <option value="">as it is</option>
            {data.policyChoices[resource]?.map((name) => (
              <option key={name} value={name}>
                {name}: {POLICIES[name] ?? ""}
              </option>
            ))}
          </select>
        </label>
      ))}
      {values.cpu === MARKED && (
        <label class="field">
          <span>CPU usage of a node that batch must not exceed (percent, 1 to 100)</span>
          <input type="number" min={1} max={100} step={1} placeholder="85" value={values.markPercent ?? ""} onInput={set("markPercent")} />
        </label>
      )}
    </>
  );
}

function Previewed({ stage: now }: { stage: Extract<Stage, { is: "preview" }> }): JSX.Element {
  const { wanted, preview } = now;
  const [failure, setFailure] = useState<Failure | null>(null);
  const [why, setWhy] = useState("");
  const [typed, setTyped] = useState("");
  const [busy, setBusy] = useState(false);
  const shown = useRef(now);
  shown.current = now;
  const whole = !wanted.scope.nodes?.length && !wanted.scope.pod && !wanted.scope.feature;
  const choosesScope = whole && (wanted.act === "colocation-off" || wanted.act === "colocation-on");
  const settings = useLoaded<Settings>(choosesScope ? "settings" : null);

  const load = async (evict: boolean, scope: Scope = wanted.scope): Promise<void> => {
    // A dialog that was closed in the meantime stays closed.
    const isShown = (): boolean => stage.peek() === shown.current;
    setBusy(true);
    setFailure(null);
    const request: PreviewRequest = { act: wanted.act, scope, evict, settings: wanted.settings ?? {} };
    try {
      const loaded = await post<Preview>("previews", request);
      if (!isShown()) return;
      stage.value = { ...now, wanted: { ...wanted, scope }, preview: loaded, changed: [] };
    } catch (error) {
      if (error instanceof Failure) setFailure(error);
    }
    setBusy(false);
  };
  useEffect(() => {
    if (!preview) void load(false);
  }, [wanted.act]);
  const cancel = useRef<HTMLButtonElement>(null);
  // The dialog opened before there was a preview: what agrees must not be what has the focus.
  useLayoutEffect(() => cancel.current?.focus(), [!preview]);

  const confirm = async (event: Event): Promise<void> => {
    event.preventDefault();
    if (!preview) return;
    setBusy(true);
    setFailure(null);
    try {
      const act = await post<Act>("acts", { preview: preview.id, typed, why }, { "Idempotency-Key": preview.id });
      if (stage.peek() === shown.current) stage.value = { is: "act", act };
      return;
    } catch (error) {
      if (!(error instanceof Failure)) throw error;
      if (error.status === 409 && (error.body as PreviewChanged).preview) {
        const changed = error.body as PreviewChanged;
        stage.value = { ...now, preview: changed.preview, changed: changed.differences };
      } else if (error.status === 410) await load(preview.evict);
      else setFailure(error);
    }
    setBusy(false);
  };
  if (!preview)
    return (
      <>
        <div class="inside">
          <h2>{failure ? "This cannot be previewed" : "Looking at what would happen"}</h2>
          {failure ? <Wrong failure={failure} /> : <Lines rows={4} />}
        </div>
        <footer>
          <button class="button" onClick={close} autofocus>
            Cancel
          </button>
        </footer>
      </>
    );
  const lacks = preview.missingRights.length > 0;
  const ready = !busy && !lacks && (!preview.typeToConfirm || typed === preview.typeToConfirm);
  return (
    <form onSubmit={(event) => void confirm(event)}>
      <div class="inside">
        <h2>{preview.sentence}</h2>
        {choosesScope && <ScopeField scope={wanted.scope} settings={settings.data} onChange={(scope) => void load(preview.evict, scope)} />}
        {now.changed.length > 0 && (
          <ul class="rows" role="alert">
            {now.changed.map((text) => (
              <li key={text}>
                <span>
                  <Triangle /> Changed since you looked: {text}
                </span>
                <span />
              </li>
            ))}
          </ul>
        )}
        <Effects preview={preview} />
        {lacks && (
          <p class="small" role="alert">
            <Triangle /> You lack: {preview.missingRights.join(", ")}. Somebody who may: <span class="mono">{preview.command}</span>
          </p>
        )}
        {failure && <Wrong failure={failure} />}
        {!lacks && (
          <label class="field">
            <span>Why (kept with the record)</span>
            <input maxLength={500} value={why} onInput={(event) => setWhy(event.currentTarget.value)} />
          </label>
        )}
        {preview.typeToConfirm && !lacks && (
          <label class="field">
            <span>
              This affects more than a tenth of the nodes. Type <b>{preview.typeToConfirm}</b> to go on
            </span>
            <input value={typed} autocomplete="off" spellcheck={false} onInput={(event) => setTyped(event.currentTarget.value)} />
          </label>
        )}
        <p class="dim small" style={{ marginTop: "12px" }}>
          Done as <b>{me.value?.user}</b>, with your own rights. Preview of {clock(preview.atS, true)}; you are asked again if something changes before you confirm.{" "}
          <button type="button" class="link" onClick={() => void copy(preview.command)}>
            Copy the command
          </button>
        </p>
      </div>
      <footer>
        {wanted.act === "colocation-off" && (
          <label class="check">
            <input type="checkbox" checked={preview.evict} disabled={busy} onChange={(event) => void load(event.currentTarget.checked)} />
            Also evict the pods that use what is lent
          </label>
        )}
        <button class="button" type="button" onClick={close} ref={cancel}>
          Cancel
        </button>
        <button class="button main" type="submit" disabled={!ready}>
          {preview.verb}
        </button>
      </footer>
    </form>
  );
}

function Names({ names, inAll }: { names: string[]; inAll?: number }): JSX.Element {
  const first = names.slice(0, 8);
  const more = (inAll ?? names.length) - first.length;
  return (
    <span class="mono small">
      {first.join(", ")}
      {more > 0 && ` and ${count(more)} more`}
    </span>
  );
}

function Effects({ preview }: { preview: Preview }): JSX.Element {
  const rows: [ComponentChildren, ComponentChildren][] = [];
  if (preview.takenBackMilli || preview.takenBackBytes) rows.push(["Lent, taken back at once", `${cores(preview.takenBackMilli)} cores, ${gib(preview.takenBackBytes)} GiB`]);
  if (preview.nodesInAll) rows.push([<Names names={preview.nodes} inAll={preview.nodesInAll} />, plural(preview.nodesInAll, "node")]);
  for (const change of preview.changes) rows.push([<span class="mono small">{change.field}</span>, <span class="mono small">{`${change.before || "not set"} → ${change.after || "not set"}`}</span>]);
  if (preview.podsThatGo.length) rows.push([<Names names={preview.podsThatGo.map((pod) => pod.pod)} />, `${plural(preview.podsThatGo.length, "pod")} evicted`]);
  if (preview.podsThatStayInAll) rows.push([<Names names={preview.podsThatStay} inAll={preview.podsThatStayInAll} />, preview.podsThatStayInAll === 1 ? "1 batch pod stays" : `${plural(preview.podsThatStayInAll, "batch pod")} stay`]);
  if (preview.podsSparedInAll) rows.push([<Names names={preview.podsSpared} inAll={preview.podsSparedInAll} />, `${count(preview.podsSparedInAll)} of the cluster spared`]);
  for (const [pod, reason] of Object.entries(preview.budgets)) rows.push([<span class="mono small">{pod}</span>, reason]);
  const { whatIf, history } = preview;
  if (whatIf) {
    rows.push([`Nodes would lend, by their last reports`, `${cores(whatIf.lentMilliBefore)} → ${cores(whatIf.lentMilliAfter)} cores`]);
    if (whatIf.lentBytesBefore !== whatIf.lentBytesAfter) rows.push(["", `${gib(whatIf.lentBytesBefore)} → ${gib(whatIf.lentBytesAfter)} GiB`]);
    if (whatIf.evictionsInAll) rows.push([<Names names={whatIf.evictions} inAll={whatIf.evictionsInAll} />, `${plural(whatIf.evictionsInAll, "pod")} agents would evict`]);
  }
  if (history) {
    if (history.error) rows.push(["On recorded load", history.error]);
    else rows.push(["On recorded load", history.sentence], ...history.figures.map((figure): [string, string] => [figure.name, `${figure.before} → ${figure.after}`]));
  }
  return (
    <>
      <ul class="rows">
        {rows.map(([name, value], i) => (
          <li key={i}>
            <span>{name}</span>
            <span>{value}</span>
          </li>
        ))}
      </ul>
      {[preview.cannotBeUndone, whatIf?.note ?? "", ...preview.notes].filter(Boolean).map((note) => (
        <p key={note} class="dim small" style={{ marginTop: "4px" }}>
          {note[0]!.toUpperCase() + note.slice(1)}
          {/[.!?]$/.test(note) ? "" : "."}
        </p>
      ))}
    </>
  );
}

const DONE: Record<string, string> = { waiting: "waits", running: "…", done: "✓ done", failed: "△ failed" };

function Progress({ act: first }: { act: Act }): JSX.Element {
  const [heard, setHeard] = useState<Act | null>(null);
  useEffect(() => listen(`act/${first.id}`, (data) => setHeard(data as Act)), []);
  // What happened before the stream was there, or while it was away.
  const loaded = useLoaded<Act>(heard && heard.state !== "running" ? null : `acts/${encodeURIComponent(first.id)}`, 2);
  const act = heard && heard.state !== "running" ? heard : loaded.data && loaded.data.state !== "running" ? loaded.data : (heard ?? loaded.data ?? first);
  const running = act.state === "running";
  useEffect(() => void (said.value = act.sentence), [act.sentence]);
  return (
    <>
      <div class="inside">
        <h2>{act.sentence}</h2>
        <ul class="rows">
          {act.steps.map((step) => (
            <li key={step.title}>
              <span class={step.state === "waiting" ? "dim" : ""}>{step.title}</span>
              <span class="dim nowrap">
                {step.of !== null && step.of > 1 && `${count(step.done)} of ${count(step.of)} `}
                {DONE[step.state] ?? step.state}
              </span>
            </li>
          ))}
          {Object.entries(act.refused).map(([name, reason]) => (
            <li key={name}>
              <span class="mono small">{name}</span>
              <span>△ {reason}</span>
            </li>
          ))}
        </ul>
        {act.evicted.length > 0 && (
          <p class="small dim">
            Evicted: <Names names={act.evicted} />
          </p>
        )}
        {act.hiddenPods > 0 && <p class="small dim">{plural(act.hiddenPods, "pod")} you may not see.</p>}
        <p class="dim small" style={{ marginTop: "8px" }}>
          {running ? "You can close this; it goes on, and Changes shows it." : act.undoNote || `By ${act.who}, ${clock(act.atS, true)}${act.why ? `: ${act.why}` : ""}.`}
        </p>
      </div>
      <footer>
        {act.canUndo && !running && (
          <button class="button" onClick={() => void undo(act.id)}>
            Undo…
          </button>
        )}
        <button class="button main" onClick={close} autofocus>
          Close
        </button>
      </footer>
    </>
  );
}
