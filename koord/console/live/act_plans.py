"""What each act would do, and how it is done: by the functions behind `koord colocation`, with the viewer's own client.

A plan is made for the preview, and again for the confirmation: what the user agreed to is compared with what would
happen by then. Nothing here writes before `Plan.do` is called.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from koord.api.configuration.slo_config_types import COLOCATION
from koord.api.kinds import POD_MIGRATION_JOBS, PODS
from koord.api.protocol import names
from koord.api.protocol.annotations.colocation import COLOCATION_STRATEGY
from koord.api.protocol.crd.pod_migration_job import TERMINAL, PodMigrationJobPhase
from koord.api.text.counted import counted
from koord.api.text.quantity import QuantityError, value
from koord.api.text.selector import LabelMatcher, parse_labels
from koord.console import acts
from koord.console.acts import ActError, Affected, Choice, changed_fields, policy_choices
from koord.console.live.commands import Commands
from koord.console.live.guard import Refused
from koord.console.live.viewers import Viewer
from koord.console.live.world import World
from koord.console.numbers import bytes_text, cores
from koord.console.shapes import (
    HistoryFigure,
    HistoryWhatIf,
    PreviewPod,
    PreviewRequest,
    Scope,
    Setting,
    SettingChange,
    WhatIf,
)
from koord.kube.client import Client
from koord.kube.errors import ApiError, EvictionRefused, NotFound
from koord.manager import policy_switch, threshold_switch
from koord.manager.colocation_switch import node_annotation, selector_of
from koord.manager.policy_switch import PolicyChoice
from koord.manager.rollout.features import Feature, feature_of
from koord.manager.rollout.state import Limits, Rollout, parse
from koord.operate.live import colocation, policies, rollouts, thresholds
from koord.operate.live.break_glass import FIELD_MANAGER
from koord.operate.live.colocation import Done, Evict, each_of
from koord.operate.live.config_maps import config_map

EVICT_WITHIN_S: Final = 120.0
MOVE_LOOK_S: Final = 1.0
MOVE_WITHIN_S: Final = 330.0
MOST_BUDGETS: Final = 100
MOST_EVICTIONS: Final = 50
CONFIG: Final = names.CONFIGMAP_SLO_CONTROLLER
_FIGURES: Final = {
    "servicesPercent": "CPU used by services, %",
    "batchPercent": "CPU used by batch, %",
    "violatedPercent": "minutes of nodes above the mark, %",
    "gotPercent": "CPU that batch got of what it wanted, %",
    "evicted": "pods evicted",
    "finished": "batch pods finished",
    "waitP50S": "wait of batch pods, median, s",
    "waitP99S": "wait of batch pods, 99th percentile, s",
}
_MODES: Final = ("ReservationFirst", "EvictDirectly")


@dataclass(slots=True)
class Step:
    title: str
    of: int | None = None
    count: Callable[[], int] = lambda: 0


async def _nothing(begin: Callable[[int], None]) -> None:
    begin(0)


@dataclass(slots=True, kw_only=True)
class Plan:
    sentence: str
    verb: str
    basis: Mapping[str, Affected]
    "What the user agrees to."
    steps: Sequence[Step]
    do: Callable[[Callable[[int], None]], Awaitable[None]]
    "Called with what begins a step."
    done: Done = field(default_factory=Done)
    nodes: Sequence[str] = ()
    taken_back_milli: int = 0
    taken_back_bytes: int = 0
    pods_that_go: Sequence[PreviewPod] = ()
    pods_that_stay: Sequence[str] = ()
    pods_spared: Sequence[str] = ()
    budgets: Mapping[str, str] = field(default_factory=dict)
    changes: Sequence[SettingChange] = ()
    what_if: WhatIf | None = None
    history: HistoryWhatIf | None = None
    cannot_be_undone: str = ""
    undo: PreviewRequest | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Planner:
    """Makes plans for one viewer."""

    viewer: Viewer
    world: World
    commands: Commands

    @property
    def client(self) -> Client:
        return self.viewer.client

    async def plan(self, request: PreviewRequest) -> Plan:
        """Raises what keeps the act from being done."""
        if request.act in acts.SWITCHES:
            return await self._switch(request)
        if request.act == "thresholds":
            return await self._thresholds(request)
        if request.act == "policy":
            return await self._policy(request)
        if request.act == "move-pod":
            return await self._move(request)
        return await self._rollout(request)

    # The switch.

    async def _switch(self, request: PreviewRequest) -> Plan:
        on, client = request.act == "colocation-on", self.client
        scope = colocation.Scope(request.scope.nodes, _pool(request.scope))
        evict = Evict(EVICT_WITHIN_S) if request.evict else None
        planned = await colocation.plan(client, scope, on=on, evict=evict)
        if not planned.nodes:
            raise ActError(f"scope: there is no {scope}")
        changes, basis = await self._switched(scope, planned.nodes, on=on)
        off = {name: standing for name, standing in planned.nodes.items() if not standing.on}
        lent = [] if on else [amounts for standing in off.values() if (amounts := standing.lends)]
        goes = tuple(PreviewPod(**msgspec.structs.asdict(pod)) for pod in planned.to_evict)
        gone, spared = {pod.pod for pod in goes}, set(planned.spared)
        stays = [pod for standing in off.values() for pod in standing.pods if pod not in gone and pod not in spared]
        if not changes and not goes and not lent:
            raise ActError(f"nothing would change: co-location is {'on' if on else 'off'} for {scope} already")
        basis |= {pod.pod: Affected("pod", pod.uid) for pod in goes}
        done, count = Done(), counted(len(planned.nodes), "node")
        back = (sum(_amount(amounts, "cpu") for amounts in lent), sum(_amount(amounts, "memory") for amounts in lent))
        chosen = evict and replace_agreed(evict, goes)
        steps = [Step("Write the settings")]
        if not on:
            steps.append(Step("Take back what is lent", len(planned.nodes), lambda: done.taken_back))
            if goes:
                steps.append(Step("Evict pods", len(goes), lambda: len(done.evicted) + len(done.refused)))

        async def do(begin: Callable[[int], None]) -> None:
            begin(0)

            def progress(title: str) -> None:
                begin(2 if title.startswith("evicting") and len(steps) > 2 else 1)

            await colocation.turn(client, scope, on=on, evict=chosen, progress=progress, done=done)

        still_off = [f"{name} still lends nothing: {standing.why}" for name, standing in off.items()] if on else []
        return Plan(
            sentence=_switch_sentence(on, count, back, len(goes), len(stays)),
            verb=f"Evict {counted(len(goes), 'pod')}" if goes else "Turn lending on" if on else "Turn lending off",
            basis=basis,
            steps=steps,
            do=do,
            done=done,
            nodes=list(planned.nodes),
            taken_back_milli=back[0],
            taken_back_bytes=back[1],
            pods_that_go=goes,
            pods_that_stay=stays,
            pods_spared=planned.spared,
            budgets=await self._budgets(goes),
            changes=changes,
            cannot_be_undone="undo does not bring evicted pods back; their controllers create new ones" if goes else "",
            undo=PreviewRequest(act="colocation-off" if on else "colocation-on", scope=request.scope),
            notes=[*filter(None, (planned.manager,)), *still_off[:5]],
        )

    async def _switched(
        self, scope: colocation.Scope, nodes: Mapping[str, Any], *, on: bool
    ) -> tuple[list[SettingChange], dict[str, Affected]]:
        """The settings that change, and what the user agrees to."""
        if scope.nodes:
            changes = []
            basis = {}
            for node in await colocation.nodes_of(self.client, scope):
                before = node.metadata.annotations.get(COLOCATION_STRATEGY.key)
                after = node_annotation(node.metadata.annotations, on=on)
                where = f"node {node.metadata.name}"
                basis[where] = Affected("node", f"{node.metadata.uid} {before or ''}")
                changes += changed_fields(f"{where}: annotation colocation-strategy", before or "", after or "")
            return changes, basis
        data = await policies.stored(self.client)
        listed = await colocation.nodes_of(self.client, scope)
        after_text, _ = colocation.section_after(data, scope, listed, on=on)
        basis = {f"node {node.metadata.name}": Affected("node", node.metadata.uid) for node in listed}
        basis[f"ConfigMap {CONFIG}"] = Affected("setting", data.get(COLOCATION, ""))
        before_text = data.get(COLOCATION, "")
        return changed_fields(COLOCATION, before_text, after_text), basis

    async def _budgets(self, pods: Sequence[PreviewPod]) -> dict[str, str]:
        """Which evictions a disruption budget refuses at this time: each is asked for without being done."""
        refused: dict[str, str] = {}

        async def ask(pod: PreviewPod) -> None:
            namespace, _, name = pod.pod.partition("/")
            try:
                await self.client.limited(attempts=1).evict(namespace, name, uid=pod.uid, dry_run=True)
            except EvictionRefused as error:
                refused[pod.pod] = str(error)
            except ApiError:
                # It is gone, or the viewer may not evict it: other parts of the preview say so.
                return

        await each_of(pods[:MOST_BUDGETS], ask)
        return dict(sorted(refused.items()))

    # Settings.

    async def _thresholds(self, request: PreviewRequest) -> Plan:
        client, pool = self.client, _pool(request.scope)
        values = threshold_switch.checked(request.settings)
        data = await policies.stored(client)
        nodes = await colocation.nodes_of(client, colocation.Scope(pool=pool))
        texts = thresholds.changed_sections(data, values, pool, nodes)
        own = threshold_switch.own_thresholds(data, None if pool is None else selector_of(pool))
        changes = [
            SettingChange(field=name, before=_word(own.get(name)), after=_word(number))
            for name, number in values.items()
            if own.get(name) != number
        ]
        if not changes:
            raise ActError(f"nothing would change: {_where(request.scope)} has these thresholds already")
        pairs = [f"--set={name}={'' if number is None else number}" for name, number in values.items()]
        outlook = await self.commands.json(
            self.viewer, "colocation", "thresholds", *_selector(request.scope), *pairs, "--dry-run"
        )
        seen = {section: data.get(section, "") for section in texts}

        async def do(begin: Callable[[int], None]) -> None:
            begin(0)
            await thresholds.change(client, pool, values, seen)

        what_if = _what_if([outlook])
        return Plan(
            sentence=f"{counted(len(changes), 'threshold')} of {_where(request.scope)} would change. {_lends(what_if)}",
            verb=f"Change {counted(len(changes), 'threshold')}",
            basis=_settings_basis(seen, nodes),
            steps=[Step("Write the settings")],
            do=do,
            nodes=[node.metadata.name for node in nodes],
            changes=changes,
            what_if=what_if,
            history=await self._on_history(
                request.scope, [f"{name}={number}" for name, number in values.items() if number is not None]
            ),
            undo=PreviewRequest(
                act="thresholds", scope=request.scope, settings={name: own.get(name) for name in values}
            ),
            notes=_warnings(outlook),
        )

    async def _policy(self, request: PreviewRequest) -> Plan:
        client, pool = self.client, _pool(request.scope)
        chosen = [(choice, _policy_choice(choice)) for choice in policy_choices(request.settings)]
        data = await policies.stored(client)
        nodes = await colocation.nodes_of(client, colocation.Scope(pool=pool))
        before = _policies_of(data, pool)
        after = dict(data)
        for _, choice in chosen:
            after[COLOCATION] = policies.configured(after, choice, pool)[0]
        if after.get(COLOCATION) == data.get(COLOCATION):
            raise ActError(f"nothing would change: {_where(request.scope)} lends by this policy already")
        outlooks = [
            await self.commands.json(
                self.viewer, "colocation", "policy", *choice.words, *_selector(request.scope), "--dry-run"
            )
            for choice, _ in chosen
        ]
        seen = {COLOCATION: data.get(COLOCATION, "")}

        async def do(begin: Callable[[int], None]) -> None:
            begin(0)
            current = await policies.stored(client)
            if current.get(COLOCATION, "") != seen[COLOCATION]:
                raise ActError(f"ConfigMap {CONFIG} was changed in the meantime; look again")
            for _, choice in chosen:
                await policies.switch(client, pool, choice)

        what_if = _what_if(outlooks, [choice.resource for choice, _ in chosen])
        held = {**before, **{name: value for name, value in request.settings.items() if value is not None}}
        changes = [
            SettingChange(field=name, before=_word(before.get(name)), after=_word(held.get(name)))
            for name in ("cpu", "memory", "markPercent")
            if name in request.settings and before.get(name) != held.get(name)
        ]
        policy_words = " and ".join(
            f"{choice.resource or 'CPU and memory'} by {choice.name}" for choice in _named(chosen)
        )
        return Plan(
            sentence=f"{_capital(_where(request.scope))} would lend {policy_words}. {_lends(what_if)}",
            verb="Switch the policy",
            basis=_settings_basis(seen, nodes),
            steps=[Step("Write the settings")],
            do=do,
            nodes=[node.metadata.name for node in nodes],
            changes=changes,
            what_if=what_if,
            history=await self._on_history(request.scope, [f"policy={chosen[0][1].name}"]),
            undo=PreviewRequest(
                act="policy",
                scope=request.scope,
                settings={name: before.get(name) for name in request.settings if before.get(name) is not None},
            ),
        )

    async def _on_history(self, scope: Scope, settings: Sequence[str]) -> HistoryWhatIf | None:
        """The simulator's answer, if there is a recording."""
        recording = self.commands.recording
        if recording is None:
            return None
        words = [f"--set={setting}" for setting in settings] + ([f"--pool={scope.pool}"] if scope.pool else [])
        command = " ".join(["koord sim what-if", recording.name, *words])
        if not settings:
            return HistoryWhatIf(sentence="", figures=(), evictions=0, error="only new values can be tried", command="")
        try:
            answer = await self.commands.offline("sim", "what-if", str(recording), *words)
        except Refused as error:
            return HistoryWhatIf(sentence="", figures=(), evictions=0, error=error.error.cause, command=command)
        return _history(answer, command)

    # Roll-outs.

    async def _rollout(self, request: PreviewRequest) -> Plan:
        feature = feature_of(request.scope.feature)
        stored = await config_map(self.client, names.CONFIGMAP_ROLLOUTS)
        text = stored.data.get(feature.name) if stored is not None else None
        basis = {f"the roll-out of {feature.name}": Affected("setting", text or "")}
        if request.act == "rollout-start":
            return await self._rollout_start(request, feature, basis)
        if text is None:
            raise ActError(f"scope.feature: there is no roll-out of {feature.name}; rollout-start begins one")
        rollout = parse(feature.name, text)
        if request.act == "rollout-undo":
            return await self._rollout_undo(request, feature, rollout, basis)
        return self._rollout_pause(request, feature, rollout, basis)

    async def _rollout_start(self, request: PreviewRequest, feature: Feature, basis: dict[str, Affected]) -> Plan:
        client, wanted = self.client, _rollout_of(request)
        planned = await rollouts.start(client, feature, wanted, dry_run=True)
        if not planned.rollouts or planned.rollouts[0].state != "running" or basis_text(basis):
            raise ActError(f"there is a roll-out of {feature.name} already: stop or undo it first")
        outlook = await self.commands.json(
            self.viewer,
            *("colocation", "preview", feature.name, *_selector(request.scope), f"--percent={wanted.percent}"),
        )
        first = planned.rollouts[0].nodes

        async def do(begin: Callable[[int], None]) -> None:
            begin(0)
            await rollouts.start(client, feature, wanted)

        answer = outlook[0]
        evicted = answer["evictions"]
        more = f" and evict {counted(len(evicted), 'pod')}" if evicted else ""
        lends = ""
        if answer["lends"]:
            cpus, memory = cores(answer["batchCpuMilli"]), bytes_text(answer["batchMemoryBytes"])
            lends = f" They would lend {cpus} CPUs and {memory}{more}."
        return Plan(
            sentence=f"{counted(len(first), 'node')} of {planned.rollouts[0].pool} would get {feature.name} at the"
            f" first step, {wanted.percent}%.{lends}",
            verb="Start the roll-out",
            basis=basis,
            steps=[Step("Write the settings and the roll-out")],
            do=do,
            nodes=list(first),
            what_if=WhatIf(
                nodes=len(answer["nodes"]),
                lent_milli_before=0,
                lent_milli_after=answer["batchCpuMilli"],
                lent_bytes_before=0,
                lent_bytes_after=answer["batchMemoryBytes"],
                evictions=tuple(one["pod"] for one in evicted[:MOST_EVICTIONS]),
                evictions_in_all=len(evicted),
                note="of the nodes of the first step, calculated from the reports that they sent last",
            ),
            undo=PreviewRequest(act="rollout-undo", scope=Scope(feature=feature.name)),
            notes=[*filter(None, (planned.manager,)), *answer["notes"]],
        )

    def _rollout_pause(
        self, request: PreviewRequest, feature: Feature, rollout: Rollout, basis: dict[str, Affected]
    ) -> Plan:
        stops, client = request.act == "rollout-stop", self.client
        if stops and rollout.state != "running":
            raise ActError(f"the roll-out of {feature.name} is {rollout.state}: there is nothing to stop")
        if not stops and rollout.state == "running":
            raise ActError(f"the roll-out of {feature.name} is running already")
        again = bool(request.settings.get("again"))

        async def do(begin: Callable[[int], None]) -> None:
            begin(0)
            if stops:
                await rollouts.stop(client, feature, request.why or f"by {self.viewer.user}")
            else:
                await rollouts.resume(client, feature, again=again)

        has = f"{counted(len(rollout.taken_back), 'node')} was taken back" if rollout.taken_back else ""
        stop_sentence = f"The roll-out of {feature.name} would stay at {rollout.percent}%: nodes that have it keep it."
        resume_sentence = f"The roll-out of {feature.name} would go on at {rollout.percent}%; its step starts again."
        return Plan(
            sentence=stop_sentence if stops else resume_sentence,
            verb="Stop the roll-out" if stops else "Resume the roll-out",
            basis=basis,
            steps=[Step("Write the roll-out")],
            do=do,
            undo=PreviewRequest(act="rollout-resume" if stops else "rollout-stop", scope=request.scope),
            notes=[has] if has and not stops and not again else [],
        )

    async def _rollout_undo(
        self, request: PreviewRequest, feature: Feature, rollout: Rollout, basis: dict[str, Affected]
    ) -> Plan:
        client = self.client
        shown = (await rollouts.look(client, feature)).rollouts
        inside = list(shown[0].nodes) if shown else []
        done = Done()

        async def do(begin: Callable[[int], None]) -> None:
            begin(0)
            refused = await rollouts.end(client, feature, on=False)
            done.refused.update(refused or {})

        tops = [self.world.table.tops[name] for name in inside if name in self.world.table.tops]
        back = (0, 0)
        if feature.is_lending:
            back = sum(top.lent["cpu"] for top in tops), sum(top.lent["memory"] for top in tops)
        lends = (
            f" They lend {cores(back[0])} CPUs and {bytes_text(back[1])}, which are taken back." if any(back) else ""
        )
        settings: dict[str, Setting] = {
            "steps": rollout.steps,
            "everySeconds": rollout.every_seconds,
            "maxUnready": rollout.limits.unready,
            "maxSlowed": rollout.limits.slowed,
            "maxEvictions": rollout.limits.evictions,
            "onStop": rollout.on_stop,
        }
        return Plan(
            sentence=f"{feature.name} would be off on {counted(len(inside), 'node')}, as before the roll-out.{lends}",
            verb="Undo the roll-out",
            basis={**basis, **{f"node {name}": Affected("node", "") for name in inside}},
            steps=[Step("Write the settings, and take the nodes' labels away")],
            do=do,
            done=done,
            nodes=inside,
            taken_back_milli=back[0],
            taken_back_bytes=back[1],
            cannot_be_undone="a new roll-out begins at its first step",
            undo=PreviewRequest(
                act="rollout-start", scope=Scope(feature=feature.name, pool=rollout.selector), settings=settings
            ),
        )

    # One pod.

    async def _move(self, request: PreviewRequest) -> Plan:
        client = self.client
        namespace, _, name = request.scope.pod.partition("/")
        mode = request.settings.get("mode", _MODES[0])
        if mode not in _MODES:
            raise ActError(f"settings.mode: must be {' or '.join(_MODES)}, not {str(mode)[:40]!r}")
        try:
            pod = await client.get(PODS, name, namespace=namespace)
        except NotFound:
            raise ActError(f"scope.pod: there is no pod {namespace}/{name}") from None
        meta, key = pod.metadata, pod.metadata.key
        if not pod.spec.node_name or pod.is_finished or meta.deletion_timestamp is not None:
            raise ActError(f"scope.pod: {key} does not run on a node, so that it cannot be moved")
        owner = next((owner for owner in meta.owner_references if owner.controller), None)
        if owner is None or owner.kind == "DaemonSet":
            why = "no controller would create it again" if owner is None else "a DaemonSet's pods stay on their nodes"
            raise ActError(f"scope.pod: {key} cannot be moved: {why}")
        goes = PreviewPod(pod=key, uid=meta.uid, node=pod.spec.node_name, priority_class=pod.spec.priority_class_name)
        body = acts.job_of(namespace, name, meta.uid, self.viewer.user, request.why, request.settings)
        await client.create(POD_MIGRATION_JOBS, body, dry_run=True, field_manager=FIELD_MANAGER)
        done = Done()

        async def do(begin: Callable[[int], None]) -> None:
            begin(0)
            job = await client.create(POD_MIGRATION_JOBS, body, field_manager=FIELD_MANAGER)
            begin(1)
            await _follow(client, job.metadata.name, key, done)

        return Plan(
            sentence=f"{key} would leave {pod.spec.node_name}: "
            + (
                "room on another node is reserved first; if there is none, nothing changes."
                if mode == _MODES[0]
                else "it is evicted at once, and its replacement goes where the scheduler finds room."
            ),
            verb="Move the pod",
            basis={key: Affected("pod", f"{meta.uid} {pod.spec.node_name}")},
            steps=[Step("Ask for the move"), Step("Move", 1, lambda: len(done.evicted) + len(done.refused))],
            do=do,
            done=done,
            nodes=[pod.spec.node_name],
            pods_that_go=(goes,),
            budgets=await self._budgets((goes,)),
            cannot_be_undone="a pod that was moved does not go back",
            notes=() if self.world.leads("koord-descheduler") else ("no descheduler leads: the move waits for one",),
        )


async def _follow(client: Client, job: str, pod: str, done: Done) -> None:
    """Until the move has ended."""
    until_s = time.monotonic() + MOVE_WITHIN_S
    while time.monotonic() < until_s:
        moving = await client.get(POD_MIGRATION_JOBS, job)
        status = moving.status
        if status.phase in TERMINAL:
            if status.phase == PodMigrationJobPhase.SUCCEEDED:
                done.evicted.append(pod)
            else:
                done.refused[pod] = f"{status.reason or status.phase}: {status.message}"
            return
        await asyncio.sleep(MOVE_LOOK_S)
    done.refused[pod] = f"PodMigrationJob {job} has not ended; kubectl get podmigrationjob {job} shows it"


def replace_agreed(evict: Evict, pods: Sequence[PreviewPod]) -> Evict:
    """Only the pods that the user saw."""
    return Evict(evict.within_s, evict.cluster_too, frozenset(pod.uid for pod in pods))


def basis_text(basis: Mapping[str, Affected]) -> str:
    return "".join(affected.what for affected in basis.values())


def _pool(scope: Scope) -> LabelMatcher | None:
    return parse_labels(scope.pool) if scope.pool else None


def _selector(scope: Scope) -> list[str]:
    return [f"--selector={scope.pool}"] if scope.pool else []


def _where(scope: Scope) -> str:
    return acts.object_of(Scope(nodes=scope.nodes, pool=scope.pool))


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _word(setting: object) -> str:
    return "" if setting is None else str(setting)


def _amount(lends: Mapping[str, str], what: str) -> int:
    """cpu in milli-cores, memory in bytes, of batch and mid together."""
    total = 0
    for band in ("batch", "mid"):
        try:
            total += value(lends.get(f"kubernetes.io/{band}-{what}", "0"))
        except QuantityError:
            continue
    return total


def _switch_sentence(on: bool, nodes: str, back: tuple[int, int], goes: int, stays: int) -> str:
    if on:
        return f"{nodes} would lend again, as configured; the manager publishes the amounts."
    first = f"{nodes} would lend nothing"
    if any(back):
        first += f": {cores(back[0])} CPUs and {bytes_text(back[1])} are taken back at once"
    parts = [first]
    if goes:
        parts.append(f"{counted(goes, 'pod')} would be evicted")
    if stays:
        parts.append(f"{counted(stays, 'pod')} on lent resources would keep running")
    return "; ".join(parts) + "; new batch pods stay pending."


def _settings_basis(seen: Mapping[str, str], nodes: Sequence[Any]) -> dict[str, Affected]:
    basis = {f"ConfigMap {CONFIG}: {section}": Affected("setting", text) for section, text in seen.items()}
    return basis | {f"node {node.metadata.name}": Affected("node", node.metadata.uid) for node in nodes}


def _what_if(outlooks: Sequence[Mapping[str, Any]], resources: Sequence[str] = ("",)) -> WhatIf:
    """Of one preview; or of one for each resource, if they differ."""
    sums = dict.fromkeys(("CpuBefore", "CpuAfter", "MemoryBefore", "MemoryAfter"), 0)
    evictions: dict[str, None] = {}
    for outlook, resource in zip(outlooks, resources, strict=True):
        for node in outlook["nodes"].values():
            for name in sums:
                if not resource or name.lower().startswith(resource):
                    sums[name] += node[f"batch{name}"] or 0
        evictions |= dict.fromkeys(one["pod"] for one in outlook["evictions"])
    if len(resources) == 1 and resources[0]:
        # The other resource does not change.
        other = "Memory" if resources[0] == "cpu" else "Cpu"
        before = sum(node[f"batch{other}Before"] or 0 for node in outlooks[0]["nodes"].values())
        sums |= {f"{other}Before": before, f"{other}After": before}
    return WhatIf(
        nodes=len(outlooks[0]["nodes"]),
        lent_milli_before=sums["CpuBefore"],
        lent_milli_after=sums["CpuAfter"],
        lent_bytes_before=sums["MemoryBefore"],
        lent_bytes_after=sums["MemoryAfter"],
        evictions=tuple(evictions)[:MOST_EVICTIONS],
        evictions_in_all=len(evictions),
        note="calculated from the reports that nodes sent last",
    )


def _lends(what_if: WhatIf) -> str:
    before, after = cores(what_if.lent_milli_before), cores(what_if.lent_milli_after)
    same = what_if.lent_milli_before == what_if.lent_milli_after
    lends = (
        f"They lend {before} CPUs to batch, as before"
        if same
        else f"They would lend {after} CPUs to batch, not {before}"
    )
    evicts = f", and agents would evict {counted(what_if.evictions_in_all, 'pod')}" if what_if.evictions_in_all else ""
    return f"{lends}{evicts}."


def _warnings(outlook: Mapping[str, Any]) -> list[str]:
    whys = dict.fromkeys(node["why"] for node in outlook["nodes"].values() if node["why"])
    return [f"nothing is lent: {why}" for why in whys][:5]


def _policy_choice(choice: Choice) -> PolicyChoice:
    if choice.resource == "cpu":
        return PolicyChoice(choice.policy, ("cpu",), choice.mark_percent)
    if choice.resource == "memory":
        return PolicyChoice(choice.policy, ("memory",), choice.mark_percent)
    return PolicyChoice(choice.policy, ("cpu", "memory"), choice.mark_percent)


@dataclass(frozen=True, slots=True)
class _Named:
    name: str
    resource: str


def _named(chosen: Sequence[tuple[Choice, PolicyChoice]]) -> list[_Named]:
    return [_Named(choice.policy, choice.resource) for choice, _ in chosen]


def _policies_of(data: Mapping[str, str], pool: LabelMatcher | None) -> dict[str, Setting]:
    """The policies that hold for the scope's own settings, and the mark that they say."""
    return dict(policy_switch.chosen_by(data, None if pool is None else selector_of(pool)))


def _rollout_of(request: PreviewRequest) -> Rollout:
    settings = request.settings
    steps = settings.get("steps")
    on_stop = settings.get("onStop", "back")
    if on_stop not in ("back", "hold"):
        raise ActError(f"settings.onStop: must be back or hold, not {str(on_stop)[:40]!r}")
    every = settings.get("everySeconds", Rollout().every_seconds)
    limits = Limits()
    raw = {
        "selector": request.scope.pool,
        "everySeconds": every,
        "steps": list(steps) if isinstance(steps, list | tuple) else list(Rollout().steps),
        "limits": {
            "unready": settings.get("maxUnready", limits.unready),
            "slowed": settings.get("maxSlowed", limits.slowed),
            "evictions": settings.get("maxEvictions", limits.evictions),
        },
        "onStop": on_stop,
    }
    return parse(request.scope.feature, msgspec.json.encode(raw).decode())


def _history(answer: Mapping[str, Any], command: str) -> HistoryWhatIf:
    gain, more, spared = answer["gainCoreHours"], len(answer["evictedMore"]), len(answer["spared"])
    before, after = answer["before"]["totals"], answer["after"]["totals"]
    figures = tuple(
        HistoryFigure(name=title, before=f"{before[name]:.3g}", after=f"{after[name]:.3g}")
        for name, title in _FIGURES.items()
    )
    word = "more" if gain >= 0 else "less"
    return HistoryWhatIf(
        sentence=f"On the recorded load, batch would have done {abs(gain):.1f} core-hours {word};"
        f" {counted(more, 'pod')} would have been evicted that were not, and {spared} fewer.",
        figures=figures,
        evictions=more,
        error="",
        command=command,
    )
