"""A container's environment and command line, as kubelet makes them from the pod.

Fields and resources of the pod, keys of ConfigMaps and Secrets, `$(NAME)` in values and arguments (`$$(NAME)` stays
`$(NAME)`). What cannot be had is a `ConfigError` that names the field, and the container waits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from koord.api.kubernetes.resources import amounts
from koord.api.kubernetes.runnable import EnvVar, KeyReference, RunnableContainer, RunnablePod
from koord.api.text.quantity import QuantityError, milli, value

_REFERENCE: Final = re.compile(r"\$(?:\$|\((?P<name>[^()]+)\))")


class ConfigError(ValueError):
    """What a container needs and is not there."""


@dataclass(frozen=True, slots=True)
class Around:
    """What containers may ask for beyond their pod."""

    node_name: str
    host_ip: str
    config_maps: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    secrets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    base: Mapping[str, str] = field(default_factory=dict)
    "What every process gets: PATH and the like."


def environment(pod: RunnablePod, container: RunnableContainer, around: Around) -> dict[str, str]:
    values = {**around.base, "HOSTNAME": pod.spec.hostname or pod.metadata.name}
    for source in container.env_from:
        if source.config_map_ref is not None:
            name, optional, where = source.config_map_ref.name, source.config_map_ref.optional, around.config_maps
            kind = "ConfigMap"
        elif source.secret_ref is not None:
            name, optional, where = source.secret_ref.name, source.secret_ref.optional, around.secrets
            kind = "Secret"
        else:
            continue
        if name in where:
            values |= {f"{source.prefix}{key}": text for key, text in where[name].items()}
        elif not optional:
            raise ConfigError(f"{kind} {name!r} of envFrom is not there")
    for env in container.env:
        text = _value(pod, container, env, around, values)
        if text is not None:
            values[env.name] = text
    return values


def command_line(container: RunnableContainer, env: Mapping[str, str]) -> list[str]:
    """The image is not looked at, so the command must be there."""
    if not container.command:
        raise ConfigError("no command is set: a local node runs commands of this machine, not images")
    return [expanded(word, env) for word in (*container.command, *container.args)]


def expanded(text: str, env: Mapping[str, str]) -> str:
    def meant(match: re.Match[str]) -> str:
        if match["name"] is None:
            return "$"
        return env.get(match["name"], match[0])

    return _REFERENCE.sub(meant, text)


def _value(
    pod: RunnablePod, container: RunnableContainer, env: EnvVar, around: Around, values: Mapping[str, str]
) -> str | None:
    source = env.value_from
    if source is None:
        return expanded(env.value, values)
    if source.field_ref is not None:
        return field_of(pod, source.field_ref.field_path, around)
    if source.resource_field_ref is not None:
        asked = source.resource_field_ref
        others = {other.name: other for other in (*pod.spec.containers, *pod.spec.init_containers)}
        return _resource(others.get(asked.container_name, container), asked.resource, str(asked.divisor))
    if source.config_map_key_ref is not None:
        return _key("ConfigMap", source.config_map_key_ref, around.config_maps)
    if source.secret_key_ref is not None:
        return _key("Secret", source.secret_key_ref, around.secrets)
    return ""


def _key(kind: str, reference: KeyReference, where: Mapping[str, Mapping[str, str]]) -> str | None:
    keys = where.get(reference.name)
    if keys is not None and reference.key in keys:
        return keys[reference.key]
    if reference.optional:
        return None
    what = f"{kind} {reference.name!r} is not there" if keys is None else f"{kind} {reference.name!r} has no key"
    raise ConfigError(f"{what} {reference.key!r}" if keys is not None else what)


def field_of(pod: RunnablePod, path: str, around: Around) -> str:
    meta = pod.metadata
    plain = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "spec.nodeName": around.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": around.host_ip,
        "status.podIP": around.host_ip,
    }
    if path in plain:
        return plain[path]
    for prefix, texts in (("metadata.labels", meta.labels), ("metadata.annotations", meta.annotations)):
        if path.startswith(f"{prefix}['") and path.endswith("']"):
            return texts.get(path[len(prefix) + 2 : -2], "")
    raise ConfigError(f"fieldPath {path!r} is not known; valid are {', '.join(plain)} and metadata.labels['KEY']")


def _resource(container: RunnableContainer, resource: str, divisor: str) -> str:
    part, _, name = resource.partition(".")
    both = {"limits": container.resources.limits, "requests": container.resources.requests}
    if part not in both:
        raise ConfigError(f"resource {resource!r} is not known; valid is limits.NAME or requests.NAME")
    amount = amounts(both[part], capped=True).get(name, 0)
    try:
        if name == "cpu":
            unit = milli(divisor) if divisor not in ("", "0") else 1000
        else:
            unit = value(divisor) if divisor not in ("", "0") else 1
    except QuantityError as error:
        raise ConfigError(f"the divisor of {resource!r}: {error}") from None
    return str(-(-amount // unit))
