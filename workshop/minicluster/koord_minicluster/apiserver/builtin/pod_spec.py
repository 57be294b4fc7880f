"""The spec of a pod, alone or in a workload's template: everything about it that can be wrong.

`validate_pod_spec` is called with the path of the spec (`spec`, `spec.template.spec`, ...), so that faults name the
field that the author wrote.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from koord.api.kubernetes.pod_costs import DELETION_COST
from koord.api.kubernetes.pod_defaults import container_total
from koord.api.kubernetes.resource_names import is_huge_pages
from koord.api.text import formats
from koord.api.text.quantity import canonical, compare
from koord.api.text.whole_number import whole_number
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, annotation_map, label_map
from koord_minicluster.apiserver.builtin.pod_containers import validate_containers, validate_file_refs
from koord_minicluster.apiserver.builtin.pod_scheduling import (
    validate_gates,
    validate_scheduling,
    validate_spread,
    validate_tolerations,
)
from koord_minicluster.apiserver.builtin.pod_security import pod_security, validate_os
from koord_minicluster.apiserver.builtin.pod_volumes import validate_volumes
from koord_minicluster.apiserver.builtin.resource_amounts import (
    container_resources,
    pod_resources,
)
from koord_minicluster.apiserver.status import duplicate, forbidden, invalid, not_supported, required, too_long

_RESTART: Final = ("Always", "OnFailure", "Never")
_DNS: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION: Final = ("PreemptLowerPriority", "Never")
_INT32_MAX: Final = 2**31 - 1
_MIRROR: Final = "kubernetes.io/config.mirror"


def validate_pod_spec(faults: Faults, spec: Part, path: str, *, pod_name: str = "", is_pod: bool = False) -> None:
    volumes = validate_volumes(faults, spec["volumes"], f"{path}.volumes", pod_name) if spec.get("volumes") else {}
    claims = frozenset(claim["name"] for claim in spec.get("resourceClaims") or () if claim.get("name"))
    if spec.get("resourceClaims"):
        _resource_claims(faults, spec["resourceClaims"], f"{path}.resourceClaims")
    validate_containers(faults, spec, volumes, claims, path)
    if spec.get("resources"):
        _pod_level(faults, spec, f"{path}.resources")
    if spec.get("hostNetwork"):
        _host_network(faults, spec, path, is_pod=is_pod)
    if spec.get("restartPolicy") not in _RESTART:
        faults.append(not_supported(f"{path}.restartPolicy", spec.get("restartPolicy", ""), _RESTART))
    if spec.get("dnsPolicy") not in _DNS:
        faults.append(not_supported(f"{path}.dnsPolicy", spec.get("dnsPolicy", ""), _DNS))
    if spec.get("nodeSelector"):
        label_map(faults, spec["nodeSelector"], f"{path}.nodeSelector")
    if spec.get("securityContext"):
        pod_security(faults, spec["securityContext"], spec, f"{path}.securityContext")
    elif spec.get("shareProcessNamespace"):
        pod_security(faults, {}, spec, f"{path}.securityContext")
    validate_scheduling(faults, spec, path)
    if spec.get("dnsConfig") is not None or spec.get("dnsPolicy") == "None":
        _dns(faults, spec, f"{path}.dnsConfig")
    for i, gate in enumerate(spec.get("readinessGates") or ()):
        kind = gate.get("conditionType", "")
        add_all(faults, f"{path}.readinessGates[{i}].conditionType", kind, formats.label_key(kind))
    if spec.get("schedulingGates"):
        validate_gates(faults, spec["schedulingGates"], f"{path}.schedulingGates")
    if spec.get("topologySpreadConstraints"):
        validate_spread(faults, spec["topologySpreadConstraints"], f"{path}.topologySpreadConstraints")
    if spec.get("hostUsers") is False:
        for key, shown in (("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
            if spec.get(key):
                faults.append(forbidden(f"{path}.{shown}", "when `hostUsers` is false"))
    _host_names(faults, spec, path)
    _names(faults, spec, path)
    deadline_s = spec.get("activeDeadlineSeconds")
    if deadline_s is not None and not 1 <= deadline_s <= _INT32_MAX:
        faults.append(invalid(f"{path}.activeDeadlineSeconds", deadline_s, formats.range_fault(1, _INT32_MAX)))
    if spec.get("tolerations"):
        validate_tolerations(faults, spec["tolerations"], f"{path}.tolerations")
    for i, alias in enumerate(spec.get("hostAliases") or ()):
        where = f"{path}.hostAliases[{i}]"
        add_all(faults, f"{where}.ip", alias.get("ip", ""), formats.ip_address(alias.get("ip", "")))
        for j, name in enumerate(alias.get("hostnames") or ()):
            add_all(faults, f"{where}.hostnames[{j}]", name, formats.dns_subdomain(name))
    _priority(faults, spec, path)
    if spec.get("overhead"):
        container_resources(faults, {"limits": spec["overhead"]}, f"{path}.overhead")
    if spec.get("os") is not None:
        validate_os(faults, spec, path)
    if spec.get("volumes"):
        validate_file_refs(faults, spec, path)


def _names(faults: Faults, spec: Part, path: str) -> None:
    for key, check in (
        ("serviceAccountName", formats.dns_subdomain),
        ("nodeName", formats.dns_subdomain),
        ("hostname", formats.dns_label),
        ("subdomain", formats.dns_label),
    ):
        name = spec.get(key)
        if name and (texts := check(name)):
            add_all(faults, f"{path}.{key}", name, texts)


def _priority(faults: Faults, spec: Part, path: str) -> None:
    for key in ("priorityClassName", "runtimeClassName"):
        if name := spec.get(key):
            add_all(faults, f"{path}.{key}", name, formats.dns_subdomain(name))
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy not in _PREEMPTION:
        where = f"{path}.preemptionPolicy"
        faults.append(not_supported(where, policy, _PREEMPTION) if policy else required(where))


def _host_names(faults: Faults, spec: Part, path: str) -> None:
    name = spec.get("hostnameOverride")
    if name is None:
        return
    where = f"{path}.hostnameOverride"
    if spec.get("setHostnameAsFQDN"):
        faults.append(forbidden(where, "may not be specified when setHostnameAsFQDN is true"))
    if spec.get("hostNetwork"):
        faults.append(forbidden(where, "may not be specified when hostNetwork is true"))
    if len(name) > 64:
        faults.append(too_long(where, 64))
    add_all(faults, where, name, formats.dns_subdomain(name))


def _host_network(faults: Faults, spec: Part, path: str, *, is_pod: bool) -> None:
    for i, container in enumerate(spec.get("containers") or ()):
        for j, port in enumerate(container.get("ports") or ()):
            host_port, own_port = port.get("hostPort", 0), port.get("containerPort", 0)
            if (is_pod or host_port) and host_port != own_port:
                where = f"{path}.containers[{i}].ports[{j}].hostPort"
                faults.append(invalid(where, host_port, "must match `containerPort` when `hostNetwork` is true"))


def _dns(faults: Faults, spec: Part, path: str) -> None:
    config: Part | None = spec.get("dnsConfig")
    if spec.get("dnsPolicy") == "None":
        if config is None:
            faults.append(required(path, "must provide `dnsConfig` when `dnsPolicy` is None"))
            return
        if not config.get("nameservers"):
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            faults.append(required(f"{path}.nameservers", text))
            return
    servers, searches = (config or {}).get("nameservers") or [], (config or {}).get("searches") or []
    if len(servers) > 3:
        faults.append(invalid(f"{path}.nameservers", servers, "must not have more than 3 nameservers"))
    for i, server in enumerate(servers):
        add_all(faults, f"{path}.nameservers[{i}]", server, formats.ip_address(server))
    if len(searches) > 32:
        faults.append(invalid(f"{path}.searches", searches, "must not have more than 32 search paths"))
    if len(" ".join(searches)) > 2048:
        text = "must not have more than 2048 characters (including spaces) in the search list"
        faults.append(invalid(f"{path}.searches", searches, text))
    for i, search in enumerate(searches):
        if search != ".":
            bare = search.removesuffix(".")
            add_all(faults, f"{path}.searches[{i}]", bare, formats.dns_search_path(bare))
    for i, option in enumerate((config or {}).get("options") or ()):
        if not option.get("name"):
            faults.append(required(f"{path}.options[{i}]", "must not be empty"))


def _shown_claim(claim: Part) -> dict[str, object]:
    """As Go's encoder prints it, with its own field names."""
    keys = ("resourceClaimName", "resourceClaimTemplateName")
    return {"Name": claim.get("name", ""), **{key[0].upper() + key[1:]: claim.get(key) for key in keys}}


def _resource_claims(faults: Faults, claims: list[dict[str, Any]], path: str) -> None:
    seen: set[str] = set()
    for i, claim in enumerate(claims):
        where, name = f"{path}[{i}]", claim.get("name", "")
        if not name:
            faults.append(required(f"{where}.name"))
        elif name in seen:
            faults.append(duplicate(f"{where}.name", name))
        else:
            add_all(faults, f"{where}.name", name, formats.dns_label(name))
            seen.add(name)
        sources = [key for key in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(key) is not None]
        if len(sources) > 1:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            faults.append(invalid(where, _shown_claim(claim), text))
        elif not sources:
            text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
            faults.append(invalid(where, _shown_claim(claim), text))
        for key in sources:
            add_all(faults, f"{where}.{key}", claim[key], formats.dns_subdomain(claim[key]))


def _pod_level(faults: Faults, spec: Part, path: str) -> None:
    resources: Part = spec["resources"]
    pod_resources(faults, resources, path)
    requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for key, given, needed in (("requests", requests, container_total(spec, "requests")),
                               ("limits", limits, container_total(spec, "limits"))):  # fmt: skip
        for name, total in needed.items():
            if name in given and (key == "requests" or is_huge_pages(name)) and compare(total, given[name]) > 0:
                text = f"must be greater than or equal to aggregate container {key} of {total}"
                faults.append(invalid(f"{path}.{key}[{name}]", canonical(given[name]), text))
    for i, container in enumerate(spec.get("containers") or ()):
        for name, limit in ((container.get("resources") or {}).get("limits") or {}).items():
            if name in limits and compare(limit, limits[name]) > 0:
                text = f"must be less than or equal to pod limits of {canonical(limits[name])}"
                where = f"{path}.containers[{i}][{name}].limits"
                faults.append(invalid(where, canonical(limit), text))


def validate_pod_annotations(faults: Faults, values: Mapping[str, str] | None, spec: Part, path: str) -> None:
    if not values:
        return
    if _MIRROR in values and not spec.get("nodeName"):
        text = "must set spec.nodeName if mirror pod annotation is set"
        faults.append(invalid(f"{path}[{_MIRROR}]", values[_MIRROR], text))
    cost = values.get(DELETION_COST)
    if cost is not None and not _is_deletion_cost(cost):
        faults.append(invalid(f"{path}[{DELETION_COST}]", cost, "must be a 32bit integer"))


def _is_deletion_cost(cost: str) -> bool:
    # Written as Go prints it: a leading plus or zero would order differently as text.
    digits = cost.removeprefix("-")
    if not digits.isdecimal() or not digits.isascii() or (digits[0] == "0" and cost != "0"):
        return False
    return -(2**31) <= whole_number(cost) < 2**31


def validate_template(faults: Faults, template: Part, path: str) -> None:
    """The pod template of a workload, at `path`."""
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    label_map(faults, meta.get("labels"), f"{path}.labels")
    annotation_map(faults, meta.get("annotations"), f"{path}.annotations")
    validate_pod_annotations(faults, meta.get("annotations"), spec, f"{path}.annotations")
    validate_pod_spec(faults, spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        faults.append(forbidden(f"{path}.spec.ephemeralContainers", text))
