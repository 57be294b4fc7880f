"""A webhook entry, and the parts that entries are made of. `hooks` says which entries are registered.

Which pods wait for a manager that does not answer is a choice: pods that use koord (a label, an annotation or a
resource of its protocol), and pods that a profile matches. A batch pod that slipped through would run on resources
meant for services. All other pods have entries of their own that are ignored when the manager does not answer: a
manager that is down does not stop the cluster. Every profile has an entry with its own selectors, so that API servers
know which pods it matches. The order of entries is the order of the calls, and changes from one call count for the
conditions of the next entry: an admitted pod is not reviewed twice.

Nodes and bindings continue without a manager: machines must be able to report and pods to start. Configuration does
too: `koord colocation off` must work without a manager, and a manager that finds an invalid section keeps the last
valid one. Pods in the cluster's own namespaces and in koord's are never reviewed, so that nothing there waits for
koord, least of all koord. Quotas in koord's own namespaces have entries that are ignored when the manager does not
answer. Changes and deletions by the cluster's own controllers, with a namespace or an owner, are not reviewed: a
namespace can be deleted without a manager.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from koord.admission.request import Operation, Request
from koord.api.configuration.features import ManagerGate
from koord.api.kubernetes.access import CONTROLLERS
from koord.api.protocol import names

_NAMESPACE_NAME: Final = "kubernetes.io/metadata.name"
NEVER_ASKED: Final = (names.NAMESPACE_KUBE_SYSTEM, names.NAMESPACE_KOORDINATOR)
REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_WORD: Final = "k.contains('koordinator.sh')"
_RESOURCE: Final = f"{_WORD} || k.startsWith('kubernetes.io/batch-') || k.startsWith('kubernetes.io/mid-')"


def _has_key(map_: str, test: str) -> str:
    return f"(has({map_}) && {map_}.exists(k, {test}))"


def _asks_for_ours(containers: str) -> str:
    lists = " || ".join(_has_key(f"c.resources.{field}", _RESOURCE) for field in ("requests", "limits"))
    return f"(has({containers}) && {containers}.exists(c, has(c.resources) && ({lists})))"


def _uses_koord(pod: str) -> str:
    metadata = " || ".join(_has_key(f"{pod}.metadata.{field}", _WORD) for field in ("labels", "annotations"))
    resources = " || ".join(_asks_for_ours(f"{pod}.spec.{field}") for field in ("containers", "initContainers"))
    return f"{metadata} || {resources} || {_has_key(f'{pod}.spec.overhead', _RESOURCE)}"


USES_KOORD: Final = f"{_uses_koord('object')} || (oldObject != null && ({_uses_koord('oldObject')}))"
"""In CEL: a pod has a label, an annotation or a resource of the protocol, or had before it was changed."""
WAITS: Final = (("uses-koord", USES_KOORD),)
IN_PASSING: Final = (("does-not-use-koord", f"!({USES_KOORD})"),)
CLEANERS: Final = (
    CONTROLLERS,
    "system:serviceaccount:kube-system:generic-garbage-collector",
    "system:serviceaccount:kube-system:namespace-controller",
)
"""The users under which a cluster deletes what goes with its namespace or its owner."""
NOT_CLEANED_UP: Final = (
    (
        "not-cleaned-up",
        f"request.operation == 'CREATE' || !(request.userInfo.username in [{', '.join(map(repr, CLEANERS))}])",
    ),
)
IN_PASSING_S: Final = 1
"""How long a pod that does not use koord waits at most for a manager that does not answer."""


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
    "Names and expressions in CEL. All of them must hold."
    per_profile: bool = False
    "Whether an entry for each profile comes before this one."


WAITS_S: Final = 5


def is_cleaned_up(request: Request) -> bool:
    """Whether a cluster's own controllers change or delete something that goes with its namespace or its owner."""
    return request.operation != "CREATE" and request.user in CLEANERS


def in_passing(hook: Hook, name: str, **changes: Any) -> Hook:
    """The same, for what does not wait for koord."""
    return replace(hook, name=name, fails_closed=False, timeout_s=IN_PASSING_S, **changes)


def only_in(*namespaces: str) -> tuple[dict[str, Any], ...]:
    return ({"key": _NAMESPACE_NAME, "operator": "In", "values": sorted({*namespaces})},)


def apart(hook: Hook, own: str) -> Iterator[Hook]:
    """A hook in two entries: what is in koord's own namespaces does not wait for koord."""
    selector = only_in(own, names.NAMESPACE_KOORDINATOR)
    yield replace(hook, namespace_selector=tuple({**expression, "operator": "NotIn"} for expression in selector))
    kind, _, domain = hook.name.partition(".")
    yield in_passing(hook, f"{kind}-own.{domain}", namespace_selector=selector)


def elsewhere(own: str) -> tuple[dict[str, Any], ...]:
    """Namespaces other than the cluster's own and koord's."""
    return (
        {"key": str(names.LABEL_CONTROL_PLANE_NAMESPACE), "operator": "DoesNotExist"},
        {"key": _NAMESPACE_NAME, "operator": "NotIn", "values": sorted({*NEVER_ASKED, own})},
    )


def is_asked_about(namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether pods of a namespace with these labels come to admission at all."""
    return namespace not in NEVER_ASKED and names.LABEL_CONTROL_PLANE_NAMESPACE not in labels
