// For viewers who are not signed in: how to get in, and a place for a token.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { call, Failure } from "./api";
import { Wrong } from "./parts";

export function SignIn({ failure, onEntered }: { failure: Failure; onEntered: () => Promise<void> }): JSX.Element {
  const [token, setToken] = useState("");
  const [wrong, setWrong] = useState<Failure | null>(null);
  useEffect(() => void (document.title = "Sign in · koord"), []);
  const enter = async (event: Event): Promise<void> => {
    event.preventDefault();
    try {
      await call("/login", { method: "POST", body: JSON.stringify({ token }), headers: { "Content-Type": "application/json" } });
      setToken("");
      await onEntered();
    } catch (error) {
      if (error instanceof Failure) setWrong(error);
    }
  };
  return (
    <main class="enter" id="main" tabIndex={-1}>
      <h1>You are not signed in.</h1>
      <p class="dim" style={{ margin: "8px 0 16px" }}>
        {failure.remedy ? `${failure.remedy[0]!.toUpperCase()}${failure.remedy.slice(1)}.` : "Your session has ended."}
      </p>
      <form class="card body" onSubmit={(event) => void enter(event)}>
        <label class="field">
          <span>Bearer token of your own user</span>
          <input type="password" autocomplete="off" spellcheck={false} value={token} onInput={(event) => setToken(event.currentTarget.value)} required />
        </label>
        {wrong && <Wrong failure={wrong} />}
        <p style={{ marginTop: "12px" }}>
          <button class="button main" type="submit">
            Sign in
          </button>
        </p>
      </form>
    </main>
  );
}
