"""The steps that bring a cluster to the wanted state: a pure function of the wanted and the live objects.

Most objects are koord's alone and are applied. Some are created once and then belong to others: namespaces,
priorities and the configuration to users, webhooks and their certificates to the manager. An object that has one
of koord's names and is not koord's is refused, and then nothing is changed. Kinds are shared with other systems: a
definition changes only if no object loses data.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import msgspec

from koord.api.protocol import names
from koord.operate.install.cluster_objects import POD_SECURITY
from koord.operate.install.kind_change import losses
from koord.operate.install.manifest import (
    FIELD_MANAGER,
    KOORD,
    PART_OF,
    Json,
    Key,
    annotations_of,
    key_of,
    labels_of,
    metadata_of,
)

Action = Literal["create", "patch", "delete", "nothing", "refuse"]

MADE_ONCE: Final = frozenset(
    {"Namespace", "PriorityClass", "Secret", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
)
OWN_MANAGERS: Final = frozenset({FIELD_MANAGER, "koord-up", "koord-manager-webhooks"})
"""Field managers that create koord's objects."""
DEFINITION: Final = "CustomResourceDefinition"
NEVER_PRUNED: Final = MADE_ONCE | {DEFINITION}
_MOST_NAMED: Final = 6
_LEVELS: Final = ("privileged", "baseline", "restricted")


@dataclass(frozen=True, slots=True)
class Step:
    """One object, what is done with it, and why."""

    action: Action
    key: Key
    manifest: Json
    why: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    steps: tuple[Step, ...]

    def of(self, *actions: Action) -> tuple[Step, ...]:
        return tuple(step for step in self.steps if step.action in actions)

    @property
    def changes(self) -> tuple[Step, ...]:
        return self.of("create", "patch", "delete")

    @property
    def refusals(self) -> tuple[Step, ...]:
        return self.of("refuse")


def plan(
    desired: Sequence[Json],
    live: Mapping[Key, Json],
    applied: Mapping[Key, str] | None = None,
    *,
    adopt: bool = False,
    may_prune: bool = False,
) -> Plan:
    """`applied`: fingerprints of the last applied manifests, by object. `adopt`: take over objects of others.
    `may_prune`: kinds may lose fields, for a downgrade of koord."""
    applied = applied or {}
    wanted = {key_of(manifest): manifest for manifest in desired}
    steps = [
        _step(key, wanted_manifest, live.get(key), applied.get(key, ""), adopt, may_prune)
        for key, wanted_manifest in wanted.items()
    ]
    for key in applied:
        if key not in wanted and key in live and key.kind not in NEVER_PRUNED and not _is_configuration(key):
            steps.append(Step("delete", key, {}, "it is no longer part of the installation"))
    return Plan(tuple(steps))


def fingerprint(manifest: Json) -> str:
    return hashlib.sha256(msgspec.json.encode(manifest, order="sorted")).hexdigest()[:16]


def _step(key: Key, wanted: Json, live: Json | None, applied: str, adopt: bool, may_prune: bool) -> Step:
    if live is None:
        return Step("create", key, wanted)
    if metadata_of(live).get("deletionTimestamp"):
        return Step("refuse", key, wanted, "it is being deleted; run this again when it is gone")
    own = is_own(live)
    if why := _obstacle(key, wanted, live):
        # koord's own namespace is made as strict as its components allow: another one may need more.
        return Step("patch" if own and key.kind == "Namespace" else "refuse", key, wanted, why)
    if key.kind in MADE_ONCE or _is_configuration(key):
        # An existing namespace, PriorityClass or configuration is used; another project's webhook is refused.
        if own or adopt or key.kind in ("Namespace", "PriorityClass", "ConfigMap"):
            return Step("nothing", key, wanted, "it exists, and stays unchanged")
        return Step("refuse", key, wanted, _of_another(live))
    same = contains(live, wanted)
    if same and applied == fingerprint(wanted):
        return Step("nothing", key, wanted)
    if key.kind == DEFINITION:
        return _definition(key, wanted, live, take=own or adopt or same, may_prune=may_prune)
    if own or adopt:
        return Step("patch", key, wanted)
    return Step("refuse", key, wanted, _of_another(live))


def _definition(key: Key, wanted: Json, live: Json, *, take: bool, may_prune: bool) -> Step:
    if not take:
        return Step("refuse", key, wanted, _of_another(live))
    lost = () if may_prune else losses(live, wanted)
    if not lost:
        return Step("patch", key, _marked(wanted, live))
    if not losses(wanted, live):
        return Step("nothing", key, wanted, "it has all that koord needs, and more")
    further = f" and {len(lost) - _MOST_NAMED} more" if len(lost) > _MOST_NAMED else ""
    return Step(
        "refuse",
        key,
        wanted,
        f"its objects would lose {', '.join(lost[:_MOST_NAMED])}{further}, which koord does not know;"
        " use a version of koord that does",
    )


def _marked(wanted: Json, live: Json) -> Json:
    """Records the makers of a kind that existed before koord on it, so that it stays when koord is removed."""
    mark = annotations_of(live).get(names.OWN_ANNOTATION_FOUND)
    if mark is None:
        if is_own(live):
            return wanted
        mark = _makers(live)
    meta = metadata_of(wanted)
    annotations = {**annotations_of(wanted), names.OWN_ANNOTATION_FOUND: mark}
    return {**wanted, "metadata": {**meta, "annotations": annotations}}


def is_own(live: Mapping[str, object]) -> bool:
    """Whether koord created the object."""
    return labels_of(live).get(PART_OF) == KOORD or not OWN_MANAGERS.isdisjoint(managers_of(live))


def managers_of(live: Mapping[str, object]) -> tuple[str, ...]:
    """The object's field managers, as the API server records them."""
    entries = metadata_of(live).get("managedFields")
    listed = entries if isinstance(entries, list) else []
    return tuple(dict.fromkeys(str(entry.get("manager", "")) for entry in listed if isinstance(entry, dict)))


def contains(live: object, wanted: object) -> bool:
    """Whether the live object has all wanted fields. Servers and others add fields of their own."""
    if isinstance(wanted, Mapping):
        if not isinstance(live, Mapping):
            return not wanted and live is None
        return all(contains(live.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        if not isinstance(live, list):
            return not wanted and live is None
        return len(live) == len(wanted) and all(map(contains, live, wanted))
    return live == wanted or (not wanted and live is None)


def _is_configuration(key: Key) -> bool:
    return key.kind == "ConfigMap" and key.name == names.CONFIGMAP_SLO_CONTROLLER


def _of_another(live: Mapping[str, object]) -> str:
    return f"it exists and is not koord's (written by {_makers(live)}); delete it, or take it over with --adopt"


def _makers(live: Mapping[str, object]) -> str:
    return ", ".join(managers_of(live)) or "somebody else"


def _obstacle(key: Key, wanted: Json, live: Json) -> str:
    """An obstacle that no option can overrule; empty if there is none."""
    match key.kind:
        case "CustomResourceDefinition":
            return _unserved(wanted, live)
        case "PriorityClass":
            if live.get("value") != wanted.get("value"):
                have, want = live.get("value"), wanted.get("value")
                return (
                    f"its value is {have}, and pods of this band need {want}; a value cannot be changed, so delete it"
                )
        case "Namespace":
            return _too_strict(wanted, live)
        case "Deployment" | "DaemonSet":
            if _field(live, "spec", "selector") != _field(wanted, "spec", "selector"):
                return (
                    "its selector is another one, which cannot be changed; delete it, or install into another namespace"
                )
        case "ClusterRoleBinding" | "RoleBinding":
            if live.get("roleRef") != wanted.get("roleRef"):
                return "it binds another role, which cannot be changed; delete it"
    return ""


def _unserved(wanted: Json, live: Json) -> str:
    """A version in which objects are stored must stay in the definition, or they become unreadable."""
    served = {version.get("name") for version in _list(wanted, "spec", "versions") if isinstance(version, dict)}
    stored = [str(version) for version in _list(live, "status", "storedVersions")]
    lost = [version for version in stored if version not in served]
    if not lost:
        return ""
    return (
        f"objects are stored as {', '.join(lost)}, which koord does not serve ({', '.join(map(str, served))});"
        " write them again in a version that both serve, and take the old one off status.storedVersions"
    )


def _too_strict(wanted: Json, live: Json) -> str:
    label = f"{POD_SECURITY}/enforce"
    need, has = labels_of(wanted).get(label), labels_of(live).get(label, "privileged")
    if need not in _LEVELS or has not in _LEVELS or _LEVELS.index(str(has)) <= _LEVELS.index(str(need)):
        return ""
    return (
        f"its label {label} is {has}, and koord's pods there need {need}; change the label, or choose another namespace"
    )


def _field(manifest: Mapping[str, object], *path: str) -> object:
    value: object = manifest
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _list(manifest: Mapping[str, object], *path: str) -> list[object]:
    value = _field(manifest, *path)
    return value if isinstance(value, list) else []
