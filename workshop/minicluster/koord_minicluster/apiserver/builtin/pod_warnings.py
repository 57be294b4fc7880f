"""What is allowed in a pod but probably not meant; told to the client beside the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from koord.api.machinery.short_cache import short_cache
from koord.api.text import formats
from koord.api.text.quantity import Number, canonical, parse
from koord_minicluster.apiserver.builtin.checks import Part

_GROUPS: Final = ("initContainers", "containers", "ephemeralContainers")
_AFFINITIES: Final = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
_IN_BYTES: Final = ("memory", "ephemeral-storage")
_OLD_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": 'deprecated since v1.17; use "topology.kubernetes.io/region" instead',
    "failure-domain.beta.kubernetes.io/zone": 'deprecated since v1.17; use "topology.kubernetes.io/zone" instead',
    "beta.kubernetes.io/instance-type": 'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead',
}
_OLD_ANNOTATIONS: Final = {
    "scheduler.alpha.kubernetes.io/critical-pod": (
        'non-functional in v1.16+; use the "priorityClassName" field instead'
    ),
    "security.alpha.kubernetes.io/sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "security.alpha.kubernetes.io/unsafe-sysctls": 'non-functional in v1.11+; use the "sysctls" field instead',
    "seccomp.security.alpha.kubernetes.io/pod": 'non-functional in v1.27+; use the "seccompProfile" field instead',
}


def pod_warnings(pod: Part) -> list[str]:
    meta, spec = pod["metadata"], pod["spec"]
    warnings: list[str] = []
    if texts := formats.dns_label(meta.get("name", "")):
        listed = " ".join(texts)
        warnings.append(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; "
            f"a DNS label is recommended: [{listed}]"
        )
    return warnings + spec_warnings(spec, meta, "")


def template_warnings(template: Part | None, path: str) -> list[str]:
    if not template:
        return []
    return spec_warnings(template.get("spec") or {}, template.get("metadata") or {}, f"{path}.")


def spec_warnings(spec: Part, meta: Part, path: str) -> list[str]:
    """`path` ends with a dot, or is empty for a pod."""
    if _is_plain(spec, meta):
        return []
    return [*_scheduling(spec, meta, path), *_lists(spec, path), *_containers(spec, path), *_rest(spec, path)]


_RARE: Final = frozenset(
    {
        "nodeSelector",
        "topologySpreadConstraints",
        "hostAliases",
        "imagePullSecrets",
        "initContainers",
        "ephemeralContainers",
    }
)


def _is_plain(spec: Part, meta: Part) -> bool:
    """Whether there is surely nothing to say, as of most pods; at a fraction of what it takes to say it."""
    if not _RARE.isdisjoint(spec) or not _OLD_ANNOTATIONS.keys().isdisjoint(meta.get("annotations") or ()):
        return False
    ports = 0
    for container in spec.get("containers") or ():
        ports += len(container.get("ports") or ())
        variables = container.get("env") or ()
        if len(variables) > 1 and len({variable.get("name") for variable in variables}) < len(variables):
            return False
        for amounts in (container.get("resources") or {}).values():
            if isinstance(amounts, dict):
                for name in _IN_BYTES:
                    if name in amounts and _is_fraction(amounts[name]):
                        return False
    for volume in spec.get("volumes") or ():
        if "gitRepo" in volume:
            return False
    return ports <= 1 and not any(_rest(spec, ""))


def _scheduling(spec: Part, meta: Part, path: str) -> Iterator[str]:
    for key in spec.get("nodeSelector") or ():
        if key in _OLD_LABELS:
            yield f"{path}spec.nodeSelector[{key}]: {_OLD_LABELS[key]}"
    for i, constraint in enumerate(spec.get("topologySpreadConstraints") or ()):
        where, key = f"{path}spec.topologySpreadConstraints[{i}]", constraint.get("topologyKey", "")
        if key in _OLD_LABELS:
            yield f"{where}.topologyKey: {key} is {_OLD_LABELS[key]}"
        if constraint.get("labelSelector") is None:
            yield f"{where}.labelSelector: a null labelSelector results in matching no pod"
    annotations: Mapping[str, str] = meta.get("annotations") or {}
    if annotations:
        for key, text in _OLD_ANNOTATIONS.items():
            if key in annotations:
                yield f"{path}metadata.annotations[{key}]: {text}"


def _lists(spec: Part, path: str) -> Iterator[str]:
    for i, volume in enumerate(spec.get("volumes") or ()):
        if volume.get("gitRepo") is not None:
            yield f"{path}spec.volumes[{i}].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"
    for name, key in (("hostAliases", "ip"), ("imagePullSecrets", "name")):
        seen: set[str] = set()
        for i, item in enumerate(spec.get(name) or ()):
            value = item.get(key, "")
            if value in seen:
                yield f'{path}spec.{name}[{i}].{key}: duplicate {key} "{value}"'
            seen.add(value)
    for i, item in enumerate(spec.get("imagePullSecrets") or ()):
        if not item.get("name"):
            yield f'{path}spec.imagePullSecrets[{i}].name: invalid empty name ""'


def _containers(spec: Part, path: str) -> Iterator[str]:
    ports: dict[tuple[int, str], list[tuple[str, Part]]] = {}
    port_names: dict[str, str] = {}
    for group in _GROUPS:
        for i, container in enumerate(spec.get(group) or ()):
            where = f"{path}spec.{group}[{i}]"
            if resources := container.get("resources"):
                yield from _fractions(resources, where)
            variables = container.get("env") or ()
            if len(variables) > 1 and len({variable.get("name") for variable in variables}) < len(variables):
                yield from _hidden_variables(container, where)
            for j, port in enumerate(container.get("ports") or ()):
                yield from _port(port, f"{where}.ports[{j}]", ports, port_names)


def _fractions(resources: Part, where: str) -> Iterator[str]:
    for name in _IN_BYTES:
        for key in ("limits", "requests"):
            amounts = resources.get(key)
            if amounts and name in amounts and _is_fraction(quantity := amounts[name]):
                yield (
                    f'{where}.resources.{key}[{name}]: fractional byte value "{canonical(quantity)}" is invalid, '
                    "must be an integer"
                )


@short_cache(4096)
def _is_fraction(quantity: Number) -> bool:
    mantissa, exponent, _ = parse(quantity)
    return exponent < 0 and mantissa % 10**-exponent != 0


def _hidden_variables(container: Part, where: str) -> Iterator[str]:
    seen: set[str] = set()
    for i, variable in enumerate(container["env"]):
        name, value = variable.get("name", ""), variable.get("value", "")
        reference = f"$({name})"
        if name in seen and (variable.get("valueFrom") or value == reference or reference not in value):
            text = f'hides previous definition of "{name}", which may be dropped when using apply'
            yield f"{where}.env[{i}]: {text}"
        seen.add(name)


def _port(
    port: Part, where: str, ports: dict[tuple[int, str], list[tuple[str, Part]]], names: dict[str, str]
) -> Iterator[str]:
    host_ip, host_port = port.get("hostIP", ""), port.get("hostPort", 0)
    others = ports.setdefault((port.get("containerPort", 0), port.get("protocol", "")), [])
    for other_where, other in others:
        other_ip, other_port = other.get("hostIP", ""), other.get("hostPort", 0)
        if (host_ip, host_port) == (other_ip, other_port):
            yield f"{where}: duplicate port definition with {other_where}"
        elif not host_port or not other_port:
            yield f"{where}: overlapping port definition with {other_where}"
        elif host_port == other_port and bool(host_ip) != bool(other_ip):
            yield f"{where}: dangerously ambiguous port definition with {other_where}"
    others.append((where, port))
    if name := port.get("name"):
        first = names.setdefault(name, where)
        if first != where:
            yield (
                f'{where}: duplicate port name "{name}" with {first}, services and probes that select ports by name '
                f"will use {first}"
            )


def _rest(spec: Part, path: str) -> Iterator[str]:
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{path}spec.terminationGracePeriodSeconds: {text}"
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity") if affinity else ():
        part = affinity.get(kind) or {}
        for how in (
            "requiredDuringSchedulingIgnoredDuringExecution",
            "preferredDuringSchedulingIgnoredDuringExecution",
        ):
            for i, term in enumerate(part.get(how) or ()):
                where = f"{path}spec.affinity.{kind}.{how}[{i}]"
                if how.startswith("preferred"):
                    term, where = term.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm"
                if term.get("labelSelector") is None:
                    yield f"{where}.labelSelector: a null labelSelector results in matching no pod"
