// The frame of all pages: the bar at the top, the page, keys, and who is signed in.

import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { call, Failure, me, signedOut } from "./api";
import { Finder, finding } from "./find";
import { count } from "./format";
import { connection, follow, heardS, overview } from "./live";
import { HelpDialog, helping, onKey } from "./keys";
import { clock } from "./format";
import { Empty, Head, said, shown, Triangle, Wrong } from "./parts";
import { ActDialog } from "./acts";
import { path } from "./router";
import { SignIn } from "./sign_in";
import { toggle } from "./theme";
import type { Me } from "./shapes";
import { Changes } from "./pages/changes";
import { Health } from "./pages/health";
import { Node } from "./pages/node";
import { Nodes } from "./pages/nodes";
import { Overview } from "./pages/overview";
import { Pending } from "./pages/pending";
import { Gang, Pod } from "./pages/pod";
import { Quota, Quotas } from "./pages/quotas";
import { Service, Services } from "./pages/services";
import { Worth } from "./pages/worth";

const PAGES = [
  ["Overview", "/"],
  ["Pending", "/pending"],
  ["Nodes", "/nodes"],
  ["Services", "/services"],
  ["Quotas", "/quotas"],
  ["Changes", "/changes"],
  ["Worth", "/worth"],
] as const;
const ICONS: Record<string, string> = {
  Overview: "M2 9 9 3l7 6v7H2Z",
  Pending: "M5 2h8v3l-3 4 3 4v3H5v-3l3-4-3-4Z",
  Nodes: "M2 3h5v5H2ZM11 3h5v5h-5ZM2 11h5v5H2ZM11 11h5v5h-5Z",
  Services: "M2 10h3l2-5 4 9 2-4h3",
  More: "M3 9h.1M9 9h.1M15 9h.1",
};
const failed = signal<Failure | null>(null);
const more = signal(false);

async function enter(): Promise<void> {
  try {
    const answer = await call<Me>("me");
    failed.value = null;
    signedOut.value = null;
    me.value = answer;
  } catch (failure) {
    if (!(failure instanceof Failure)) throw failure;
    failed.value = failure;
    if (failure.status !== 401) setTimeout(enter, 5000);
  }
}

function page(): JSX.Element {
  const parts = path.value.split("/").filter(Boolean).map(decodeURIComponent);
  const [first, ...rest] = parts;
  const key = path.value;
  switch (`${first ?? ""}/${rest.length}`) {
    case "/0":
      return <Overview />;
    case "pending/0":
      return <Pending />;
    case "nodes/0":
      return <Nodes />;
    case "nodes/1":
      return <Node key={key} name={rest[0]!} />;
    case "pods/2":
      return <Pod key={key} namespace={rest[0]!} name={rest[1]!} />;
    case "gangs/2":
      return <Gang key={key} namespace={rest[0]!} name={rest[1]!} />;
    case "services/0":
      return <Services />;
    case "services/3":
      return <Service key={key} namespace={rest[0]!} kind={rest[1]!} name={rest[2]!} />;
    case "quotas/0":
      return <Quotas />;
    case "quotas/1":
      return <Quota key={key} name={rest[0]!} />;
    case "changes/0":
    case "changes/1":
      return <Changes id={rest[0] ?? ""} />;
    case "worth/0":
      return <Worth />;
    case "health/0":
      return <Health />;
  }
  return (
    <>
      <Head title="Not found" sentence="There is no such page." />
      <section class="card">
        <Empty title={path.value}>
          <a class="link" href="/">
            To the overview
          </a>
        </Empty>
      </section>
    </>
  );
}

/** Which of the pages in the bar the viewer is on. */
function section(): string {
  const first = `/${path.value.split("/")[1] ?? ""}`;
  if (first === "/pods" || first === "/gangs") return "/pending";
  return first;
}

export function App(): JSX.Element {
  useEffect(() => {
    void enter();
    follow();
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  if (signedOut.value) return <SignIn failure={signedOut.value} onEntered={enter} />;
  return (
    <>
      <a class="skip" href="#main">
        Skip to content
      </a>
      <Bar />
      <main id="main" tabIndex={-1}>
        <Banner />
        {failed.value && !me.value ? (
          <>
            <Head title="koord" sentence="The console cannot be shown." />
            <section class="card">
              <Wrong failure={failed.value} onRetry={() => void enter()} />
            </section>
          </>
        ) : (
          me.value && page()
        )}
      </main>
      <Bottom />
      {finding.value && <Finder />}
      {helping.value && <HelpDialog />}
      <ActDialog />
      <div class="unseen" role="status" aria-live="polite">
        {said.value}
      </div>
      {shown.value && (
        <div class="said" aria-hidden="true">
          {shown.value}
        </div>
      )}
    </>
  );
}

function Banner(): JSX.Element | null {
  const stale = overview.value?.staleSinceAtS;
  if (stale)
    return (
      <div class="banner" role="status">
        <Triangle full />
        <span>
          Figures are as of {clock(stale, true)}: the API server does not answer. {overview.value?.staleWhy}
        </span>
      </div>
    );
  if (connection.value !== "lost" || !heardS.value) return null;
  return (
    <div class="banner" role="status">
      <Triangle />
      <span>Figures are as of {clock(heardS.value, true)}: the console does not answer. Is koord console still running? Tried again every few seconds.</span>
    </div>
  );
}

function Bar(): JSX.Element {
  const problems = overview.value?.attentionInAll ?? 0;
  const critical = overview.value?.level === "critical";
  const pending = overview.value?.pending.total ?? 0;
  const on = section();
  return (
    <header class="top">
      <div>
        <a class="brand" href="/" aria-label="koord, overview">
          <svg width="18" height="18" viewBox="0 0 18 18" aria-hidden="true">
            <rect x="1" y="1" width="16" height="16" rx="3" fill="none" stroke="var(--text)" stroke-width="1.5" />
            <rect x="4" y="9" width="10" height="5" rx="1" fill="var(--prod)" />
            <rect x="4" y="4" width="10" height="4" rx="1" fill="var(--batch)" />
          </svg>
          koord
        </a>
        {me.value && (
          <span class="cluster" title={`${me.value.cluster}, as ${me.value.user}`}>
            {me.value.cluster}
          </span>
        )}
        <nav class="pages" aria-label="Pages">
          {PAGES.map(([name, to]) => (
            <a key={to} href={to} aria-current={on === to ? "page" : undefined}>
              {name}
              {name === "Pending" && pending > 0 && <small>{count(pending)}</small>}
            </a>
          ))}
        </nav>
        <div class="tools">
          <button class="box find" onClick={() => (finding.value = true)}>
            <svg width="13" height="13" viewBox="0 0 13 13" fill="none" stroke="currentColor" stroke-width="1.5" aria-hidden="true">
              <circle cx="5.5" cy="5.5" r="4" />
              <path d="m9 9 3 3" />
            </svg>
            <b class="unseen">Find </b>
            <span>Node, pod, quota</span>
            <kbd aria-hidden="true">/</kbd>
          </button>
          <a class="box pill" href="/health" aria-label={problems ? `Health: ${problems} need attention` : "Health"}>
            {problems ? (
              <>
                <Triangle full={critical} />
                {count(problems)}
              </>
            ) : (
              <svg width="14" height="14" viewBox="0 0 14 14" fill="none" stroke="currentColor" stroke-width="1.5" aria-hidden="true">
                <path d="m3 7.5 2.5 2.5L11 4" stroke-linecap="round" stroke-linejoin="round" />
              </svg>
            )}
          </a>
          <button class="box icon" aria-label="Light or dark" onClick={toggle}>
            <svg width="14" height="14" viewBox="0 0 14 14" aria-hidden="true">
              <circle cx="7" cy="7" r="5.2" fill="none" stroke="currentColor" stroke-width="1.5" />
              <path d="M7 1.8a5.2 5.2 0 0 1 0 10.4Z" fill="currentColor" />
            </svg>
          </button>
        </div>
      </div>
    </header>
  );
}

function Icon({ of }: { of: string }): JSX.Element {
  return (
    <svg width="18" height="18" viewBox="0 0 18 18" fill="none" stroke="currentColor" stroke-width={of === "More" ? 2.6 : 1.5} stroke-linejoin="round" stroke-linecap="round" aria-hidden="true">
      <path d={ICONS[of]} />
    </svg>
  );
}

function Bottom(): JSX.Element {
  const on = section();
  useEffect(() => void (more.value = false), [path.value]);
  const others = [...PAGES.slice(4), ["Health", "/health"]] as const;
  return (
    <>
      <nav class="bottom" aria-label="Pages below">
        {PAGES.slice(0, 4).map(([name, to]) => (
          <a key={to} href={to} aria-current={on === to ? "page" : undefined}>
            <Icon of={name} />
            {name}
          </a>
        ))}
        <button aria-expanded={more.value} aria-current={others.some(([, to]) => to === on) ? "page" : undefined} onClick={() => (more.value = !more.value)}>
          <Icon of="More" />
          More
        </button>
        {more.value && (
          <div class="others">
            {others.map(([name, to]) => (
              <a key={to} href={to}>
                {name}
              </a>
            ))}
          </div>
        )}
      </nav>
    </>
  );
}
