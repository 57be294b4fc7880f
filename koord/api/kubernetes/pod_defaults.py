"""What a pod's author left out: the defaults of pods and of the pod templates of workloads.

The API server fills them in before admission; offline commands do the same.
Defaults are filled in twice in a write (before and after admission), so each is written to change nothing the second
time. Requests that follow from limits, host ports and service links are given to pods alone, not to templates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from koord.api.kubernetes.resource_names import is_huge_pages, may_overcommit
from koord.api.machinery.short_cache import short_cache
from koord.api.text.quantity import (
    Number,
    canonical,
    compare,
    from_milli,
    from_value,
    milli,
    parse,
    rounded,
    value,
)

Obj = dict[str, Any]

_READABLE_MODE: Final = 0o644
_HOUR_S: Final = 3600
_IMAGE_TAG: Final = re.compile(r":(\w[\w.-]{0,127})$")
_IMAGE_PATH: Final = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*")
_IMAGE_DIGEST: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_PROBE_TIMES: Final = (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3))
_POD_LEVEL: Final = ("cpu", "memory")


def default_pod(pod: Obj) -> None:
    spec = pod.setdefault("spec", {})
    _settle_addresses(pod.get("status") or {})
    default_pod_spec(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    containers = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    for container in containers:
        resources = container["resources"]
        if limits := resources.get("limits"):
            resources["requests"] = {**limits, **(resources.get("requests") or {})}
    if pod_level := spec.get("resources"):
        _default_pod_level(pod_level, spec)
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in containers:
            for port in container.get("ports") or ():
                if not port.get("hostPort"):
                    port["hostPort"] = port.get("containerPort", 0)


def default_template(template: Obj | None) -> None:
    """The pod template of a workload."""
    if template is None:
        return
    template.setdefault("metadata", {})
    default_pod_spec(template.setdefault("spec", {}))


def _settle_addresses(status: Obj) -> None:
    """`podIP` is the first of `podIPs`; where they contradict each other, it is the one that counts."""
    address, addresses = status.get("podIP"), status.get("podIPs") or ()
    if address and (not addresses or addresses[0].get("ip") != address):
        status["podIPs"] = [{"ip": address}]
    elif addresses and not address:
        status["podIP"] = addresses[0].get("ip", "")


def default_pod_spec(spec: Obj) -> None:
    if not spec.get("dnsPolicy"):
        spec["dnsPolicy"] = "ClusterFirst"
    if not spec.get("restartPolicy"):
        spec["restartPolicy"] = "Always"
    if not spec.get("schedulerName"):
        spec["schedulerName"] = "default-scheduler"
    if spec.get("securityContext") is None:
        spec["securityContext"] = {}
    if spec.get("terminationGracePeriodSeconds") is None:
        spec["terminationGracePeriodSeconds"] = 30
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        # Two names of one field, kept equal for clients that know only the older.
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for volume in spec.get("volumes") or ():
        _default_volume(volume)
    for group in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(group) or ():
            _default_container(container)
    round_amounts(spec.get("overhead"))


def _default_container(container: Obj) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = "Always" if is_latest(container.get("image") or "") else "IfNotPresent"
    if not container.get("terminationMessagePath"):
        container["terminationMessagePath"] = "/dev/termination-log"
    if not container.get("terminationMessagePolicy"):
        container["terminationMessagePolicy"] = "File"
    resources = container.get("resources")
    if resources is None:
        container["resources"] = {}
    else:
        round_amounts(resources.get("limits"))
        round_amounts(resources.get("requests"))
    for port in container.get("ports") or ():
        if not port.get("protocol"):
            port["protocol"] = "TCP"
    for variable in container.get("env") or ():
        if source := variable.get("valueFrom"):
            _default_field_ref(source.get("fieldRef"))
            if (file := source.get("fileKeyRef")) is not None:
                file.setdefault("optional", False)
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (probe := container.get(name)) is not None:
            _default_probe(probe)
    if lifecycle := container.get("lifecycle"):
        for hook in (lifecycle.get("postStart"), lifecycle.get("preStop")):
            if hook:
                _default_http_get(hook.get("httpGet"))


def _default_probe(probe: Obj) -> None:
    for key, default in _PROBE_TIMES:
        if not probe.get(key):
            probe[key] = default
    _default_http_get(probe.get("httpGet"))
    if (grpc := probe.get("grpc")) is not None and grpc.get("service") is None:
        grpc["service"] = ""


def _default_http_get(action: Obj | None) -> None:
    if action is not None:
        if not action.get("path"):
            action["path"] = "/"
        if not action.get("scheme"):
            action["scheme"] = "HTTP"


def _default_field_ref(ref: Obj | None) -> None:
    if ref is not None and not ref.get("apiVersion"):
        ref["apiVersion"] = "v1"


def _default_volume(volume: Obj) -> None:
    sources = [(key, source) for key, source in volume.items() if key != "name" and source is not None]
    if not sources:
        volume["emptyDir"] = {}
    for key, source in sources:
        if default := _OF_SOURCES.get(key):
            default(source)


def _default_empty_dir(source: Obj) -> None:
    if (limit := source.get("sizeLimit")) is not None:
        source["sizeLimit"] = canonical(limit)


def _default_host_path(source: Obj) -> None:
    if source.get("type") is None:
        source["type"] = ""


def _default_mode(source: Obj) -> None:
    if source.get("defaultMode") is None:
        source["defaultMode"] = _READABLE_MODE


def _default_downward(source: Obj) -> None:
    _default_mode(source)
    _default_downward_items(source.get("items"))


def _default_projected(source: Obj) -> None:
    _default_mode(source)
    for part in source.get("sources") or ():
        _default_downward_items((part.get("downwardAPI") or {}).get("items"))
        if (token := part.get("serviceAccountToken")) is not None and token.get("expirationSeconds") is None:
            token["expirationSeconds"] = _HOUR_S


def _default_image(source: Obj) -> None:
    if not source.get("pullPolicy"):
        source["pullPolicy"] = "Always" if is_latest(source.get("reference") or "") else "IfNotPresent"


def _default_ephemeral(source: Obj) -> None:
    if template := source.get("volumeClaimTemplate"):
        template.setdefault("metadata", {})
        default_claim_spec(template.setdefault("spec", {}))


_OF_SOURCES: Final[Mapping[str, Callable[[Obj], None]]] = {
    "configMap": _default_mode,
    "downwardAPI": _default_downward,
    "emptyDir": _default_empty_dir,
    "ephemeral": _default_ephemeral,
    "hostPath": _default_host_path,
    "image": _default_image,
    "projected": _default_projected,
    "secret": _default_mode,
}


def default_claim_spec(spec: Obj) -> None:
    """The spec of a PersistentVolumeClaim, alone or as a template."""
    if spec.get("volumeMode") is None:
        spec["volumeMode"] = "Filesystem"
    resources = spec.get("resources")
    if resources is None:
        spec["resources"] = {}
    else:
        round_amounts(resources.get("limits"))
        round_amounts(resources.get("requests"))


def _default_downward_items(items: Iterable[Obj] | None) -> None:
    for item in items or ():
        _default_field_ref(item.get("fieldRef"))


def round_amounts(amounts: dict[str, Any] | None) -> None:
    """Each quantity of a resource list as the server keeps it."""
    if amounts:
        for name, quantity in amounts.items():
            amounts[name] = rounded(quantity)


@short_cache(4096)
def is_latest(image: str) -> bool:
    """Whether an image's tag is `latest`, which it is where neither tag nor digest is given."""
    name, _, digest = image.partition("@")
    tag = _IMAGE_TAG.search(name)
    repository = name[: tag.start()] if tag else name
    host, slash, path = repository.partition("/")
    if not slash or not (set(host) & set(".:") or host == "localhost" or host != host.lower()):
        path = repository
    # A name that is none has no tag either.
    if not _IMAGE_PATH.fullmatch(path) or ("@" in image and not _IMAGE_DIGEST.fullmatch(digest)):
        return False
    return tag[1] == "latest" if tag else not digest


def _default_pod_level(resources: Obj, spec: Obj) -> None:
    """Resources of the pod as a whole: what is left out comes from its containers, or from the limits."""
    round_amounts(resources.get("limits"))
    round_amounts(resources.get("requests"))
    limits: dict[str, Number] = dict(resources.get("limits") or {})
    requests: dict[str, Number] = dict(resources.get("requests") or {})
    if not limits and not requests:
        return
    for name, total in container_total(spec, "limits").items():
        if is_huge_pages(name):
            limits.setdefault(name, total)
    if limits:
        for name, total in container_total(spec, "requests").items():
            if name in _POD_LEVEL and may_overcommit(name):
                requests.setdefault(name, total)
        for name, limit in limits.items():
            if name in _POD_LEVEL or is_huge_pages(name):
                requests.setdefault(name, limit)
    for key, amounts in (("limits", limits), ("requests", requests)):
        if amounts:
            resources[key] = amounts


def container_total(spec: Mapping[str, Any], key: str) -> dict[str, str]:
    """What a pod's containers request (or are limited to) in sum: all that run together, or more for one that comes
    first."""
    running: dict[str, list[Number]] = {}
    highest: dict[str, str] = {}
    sidecars: dict[str, list[Number]] = {}
    for container in spec.get("initContainers") or ():
        amounts: Mapping[str, Number] = (container.get("resources") or {}).get(key) or {}
        stays = container.get("restartPolicy") == "Always"
        for name, quantity in amounts.items():
            if stays:
                sidecars.setdefault(name, []).append(quantity)
                running.setdefault(name, []).append(quantity)
            peak = _sum([*sidecars.get(name, ())] if stays else [*sidecars.get(name, ()), quantity])
            if name not in highest or compare(peak, highest[name]) > 0:
                highest[name] = peak
    for container in spec.get("containers") or ():
        for name, quantity in ((container.get("resources") or {}).get(key) or {}).items():
            running.setdefault(name, []).append(quantity)
    totals: dict[str, str] = {name: _sum(quantities) for name, quantities in running.items()}
    for name, peak in highest.items():
        if name not in totals or compare(peak, totals[name]) > 0:
            totals[name] = canonical(peak)
    return totals


def _sum(quantities: list[Number]) -> str:
    """In the format of the first."""
    if len(quantities) == 1:
        return canonical(quantities[0])
    if parse(quantities[0]).format == "BinarySI" and all(parse(q).exponent >= 0 for q in quantities):
        return from_value(sum(value(q) for q in quantities), binary=True)
    return from_milli(sum(milli(q) for q in quantities))
