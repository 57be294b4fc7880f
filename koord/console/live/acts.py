"""Acts of viewers over HTTP: preview, confirm, progress, record, undo.

Everything is read and written with the viewer's own credentials, so that the audit log of the API server names the
viewer; the console's own rights do nothing here. An act is recorded before its first write and again when it has
ended, in the ConfigMap `koord-console-acts` and as an Event.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from koord.api.kubernetes.meta import ObjectReference
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.console import acts, rights
from koord.console.acts import StoredAct
from koord.console.live.act_plans import Plan, Planner
from koord.console.live.commands import Commands
from koord.console.live.guard import Refused
from koord.console.live.server import Answer, Ask, Server, decoded
from koord.console.live.viewers import Viewer
from koord.console.live.world import World
from koord.console.rights import Right
from koord.console.shapes import Act, ActRequest, ActStep, Preview, PreviewChanged, PreviewRequest
from koord.kube.background_task import background_task
from koord.kube.errors import ApiError, Forbidden
from koord.kube.events import EventRecorder
from koord.operate.live.config_maps import rewrite_values

log = logging.getLogger(__name__)

KEY: Final = "Idempotency-Key"
LONGEST_KEY: Final = 200
MOST_PREVIEWS: Final = 500
MOST_PREVIEWS_EACH: Final = 20
MOST_KEYS: Final = 1000
MOST_RUNNING: Final = 16
MOST_FINISHED: Final = 200
PROGRESS_S: Final = 1.0
REASON: Final = "ConsoleAct"
_READS: Final = frozenset({"get", "list"})


@dataclass(slots=True)
class Previewed:
    """A preview that can be confirmed. `plan` is what it was made of."""

    viewer: Viewer
    request: PreviewRequest
    preview: Preview
    plan: Plan
    undo_of: str
    until_s: float
    is_used: bool = False


class Acts:
    """Previews and acts of all viewers. As a context manager: at its end, acts under way are cancelled and recorded."""

    def __init__(self, server: Server, world: World, commands: Commands) -> None:
        self._world, self._commands = world, commands
        self._previews: OrderedDict[str, Previewed] = OrderedDict()
        self._by_key: OrderedDict[tuple[str, str], tuple[str, str]] = OrderedDict()
        "By viewer and Idempotency-Key: the preview and the act."
        self._acts: OrderedDict[str, StoredAct] = OrderedDict()
        "Of this process."
        self._tasks: dict[str, asyncio.Task[None]] = {}
        server.add("POST", "/previews", self._preview)
        server.add("POST", "/acts", self._confirm)
        server.add("GET", "/acts/{id}", self._get)
        server.add("POST", "/acts/{id}/undo", self._undo)
        server.may_follow["act"] = self._may_follow

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # Previews.

    async def _preview(self, ask: Ask) -> Preview:
        return await self._previewed(ask, await _body(ask, PreviewRequest), "")

    async def _undo(self, ask: Ask) -> Preview:
        await _body(ask, _Nothing)
        record = self._record(ask.part("id"))
        if record is None:
            raise Refused(404, f"act {ask.part('id')[:60]}", "no act has this id", "see /changes")
        act = self._as_of(record.act)
        if record.undo is None or not act.can_undo:
            why = act.undo_note or ("it is under way" if act.state == "running" else "it cannot be undone")
            why = f"it was undone by act {act.undone_by}" if act.undone_by else why
            raise Refused(409, f"act {act.id}", why)
        request = msgspec.structs.replace(record.undo, why=f"undo of act {act.id}")
        return await self._previewed(ask, request, act.id)

    async def _previewed(self, ask: Ask, request: PreviewRequest, undo_of: str) -> Preview:
        viewer = ask.viewer
        self._forget_old()
        own = [key for key, previewed in self._previews.items() if previewed.viewer.key == viewer.key]
        for key in own[: max(0, len(own) - MOST_PREVIEWS_EACH + 1)]:
            del self._previews[key]
        plan, missing = await self._planned(viewer, request)
        preview = self._shown(request, plan, missing)
        self._previews[preview.id] = Previewed(
            viewer, request, preview, plan, undo_of, time.monotonic() + acts.PREVIEW_S
        )
        while len(self._previews) > MOST_PREVIEWS:
            self._previews.popitem(last=False)
        return preview

    async def _planned(self, viewer: Viewer, request: PreviewRequest) -> tuple[Plan, tuple[str, ...]]:
        """Raises `Refused` if the viewer may not even see what would happen, or if the act makes no sense."""
        try:
            acts.checked(request)
            wanted = rights.rights_of(request.act, request.scope)
            lacking = await viewer.lacks(wanted)
            if any(isinstance(right, Right) and right.verb in _READS for right in lacking):
                raise Refused(
                    403, request.act, f"{viewer.user} lacks: {', '.join(map(str, lacking))}", "ask for these rights"
                )
            plan = await Planner(viewer, self._world, self._commands).plan(request)
        except Forbidden as error:
            raise Refused(403, request.act, str(error), "ask for this right") from None
        except BadInput as error:
            raise Refused(422, request.act, str(error)) from None
        if request.evict:
            namespaces = sorted({pod.pod.partition("/")[0] for pod in plan.pods_that_go})
            lacking += await viewer.lacks(rights.evictions_in(namespaces))
        return plan, tuple(map(str, lacking))

    def _shown(self, request: PreviewRequest, plan: Plan, missing: tuple[str, ...]) -> Preview:
        now_s, most = time.time(), acts.MOST_NAMED
        return Preview(
            id=secrets.token_urlsafe(18),
            act=request.act,
            scope=request.scope,
            evict=request.evict,
            settings=request.settings,
            why=request.why,
            sentence=plan.sentence,
            verb=plan.verb,
            nodes=tuple(plan.nodes[:most]),
            nodes_in_all=len(plan.nodes),
            taken_back_milli=plan.taken_back_milli,
            taken_back_bytes=plan.taken_back_bytes,
            pods_that_go=tuple(plan.pods_that_go),
            pods_that_stay=tuple(plan.pods_that_stay[:most]),
            pods_that_stay_in_all=len(plan.pods_that_stay),
            pods_spared=tuple(plan.pods_spared[:most]),
            pods_spared_in_all=len(plan.pods_spared),
            budgets=dict(plan.budgets),
            changes=tuple(plan.changes),
            what_if=plan.what_if,
            history=plan.history,
            missing_rights=missing,
            cannot_be_undone=plan.cannot_be_undone,
            type_to_confirm=acts.must_type(self._world.cluster, len(plan.nodes), len(self._world.table.row_of)),
            command=acts.command_of(request),
            at_s=now_s,
            expires_at_s=now_s + acts.PREVIEW_S,
            notes=tuple(plan.notes),
        )

    def _forget_old(self) -> None:
        """Previews that are past their time are kept a while, so that their confirmation is told why it is refused."""
        now_s = time.monotonic()
        for key in [key for key, one in self._previews.items() if now_s > one.until_s + acts.PREVIEW_S]:
            del self._previews[key]

    # Confirmation.

    async def _confirm(self, ask: Ask) -> Answer:
        viewer, wanted = ask.viewer, await _body(ask, ActRequest)
        key = ask.request.headers.get(KEY, "")
        if not key or len(key) > LONGEST_KEY:
            raise Refused(400, f"header {KEY}", "is missing or too long", "send one that is new for each act")
        done = self._by_key.get((viewer.key, key))
        if done is not None:
            if done[0] != wanted.preview:
                raise Refused(422, f"header {KEY}", "was used for another act", "send a new one")
            return Answer(await self._visible(viewer, self._act(done[1])), 202)
        previewed = self._previews.get(wanted.preview)
        if previewed is None or previewed.viewer.key != viewer.key:
            raise Refused(404, "preview", "you have no preview of this id", "preview the act again")
        if previewed.is_used:
            raise Refused(410, "preview", "was used already", "preview the act again")
        if time.monotonic() > previewed.until_s:
            raise Refused(410, "preview", "is older than two minutes", "preview the act again")
        if previewed.preview.type_to_confirm and wanted.typed.strip() != previewed.preview.type_to_confirm:
            word = previewed.preview.type_to_confirm
            raise Refused(400, "typed", f"many nodes are affected: {word!r} must be typed to confirm")
        if len(self._tasks) >= MOST_RUNNING:
            raise Refused(429, "acts", f"{MOST_RUNNING} acts are under way", "wait until one of them has ended")
        # From here on, no second request confirms the same preview.
        previewed.is_used = True
        request = previewed.request
        if wanted.why:
            request = msgspec.structs.replace(request, why=wanted.why)
        viewer.forget_rights()
        plan, missing = await self._planned(viewer, request)
        if missing:
            raise Refused(403, request.act, f"{viewer.user} lacks: {', '.join(missing)}", "ask for these rights")
        changed = acts.differences(previewed.plan.basis, plan.basis)
        if changed:
            return Answer(self._changed(previewed, request, plan, changed), 409)
        act = await self._begin(viewer, request, plan, previewed)
        self._by_key[viewer.key, key] = wanted.preview, act.id
        while len(self._by_key) > MOST_KEYS:
            self._by_key.popitem(last=False)
        return Answer(act, 202)

    def _changed(
        self, previewed: Previewed, request: PreviewRequest, plan: Plan, changed: tuple[str, ...]
    ) -> PreviewChanged:
        preview = self._shown(request, plan, ())
        self._previews[preview.id] = Previewed(
            previewed.viewer, request, preview, plan, previewed.undo_of, time.monotonic() + acts.PREVIEW_S
        )
        return PreviewChanged(
            object="preview",
            cause="objects changed since the preview: " + "; ".join(changed[:5]),
            remedy="look at the new preview and confirm it",
            preview=preview,
            differences=changed,
        )

    # Doing it.

    async def _begin(self, viewer: Viewer, request: PreviewRequest, plan: Plan, previewed: Previewed) -> Act:
        """Records the act; raises what keeps it from being recorded, and does nothing then."""
        act_id = secrets.token_hex(6)
        steps = [(step.title, step.of) for step in plan.steps]
        act = acts.new_act(act_id, request, viewer.user, time.time(), steps, previewed.undo_of)
        record = StoredAct(act, plan.undo)
        await self._write(viewer, record)
        self._put(record)
        task = asyncio.create_task(self._do(viewer, plan, record), name=f"act/{act_id}")
        self._tasks[act_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(act_id, None))
        return act

    async def _do(self, viewer: Viewer, plan: Plan, record: StoredAct) -> None:
        act_id = record.act.id
        current = [0]

        def begin(step: int) -> None:
            current[0] = step
            self._progress(act_id, plan, step)

        async def tell() -> None:
            while True:
                await asyncio.sleep(PROGRESS_S)
                self._progress(act_id, plan, current[0])

        async with background_task(tell(), name=f"act/{act_id}/progress"):
            error, interrupted = await _carried_out(act_id, plan, begin)
        await asyncio.shield(self._end(viewer, plan, act_id, error, interrupted=interrupted))

    async def _end(self, viewer: Viewer, plan: Plan, act_id: str, error: str, *, interrupted: bool) -> None:
        record = self._acts[act_id]
        done, undo = plan.done, plan.undo
        note = plan.cannot_be_undone if undo is not None else plan.cannot_be_undone or "there is no opposite"
        self._progress(act_id, plan, len(plan.steps) if not error else -1)
        act = acts.ended(
            self._acts[act_id].act,
            time.time(),
            evicted=done.evicted,
            refused=done.refused,
            error=error,
            can_undo=undo is not None,
            note=note,
        )
        if interrupted:
            act = msgspec.structs.replace(act, state="interrupted")
        record = msgspec.structs.replace(record, act=act)
        self._put(record)
        if act.undo_of and act.state == "done" and (undone := self._acts.get(act.undo_of)) is not None:
            self._acts[act.undo_of] = msgspec.structs.replace(
                undone, act=msgspec.structs.replace(undone.act, undone_by=act.id, can_undo=False)
            )
        try:
            await self._write(viewer, record)
            await self._say(viewer, act)
        except (ApiError, BadInput) as failure:
            log.error("the end of act %s could not be recorded: %s", act_id, failure)

    async def _write(self, viewer: Viewer, record: StoredAct) -> None:
        await rewrite_values(viewer.client, names.CONFIGMAP_CONSOLE_ACTS, lambda stored: acts.recorded(stored, record))

    async def _say(self, viewer: Viewer, act: Act) -> None:
        """The Event, by the viewer."""
        regarding = ObjectReference("v1", "ConfigMap", names.NAMESPACE_KOORDINATOR, names.CONFIGMAP_CONSOLE_ACTS)
        why = f": {act.why}" if act.why else ""
        async with EventRecorder(viewer.client, controller="koord-console") as events:
            events.record(
                regarding, REASON, f"{act.sentence}{why}", type="Normal" if act.state == "done" else "Warning"
            )

    def _progress(self, act_id: str, plan: Plan, step: int) -> None:
        """`step` runs, those before it are done; -1: the present state is kept, with new counts."""
        record = self._acts[act_id]
        act = record.act
        steps = []
        for number, (shown, one) in enumerate(zip(act.steps, plan.steps, strict=True)):
            state: Any = (
                shown.state if step < 0 else "done" if number < step else "running" if number == step else shown.state
            )
            count = one.count() if one.of is not None else int(state == "done")
            steps.append(ActStep(title=shown.title, done=count, of=shown.of, state=state))
        changed = msgspec.structs.replace(
            act, steps=tuple(steps), evicted=tuple(plan.done.evicted), refused=dict(plan.done.refused)
        )
        if changed != act:
            self._put(msgspec.structs.replace(record, act=changed))

    def _put(self, record: StoredAct) -> None:
        self._acts[record.act.id] = record
        self._acts.move_to_end(record.act.id)
        while len(self._acts) > MOST_FINISHED + MOST_RUNNING:
            oldest = next(key for key in self._acts if key not in self._tasks)
            del self._acts[oldest]
        self._world.publish(f"act/{record.act.id}", msgspec.json.encode(record.act), time.time())

    # What became of it.

    async def _get(self, ask: Ask) -> Act:
        record = self._record(ask.part("id"))
        if record is None:
            raise Refused(404, f"act {ask.part('id')[:60]}", "no act has this id", "see /changes")
        return await self._visible(ask.viewer, self._as_of(record.act))

    def _record(self, act_id: str) -> StoredAct | None:
        own = self._acts.get(act_id)
        if own is not None:
            return own
        text = self._world.acts.get(act_id)
        return acts.stored_act(text) if text is not None else None

    def _act(self, act_id: str) -> Act:
        record = self._record(act_id)
        if record is None:
            raise Refused(404, f"act {act_id[:60]}", "its record is gone", "see /changes")
        return record.act

    def _as_of(self, act: Act) -> Act:
        return acts.as_of(act, time.time(), is_under_way=act.id in self._tasks)

    async def _visible(self, viewer: Viewer, act: Act) -> Act:
        """Without names of pods that the viewer may not list."""
        if viewer.user == act.who:
            return act
        allowed = await viewer.namespaces(self._world.namespaces())
        if allowed is None:
            return act
        return acts.redacted(act, {namespace: namespace in allowed for namespace in acts.namespaces_of(act)})

    async def _may_follow(self, ask: Ask, act_id: str) -> str:
        """Events of an act name its pods, for all readers alike. Why a viewer may not read them; empty if it may."""
        record = self._record(act_id)
        if record is None or record.act.who == ask.viewer.user or await ask.viewer.may(Right("list", "pods")):
            return ""
        return f"{ask.viewer.user} lacks: {Right('list', 'pods')}"


class _Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request that says nothing."""


async def _body(ask: Ask, type_: type[Any]) -> Any:
    return decoded(await ask.request.read(), type_)


async def _carried_out(act_id: str, plan: Plan, begin: Callable[[int], None]) -> tuple[str, bool]:
    """Why the act failed, empty if it did not; and whether it was interrupted."""
    try:
        async with asyncio.timeout(acts.ACT_WITHIN_S):
            await plan.do(begin)
    except TimeoutError:
        return f"it took longer than {acts.ACT_WITHIN_S:g} s", False
    except asyncio.CancelledError:
        return "the console stopped", True
    except Exception as error:  # the act ends, the server stays
        causes = [*_causes(error)]
        if all(isinstance(cause, ApiError | BadInput) for cause in causes):
            return "; ".join(dict.fromkeys(map(str, causes))), False
        log.exception("act %s failed", act_id)
        return "the console failed; see its log", False
    return "", False


def _causes(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for cause in error.exceptions:
            yield from _causes(cause)
    else:
        yield error
