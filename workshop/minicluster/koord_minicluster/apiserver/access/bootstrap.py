"""The roles and bindings that every cluster has, as the real server makes them at its first start.

They stand in `bootstrap.txt`, a line for each rule: verbs, groups (`core` for the nameless one) and resources, or `at`
and URLs. Those of controllers that do not run here are left out. What a cluster already has is left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from typing import Any, Final

from koord_minicluster.apiserver.access.rbac import GROUP
from koord_minicluster.apiserver.resource import Obj

_ANNOTATIONS: Final = {"rbac.authorization.kubernetes.io/autoupdate": "true"}
_LABELS: Final = {"kubernetes.io/bootstrapping": "rbac-defaults"}


def roles_and_bindings() -> list[Obj]:
    """All of them, as objects to be created where missing."""
    text = resources.files("koord_minicluster.apiserver.access").joinpath("bootstrap.txt").read_text()
    objects: list[Obj] = []
    for line in text.splitlines():
        if line.startswith("  "):
            _add(objects[-1], line.split())
        elif line:
            objects.append(_begun(line.split()))
    return objects


def priority_classes() -> Iterator[Obj]:
    """The two classes for parts of the cluster itself."""
    for name, value, description in (
        ("system-node-critical", 2_000_001_000, "For pods that the node they run on cannot do without."),
        ("system-cluster-critical", 2_000_000_000, "For pods that the cluster cannot do without, on whichever node."),
    ):
        yield {
            "kind": "PriorityClass",
            "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": name},
            "value": value,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority",
        }


def _begun(words: list[str]) -> Obj:
    kind, key = words[:2]
    namespace, _, name = key.rpartition("/")
    meta: dict[str, Any] = {"name": name, "labels": dict(_LABELS), "annotations": dict(_ANNOTATIONS)}
    if namespace:
        meta["namespace"] = namespace
    obj: Obj = {"kind": kind, "apiVersion": f"{GROUP}/v1", "metadata": meta}
    match words[2:]:
        case ["to", role_kind, role]:
            obj["roleRef"] = {"apiGroup": GROUP, "kind": role_kind, "name": role}
        case ["with", *labels]:
            meta["labels"] |= dict(label.split("=") for label in labels)
    return obj


def _add(obj: Obj, words: list[str]) -> None:
    match words:
        case ["aggregates", *labels]:
            selector = {"matchLabels": dict(label.split("=") for label in labels)}
            obj.setdefault("aggregationRule", {}).setdefault("clusterRoleSelectors", []).append(selector)
        case ["User" | "Group" as kind, name]:
            obj.setdefault("subjects", []).append({"kind": kind, "apiGroup": GROUP, "name": name})
        case ["ServiceAccount", key]:
            namespace, _, name = key.partition("/")
            obj.setdefault("subjects", []).append({"kind": "ServiceAccount", "namespace": namespace, "name": name})
        case [verbs, "at", *urls]:
            obj.setdefault("rules", []).append({"verbs": verbs.split(","), "nonResourceURLs": urls})
        case [verbs, groups, *names]:
            named = names.index("named") if "named" in names else len(names)
            rule: dict[str, Any] = {
                "verbs": verbs.split(","),
                "apiGroups": ["" if group == "core" else group for group in groups.split(",")],
                "resources": names[:named],
            }
            if names[named + 1 :]:
                rule["resourceNames"] = names[named + 1 :]
            obj.setdefault("rules", []).append(rule)
