"""How an API server is told about admission: the webhooks, by path, and what happens when nobody answers.

Which pods wait for a manager that does not answer is a choice: those that use koord (a label, an annotation or a
resource of its protocol), and those that a profile matches. A batch pod that slipped through would run on resources
meant for services. All other pods are asked about in passing, by entries of their own that are ignored when nobody
answers: a manager that is down does not stop the cluster. Every profile has an entry with its own selectors, so that
API servers themselves know whom it matches. The order of entries is the order of the calls, and what one call gives to
a pod counts for the next entry's conditions: an admitted pod is not asked about twice.

Nodes and bindings go on without a manager: machines must be able to report and pods to start. Configuration goes on
too: `koord colocation off` must work without a manager, and a manager that finds an invalid section keeps the last
valid one. The namespaces of the cluster itself and of koord are never asked about pods, so that nothing there waits for
koord, least of all koord. Quotas in koord's own namespaces are asked about in passing, and what the cluster's own
controllers change or delete with a namespace or an owner not at all: a namespace can go without a manager.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from koord.admission.profiles import CompiledProfile
from koord.admission.request import Gates, Operation, Request
from koord.api.configuration.features import ManagerGate
from koord.api.kubernetes.access import CONTROLLERS
from koord.api.protocol import names
from koord.api.text.selector import LabelSelector, selector_faults

_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
NEVER_ASKED: Final = (names.NAMESPACE_KUBE_SYSTEM, names.NAMESPACE_KOORDINATOR)
REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_WORD: Final = "k.contains('koordinator.sh')"
_RESOURCE: Final = f"{_WORD} || k.startsWith('kubernetes.io/batch-') || k.startsWith('kubernetes.io/mid-')"


def _has_key(map_: str, test: str) -> str:
    return f"(has({map_}) && {map_}.exists(k, {test}))"


def _asks_for_ours(containers: str) -> str:
    lists = " || ".join(_has_key(f"c.resources.{each}", _RESOURCE) for each in ("requests", "limits"))
    return f"(has({containers}) && {containers}.exists(c, has(c.resources) && ({lists})))"


def _uses_koord(pod: str) -> str:
    metadata = " || ".join(_has_key(f"{pod}.metadata.{each}", _WORD) for each in ("labels", "annotations"))
    resources = " || ".join(_asks_for_ours(f"{pod}.spec.{each}") for each in ("containers", "initContainers"))
    return f"{metadata} || {resources} || {_has_key(f'{pod}.spec.overhead', _RESOURCE)}"


USES_KOORD: Final = f"{_uses_koord('object')} || (oldObject != null && ({_uses_koord('oldObject')}))"
"""In CEL: a pod has a label, an annotation or a resource of the protocol, or had before it was changed."""
_WAITS: Final = (("uses-koord", USES_KOORD),)
_IN_PASSING: Final = (("does-not-use-koord", f"!({USES_KOORD})"),)
CLEANERS: Final = (
    CONTROLLERS,
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
)
"""The users under which a cluster deletes what goes with its namespace or its owner."""
_NOT_CLEANED_UP: Final = (
    (
        "not-cleaned-up",
        f"request.operation == 'CREATE' || !(request.userInfo.username in [{', '.join(map(repr, CLEANERS))}])",
    ),
)
IN_PASSING_S: Final = 1
"""How long a pod that does not use koord is held up at most where nobody answers and nobody refuses."""


@dataclass(frozen=True, slots=True)
class Hook:
    """One entry of a webhook configuration."""

    name: str
    path: str
    mutating: bool
    gate: ManagerGate
    operations: tuple[Operation, ...]
    resource: str
    "With its subresource, as in `pods/binding`."
    object_type: str
    "What metrics call it."
    fails_closed: bool
    timeout_s: int
    group: str = ""
    version: str = "v1"
    asked_with: ManagerGate | None = None
    "A further gate: without it the answer is always yes, and API servers need not ask."
    namespace_selector: tuple[dict[str, Any], ...] = ()
    object_selector: tuple[dict[str, Any], ...] = ()
    conditions: tuple[tuple[str, str], ...] = ()
    "Names and expressions in CEL, all of which must hold."


MUTATE_POD: Final = "mpod-create.koordinator.sh"
IN_PASSING_OF_POD: Final = "mpod-create-others.koordinator.sh"
WAITS_S: Final = 5
LONGEST_NAME: Final = 253


def is_cleaned_up(request: Request) -> bool:
    """Whether a cluster's own controllers change or delete something that goes with its namespace or its owner."""
    return request.operation != "CREATE" and request.user in CLEANERS


def _in_passing(hook: Hook, name: str, **changes: Any) -> Hook:
    """The same, for what does not wait for koord."""
    return replace(hook, name=name, fails_closed=False, timeout_s=IN_PASSING_S, **changes)


def _only(*namespaces: str) -> tuple[dict[str, Any], ...]:
    return ({"key": _NAMESPACE_NAME, "operator": "In", "values": sorted({*namespaces})},)


def _apart(hook: Hook, own: str) -> Iterator[Hook]:
    """A hook in two entries: what is in koord's own namespaces does not wait for koord."""
    selector = _only(own, names.NAMESPACE_KOORDINATOR)
    yield replace(hook, namespace_selector=tuple({**each, "operator": "NotIn"} for each in selector))
    kind, _, domain = hook.name.partition(".")
    yield _in_passing(hook, f"{kind}-own.{domain}", namespace_selector=selector)


def _elsewhere(own: str) -> tuple[dict[str, Any], ...]:
    """Namespaces other than the cluster's own and koord's."""
    return (
        {"key": str(names.LABEL_CONTROL_PLANE_NAMESPACE), "operator": "DoesNotExist"},
        {"key": _NAMESPACE_NAME, "operator": "NotIn", "values": sorted({*NEVER_ASKED, own})},
    )


def is_asked_about(namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether pods of a namespace with these labels come to admission at all."""
    return namespace not in NEVER_ASKED and names.LABEL_CONTROL_PLANE_NAMESPACE not in labels


def hooks(gates: Gates, namespace: str = names.NAMESPACE_KOORDINATOR) -> Iterator[Hook]:
    """The webhooks that are on. `namespace` is the one that koord runs in."""
    if gates[ManagerGate.WEBHOOK_FRAMEWORK]:
        yield from (hook for hook in _all(namespace) if gates[hook.gate])


def registered(
    gates: Gates, namespace: str = names.NAMESPACE_KOORDINATOR, profiles: Iterable[CompiledProfile] = ()
) -> Iterator[Hook]:
    """Those of them that API servers are told about, with an entry for each profile."""
    for hook in hooks(gates, namespace):
        if hook.asked_with is not None and not gates[hook.asked_with]:
            continue
        if hook.name == IN_PASSING_OF_POD:
            yield from (_of_profile(hook, each) for each in profiles if _can_be_told(each))
        yield hook


def _can_be_told(profile: CompiledProfile) -> bool:
    """API servers take all entries or none. A selector that makes no sense has none, though such a profile counts as
    matching: nobody can have meant that all pods wait for it. Labels that cannot be match nobody."""
    selectors = (profile.spec.selector, profile.spec.namespace_selector)
    return not any(selector_faults(each) for each in selectors if each is not None)


def _name_of(profile: CompiledProfile) -> str:
    name = f"{profile.name}.{MUTATE_POD}"
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(profile.name.encode()).hexdigest()[:16]
    return f"{profile.name[: LONGEST_NAME - len(MUTATE_POD) - 18].rstrip('-.')}-{digest}.{MUTATE_POD}"


def _of_profile(hook: Hook, profile: CompiledProfile) -> Hook:
    """The entry for those that a profile matches and that do not use koord otherwise: those wait already."""
    return replace(
        hook,
        name=_name_of(profile),
        fails_closed=True,
        timeout_s=WAITS_S,
        namespace_selector=(*hook.namespace_selector, *_expressions(profile.spec.namespace_selector)),
        object_selector=_expressions(profile.spec.selector),
    )


def _expressions(selector: LabelSelector | None) -> tuple[dict[str, Any], ...]:
    if selector is None:
        return ()
    equal = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(selector.match_labels.items())]
    others = [
        {"key": each.key, "operator": str(each.operator), **({"values": list(each.values)} if each.values else {})}
        for each in selector.match_expressions
    ]
    return (*equal, *others)


def _all(namespace: str) -> Iterator[Hook]:
    pods = _elsewhere(namespace)
    mutate = Hook(
        name=MUTATE_POD,
        path=names.WEBHOOK_MUTATE_POD,
        mutating=True,
        gate=ManagerGate.POD_MUTATING_WEBHOOK,
        operations=("CREATE",),
        resource="pods",
        object_type="pod",
        fails_closed=True,
        timeout_s=WAITS_S,
        namespace_selector=pods,
        conditions=_WAITS,
    )
    yield mutate
    yield _in_passing(mutate, IN_PASSING_OF_POD, conditions=_IN_PASSING)
    yield Hook(
        name="mpod-update.koordinator.sh",
        path=names.WEBHOOK_MUTATE_POD,
        mutating=True,
        gate=ManagerGate.POD_MUTATING_WEBHOOK,
        operations=("UPDATE",),
        resource="pods",
        object_type="pod",
        fails_closed=True,
        timeout_s=5,
        namespace_selector=pods,
        object_selector=({"key": str(names.LABEL_MUTATING_UPDATE), "operator": "In", "values": ["true"]},),
        conditions=_NOT_CLEANED_UP,
    )
    yield Hook(
        name="mnode-status.koordinator.sh",
        path=names.WEBHOOK_MUTATE_NODE_STATUS,
        mutating=True,
        gate=ManagerGate.NODE_MUTATING_WEBHOOK,
        operations=("CREATE", "UPDATE"),
        resource="nodes/status",
        object_type="node",
        fails_closed=False,
        timeout_s=2,
    )
    yield Hook(
        name="mreservation-create.koordinator.sh",
        path=names.WEBHOOK_MUTATE_RESERVATION,
        mutating=True,
        gate=ManagerGate.RESERVATION_MUTATING_WEBHOOK,
        operations=("CREATE",),
        resource="reservations",
        object_type="reservation",
        fails_closed=True,
        timeout_s=5,
        group="scheduling.koordinator.sh",
        version="v1alpha1",
    )
    quotas = Hook(
        name="melasticquota.koordinator.sh",
        path=names.WEBHOOK_MUTATE_ELASTIC_QUOTA,
        mutating=True,
        gate=ManagerGate.ELASTIC_MUTATING_WEBHOOK,
        operations=("CREATE",),
        resource="elasticquotas",
        object_type="elasticquota",
        fails_closed=True,
        timeout_s=5,
        group="scheduling.sigs.k8s.io",
        version="v1alpha1",
    )
    yield from _apart(quotas, namespace)
    quotas = Hook(
        name="velasticquota.koordinator.sh",
        path=names.WEBHOOK_VALIDATE_ELASTIC_QUOTA,
        mutating=False,
        gate=ManagerGate.ELASTIC_VALIDATING_WEBHOOK,
        operations=("CREATE", "UPDATE", "DELETE"),
        resource="elasticquotas",
        object_type="elasticquota",
        fails_closed=True,
        timeout_s=5,
        group="scheduling.sigs.k8s.io",
        version="v1alpha1",
        conditions=_NOT_CLEANED_UP,
    )
    yield from _apart(quotas, namespace)
    yield Hook(
        name="vconfigmap.koordinator.sh",
        path=names.WEBHOOK_VALIDATE_CONFIGMAP,
        mutating=False,
        gate=ManagerGate.CONFIG_MAP_VALIDATING_WEBHOOK,
        operations=("CREATE", "UPDATE", "DELETE"),
        resource="configmaps",
        object_type="configmap",
        fails_closed=False,
        timeout_s=2,
        namespace_selector=_only(namespace, names.NAMESPACE_KOORDINATOR),
    )
    yield Hook(
        name="vnode.koordinator.sh",
        path=names.WEBHOOK_VALIDATE_NODE,
        mutating=False,
        gate=ManagerGate.NODE_VALIDATING_WEBHOOK,
        operations=("CREATE", "UPDATE"),
        resource="nodes",
        object_type="node",
        fails_closed=False,
        timeout_s=2,
    )
    validate = Hook(
        name="vpod.koordinator.sh",
        path=names.WEBHOOK_VALIDATE_POD,
        mutating=False,
        gate=ManagerGate.POD_VALIDATING_WEBHOOK,
        operations=("CREATE", "UPDATE"),
        resource="pods",
        object_type="pod",
        fails_closed=True,
        timeout_s=WAITS_S,
        namespace_selector=pods,
        conditions=(*_WAITS, *_NOT_CLEANED_UP),
    )
    yield validate
    yield _in_passing(validate, "vpod-others.koordinator.sh", conditions=_IN_PASSING)
    yield Hook(
        name="vpodbinding.koordinator.sh",
        path=names.WEBHOOK_VALIDATE_POD_BINDING,
        mutating=False,
        gate=ManagerGate.POD_VALIDATING_WEBHOOK,
        operations=("CREATE",),
        resource="pods/binding",
        object_type="pod",
        fails_closed=False,
        timeout_s=2,
        asked_with=ManagerGate.BINDING_ADMISSION_WEBHOOK,
        namespace_selector=pods,
    )
