"""Acts of viewers: what may be asked for, how previews and records read, what undoes an act, and what has changed
between a preview and its confirmation.

Pure: `koord.console.live.acts` reads the cluster, writes, and keeps previews.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from koord.api.kinds import POD_MIGRATION_JOBS
from koord.api.machinery.faults import BadInput
from koord.api.protocol.annotations.load import EVICT_REASON, JOB_CREATED_BY
from koord.api.text.counted import counted
from koord.api.text.selector import parse_labels
from koord.console.shapes import Act, ActName, ActStep, PreviewRequest, Scope, Setting, SettingChange

PREVIEW_S: Final = 120.0
ACT_WITHIN_S: Final = 600.0
"""No act takes longer; a record that is older and still says running was interrupted."""
MOST_NAMED: Final = 200
MOST_RECORDS: Final = 200
MOST_RECORD_BYTES: Final = 400_000
"""Of the ConfigMap of records, which the API server limits to 1 MiB."""
MOST_IN_RECORD: Final = 50
TYPED_FROM: Final = 10
"""An act on more than one in ten nodes needs the cluster's name typed."""
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
SWITCHES: Final = ("colocation-off", "colocation-on")
ROLLOUTS: Final = ("rollout-start", "rollout-stop", "rollout-resume", "rollout-undo")
_SCOPES: Final[Mapping[ActName, tuple[str, ...]]] = {
    "colocation-off": ("nodes", "pool"),
    "colocation-on": ("nodes", "pool"),
    "thresholds": ("pool",),
    "policy": ("pool",),
    "rollout-start": ("feature", "pool"),
    "rollout-stop": ("feature",),
    "rollout-resume": ("feature",),
    "rollout-undo": ("feature",),
    "move-pod": ("pod",),
}
"""The parts of a scope that each act takes."""
_SETTINGS: Final[Mapping[ActName, Mapping[str, type | tuple[type, ...]]]] = {
    "policy": {"cpu": str, "memory": str, "markPercent": int},
    "rollout-start": {
        "steps": (tuple, list),
        "everySeconds": (int, float),
        "maxUnready": int,
        "maxSlowed": int,
        "maxEvictions": int,
        "onStop": str,
    },
    "rollout-resume": {"again": bool},
    "move-pod": {"mode": str},
}


class ActError(BadInput):
    """An act that makes no sense. The message names the field and what is valid."""


class StoredAct(msgspec.Struct, frozen=True):
    """A record, as the ConfigMap keeps it."""

    act: Act
    undo: PreviewRequest | None
    "What does the opposite; None if nothing does."


class Affected(msgspec.Struct, frozen=True):
    """What a user agrees to, by a name for people, with what it is: a pod with its uid, a section with its text."""

    kind: str
    what: str


Basis = Mapping[str, Affected]


def checked(request: PreviewRequest) -> PreviewRequest:
    """Raises `ActError` for a scope or settings that do not go with the act."""
    scope, act = request.scope, request.act
    for part in ("nodes", "pool", "pod", "feature"):
        if getattr(scope, part) and part not in _SCOPES[act]:
            takes = " or ".join(f"scope.{name}" for name in _SCOPES[act])
            raise ActError(f"scope.{part}: {act} does not take it; it takes {takes}")
    if scope.nodes and scope.pool:
        raise ActError("scope: give nodes or pool, not both")
    for name in scope.nodes:
        if not _NAME.fullmatch(name):
            raise ActError(f"scope.nodes: {name[:60]!r} is not a name of a node")
    if scope.pool:
        parse_labels(scope.pool)
    if act in ROLLOUTS and not scope.feature:
        raise ActError(f"scope.feature: {act} needs the name of a feature")
    if act == "move-pod":
        namespace, slash, name = scope.pod.partition("/")
        if not slash or not _NAME.fullmatch(namespace) or not _NAME.fullmatch(name):
            raise ActError("scope.pod: must be NAMESPACE/NAME")
    if request.evict and act != "colocation-off":
        raise ActError("evict: goes with colocation-off only")
    if act != "thresholds":
        _check_settings(act, request.settings)
    return request


def _check_settings(act: ActName, settings: Mapping[str, Setting]) -> None:
    types = _SETTINGS.get(act, {})
    for name, value in settings.items():
        if name not in types:
            there = f"there are {', '.join(types)}" if types else "there are none"
            raise ActError(f"settings.{name[:60]}: {act} has no setting of this name; {there}")
        wanted = types[name]
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise ActError(f"settings.{name}: {str(value)[:40]!r} is not valid")


def object_of(scope: Scope) -> str:
    """What an act is about, for people."""
    if scope.nodes:
        return f"{len(scope.nodes)} nodes" if len(scope.nodes) > 1 else f"node {scope.nodes[0]}"
    if scope.pod:
        return f"pod {scope.pod}"
    where = f"nodes with {scope.pool}" if scope.pool else ""
    if scope.feature:
        return f"{scope.feature} on {where}" if where else scope.feature
    return where or "the cluster"


_SAYS: Final[Mapping[ActName, str]] = {
    "colocation-off": "turned co-location off for {}",
    "colocation-on": "turned co-location on for {}",
    "thresholds": "changed thresholds of {}",
    "policy": "changed the policy of {}",
    "rollout-start": "started the roll-out of {}",
    "rollout-stop": "stopped the roll-out of {}",
    "rollout-resume": "resumed the roll-out of {}",
    "rollout-undo": "undid the roll-out of {}",
    "move-pod": "moved {}",
}


def said(act: ActName, scope: Scope) -> str:
    """What a user did: `turned co-location off for node n1`."""
    return _SAYS[act].format(object_of(scope))


def command_of(request: PreviewRequest) -> str:
    """The command that does the same."""
    scope, act, settings = request.scope, request.act, request.settings
    where = [f"--node={name}" for name in scope.nodes] + ([f"--selector={scope.pool}"] if scope.pool else [])
    words: list[str]
    if act in SWITCHES:
        words = [
            "koord",
            "colocation",
            act.removeprefix("colocation-"),
            *where,
            *(["--evict"] if request.evict else []),
        ]
    elif act == "thresholds":
        pairs = [f"--set={name}={'' if value is None else value}" for name, value in settings.items()]
        words = ["koord", "colocation", "thresholds", *where, *pairs]
    elif act == "policy":
        words = []
        for choice in policy_choices(settings):
            one = ["koord", "colocation", "policy", *choice.words, *where]
            words += ["&&", *one] if words else one
    elif act in ROLLOUTS:
        words = ["koord", "colocation", "rollout", act.removeprefix("rollout-"), scope.feature, *where]
        words += rollout_words(settings) if act == "rollout-start" else []
        words += ["--again"] if settings.get("again") else []
        words += [f"--reason={request.why}"] if act == "rollout-stop" and request.why else []
    else:
        namespace, _, name = scope.pod.partition("/")
        job = msgspec.json.encode(job_of(namespace, name, "", "", "", settings)).decode()
        return f"echo {shlex.quote(job)} | kubectl create -f -"
    return " ".join(word if word == "&&" else shlex.quote(word) for word in words)


class Choice(msgspec.Struct, frozen=True):
    """One switch of the policy: of both resources, or of one."""

    policy: str
    resource: str
    "Empty: both."
    mark_percent: int | None

    @property
    def words(self) -> list[str]:
        """As arguments of `koord colocation policy`."""
        words = [self.policy, *([f"--resource={self.resource}"] if self.resource else [])]
        return [*words, *([f"--mark={self.mark_percent}"] if self.mark_percent is not None else [])]


def policy_choices(settings: Mapping[str, Setting]) -> tuple[Choice, ...]:
    """The switches that settings ask for: one if both resources get the same policy."""
    cpu, memory, mark = settings.get("cpu"), settings.get("memory"), settings.get("markPercent")
    percent = mark if isinstance(mark, int) else None
    if not cpu and not memory:
        raise ActError("settings: policy needs cpu or memory, or both")
    if cpu == memory:
        return (Choice(str(cpu), "", percent),)
    choices = []
    if cpu:
        choices.append(Choice(str(cpu), "cpu", percent))
    if memory:
        choices.append(Choice(str(memory), "memory", None if cpu else percent))
    return tuple(choices)


def rollout_words(settings: Mapping[str, Setting]) -> list[str]:
    """Settings as arguments of `koord colocation rollout start`."""
    words = []
    steps = settings.get("steps")
    if isinstance(steps, list | tuple):
        words.append("--steps=" + ",".join(map(str, steps)))
    if "everySeconds" in settings:
        words.append(f"--every={settings['everySeconds']}s")
    for name, flag in (("maxUnready", "unready"), ("maxSlowed", "slowed"), ("maxEvictions", "evictions")):
        if name in settings:
            words.append(f"--max-{flag}={settings[name]}")
    if "onStop" in settings:
        words.append(f"--on-stop={settings['onStop']}")
    return words


def job_of(namespace: str, name: str, uid: str, who: str, why: str, settings: Mapping[str, Setting]) -> dict[str, Any]:
    """The PodMigrationJob that moves a pod."""
    ref = {"namespace": namespace, "name": name, **({"uid": uid} if uid else {})}
    notes = {
        key: value
        for key, value in (
            (EVICT_REASON.key, why),
            (JOB_CREATED_BY.key, who),
        )
        if value
    }
    meta: dict[str, Any] = {"generateName": "console-", **({"annotations": notes} if notes else {})}
    return {
        "apiVersion": POD_MIGRATION_JOBS.api_version,
        "kind": POD_MIGRATION_JOBS.kind,
        "metadata": meta,
        "spec": {"podRef": ref, "mode": settings.get("mode", "ReservationFirst"), "ttl": "5m"},
    }


def must_type(cluster: str, nodes: int, of: int) -> str:
    """The word that the user types to confirm; empty if the act is on few nodes."""
    return cluster if of and nodes * TYPED_FROM > of and nodes > 1 else ""


def changed_fields(where: str, before: str, after: str) -> list[SettingChange]:
    """The fields that differ between two JSON texts, each with both values; the texts if they are no objects."""
    was, will_be = _fields(before), _fields(after)
    if was is None or will_be is None:
        return [SettingChange(field=where, before=before, after=after)] if before != after else []
    names = [*was, *(name for name in will_be if name not in was)]
    return [
        SettingChange(field=f"{where}: {name}", before=was.get(name, ""), after=will_be.get(name, ""))
        for name in names
        if was.get(name) != will_be.get(name)
    ]


def _fields(text: str) -> dict[str, str] | None:
    """Values by path, as in `nodeConfigs[0].enable`. An item with a name has it in its path."""
    if not text:
        return {}
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    fields: dict[str, str] = {}

    def walk(path: str, part: Any) -> None:
        if isinstance(part, dict) and part:
            for name, inner in part.items():
                walk(f"{path}.{name}" if path else str(name), inner)
        elif isinstance(part, list) and part and all(isinstance(item, dict) for item in part):
            for number, item in enumerate(part):
                walk(f"{path}[{item.get('name') or number}]", item)
        else:
            fields[path] = part if isinstance(part, str) else msgspec.json.encode(part).decode()

    walk("", value)
    return fields


def differences(agreed: Basis, now: Basis) -> tuple[str, ...]:
    """What changed since the preview, in sentences. What has gone by itself is no surprise: a pod that ended, a node
    that was removed."""
    sentences = []
    for name, affected in now.items():
        before = agreed.get(name)
        if before is None:
            sentences.append(f"{name} {'would be evicted, too' if affected.kind == 'pod' else 'was added'}")
        elif before.what != affected.what:
            sentences.append(f"{name} is another one" if affected.kind == "pod" else f"{name} was changed")
    sentences += [f"{name} was removed" for name in agreed if name not in now and agreed[name].kind == "setting"]
    return tuple(sentences)


def redacted(act: Act, may_see: Mapping[str, bool] | None) -> Act:
    """Without names of pods in namespaces that the viewer may not list. `may_see`: by namespace; None: all."""
    if may_see is None:
        return act

    def visible(name: str) -> bool:
        namespace, slash, _ = name.partition("/")
        return not slash or namespace == "node" or may_see.get(namespace, False)

    evicted = tuple(name for name in act.evicted if visible(name))
    refused = {name: why for name, why in act.refused.items() if visible(name)}
    hidden = len(act.evicted) - len(evicted) + len(act.refused) - len(refused)
    return msgspec.structs.replace(act, evicted=evicted, refused=refused, hidden_pods=hidden)


def namespaces_of(act: Act) -> set[str]:
    return {name.partition("/")[0] for name in (*act.evicted, *act.refused) if "/" in name}


def stored_act(text: str) -> StoredAct | None:
    """A stored record; None if it cannot be read."""
    try:
        return msgspec.json.decode(text, type=StoredAct)
    except (msgspec.DecodeError, RecursionError):
        return None


def as_of(act: Act, now_s: float, *, is_under_way: bool) -> Act:
    """An old record that still says running belongs to an act that was interrupted."""
    if act.state != "running" or is_under_way or now_s - act.at_s < ACT_WITHIN_S:
        return act
    return msgspec.structs.replace(
        act, state="interrupted", sentence=f"{act.sentence}; the console stopped before it ended"
    )


def recorded(stored: Mapping[str, str], record: StoredAct) -> dict[str, str | None]:
    """The values to write so that the ConfigMap has the record, and not too many others: the oldest go."""
    changed: dict[str, str | None] = {record.act.id: msgspec.json.encode(_short(record)).decode()}
    undone = stored_act(stored.get(record.act.undo_of, "")) if record.act.undo_of else None
    if undone is not None and record.act.state in ("done", "failed"):
        by = msgspec.structs.replace(undone.act, undone_by=record.act.id, can_undo=False)
        changed[undone.act.id] = msgspec.json.encode(msgspec.structs.replace(undone, act=by)).decode()
    after = {key: text for key, text in {**stored, **changed}.items() if text is not None}
    ages = {key: act.act.at_s if (act := stored_act(text)) is not None else 0.0 for key, text in after.items()}
    size = sum(len(text) for text in after.values())
    for key in sorted(after, key=lambda key: ages[key]):
        if (len(after) <= MOST_RECORDS and size <= MOST_RECORD_BYTES) or key == record.act.id:
            break
        size -= len(after.pop(key))
        changed[key] = None
    return changed


def _short(record: StoredAct) -> StoredAct:
    """A record names some of the pods, and counts all in its sentence."""
    act = record.act
    return msgspec.structs.replace(
        record,
        act=msgspec.structs.replace(
            act, evicted=act.evicted[:MOST_IN_RECORD], refused=dict(list(act.refused.items())[:MOST_IN_RECORD])
        ),
    )


def new_act(
    act_id: str, request: PreviewRequest, who: str, now_s: float, steps: Sequence[tuple[str, int | None]], undo_of: str
) -> Act:
    return Act(
        id=act_id,
        act=request.act,
        scope=request.scope,
        settings=request.settings,
        who=who,
        why=request.why,
        at_s=now_s,
        state="running",
        sentence=f"{who} {said(request.act, request.scope)}",
        steps=tuple(ActStep(title=title, done=0, of=of, state="waiting") for title, of in steps),
        evicted=(),
        refused={},
        hidden_pods=0,
        ended_at_s=None,
        can_undo=False,
        undo_note="",
        undo_of=undo_of,
        undone_by="",
        command=command_of(request),
    )


def ended(
    act: Act, now_s: float, *, evicted: Sequence[str], refused: Mapping[str, str], error: str, can_undo: bool, note: str
) -> Act:
    """The act when nothing of it is under way any more."""
    parts = [f"{act.who} {said(act.act, act.scope)}"]
    if evicted:
        parts.append(f"{counted(len(evicted), 'pod')} evicted")
    if refused:
        parts.append(f"{counted(len(refused), 'object')} refused")
    if error:
        parts.append(f"failed: {error}")
    failed = bool(error or refused)
    steps = tuple(
        msgspec.structs.replace(
            step, state=("failed" if error and step.state == "running" else step.state if error else "done")
        )
        for step in act.steps
    )
    return msgspec.structs.replace(
        act,
        state="failed" if failed else "done",
        sentence="; ".join(parts),
        steps=steps,
        evicted=tuple(evicted),
        refused=dict(refused),
        ended_at_s=now_s,
        can_undo=can_undo,
        undo_note=note,
    )
