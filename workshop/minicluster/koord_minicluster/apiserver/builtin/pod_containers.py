"""Containers of a pod: names, ports, environment, hooks, restart policies."""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import Final

from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, backsteps
from koord_minicluster.apiserver.builtin.pod_probes import validate_lifecycle, validate_probes
from koord_minicluster.apiserver.builtin.pod_refs import field_ref, resource_field_ref
from koord_minicluster.apiserver.builtin.pod_security import container_security
from koord_minicluster.apiserver.builtin.pod_volumes import Volumes, validate_mounts
from koord_minicluster.apiserver.builtin.resource_amounts import container_resources
from koord_minicluster.apiserver.remembering import remembering
from koord_minicluster.apiserver.status import duplicate, forbidden, invalid, not_found, not_supported, required

_PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_RESTART_POLICIES: Final = ("Always", "Never", "OnFailure")
_RESTART_OPERATORS: Final = ("In", "NotIn")
_ENV_FIELDS: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
_ONLY_RESTARTING: Final = "may not be set for init containers without restartPolicy=Always"
_NOT_EPHEMERAL: Final = (
    "ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy", "restartPolicy",
    "restartPolicyRules",
)  # fmt: skip


def validate_containers(faults: Faults, spec: Part, volumes: Volumes, claims: Set[str], path: str) -> None:
    """All three lists of containers of a pod."""
    containers = spec.get("containers") or ()
    if not containers:
        faults.append(required(f"{path}.containers"))
    names: set[str] = set()
    grace_s = spec.get("terminationGracePeriodSeconds")
    for i, container in enumerate(containers):
        where = f"{path}.containers[{i}]"
        _common(faults, container, spec, volumes, claims, where)
        name = container.get("name", "")
        if name in names:
            faults.append(duplicate(f"{where}.name", name))
        names.add(name)
        if container.get("lifecycle"):
            validate_lifecycle(faults, container["lifecycle"], grace_s, f"{where}.lifecycle")
        validate_probes(faults, container, where)
        _restart_rules(faults, container, where)
    _host_ports(faults, containers, f"{path}.containers")
    if spec.get("initContainers"):
        _init_containers(faults, spec, volumes, claims, names, grace_s, f"{path}.initContainers")
    if spec.get("ephemeralContainers"):
        _ephemeral_containers(faults, spec, volumes, claims, f"{path}.ephemeralContainers")


def _init_containers(
    faults: Faults, spec: Part, volumes: Volumes, claims: Set[str], names: set[str], grace_s: int | None, path: str
) -> None:
    taken = set(names)
    for i, container in enumerate(spec["initContainers"]):
        where, name = f"{path}[{i}]", container.get("name", "")
        _common(faults, container, spec, volumes, claims, where)
        _restart_rules(faults, container, where)
        if name in taken:
            faults.append(duplicate(f"{where}.name", name))
        elif name:
            taken.add(name)
        _host_ports(faults, [container], path)
        if container.get("restartPolicy") == "Always":
            if container.get("lifecycle"):
                validate_lifecycle(faults, container["lifecycle"], grace_s, f"{where}.lifecycle")
            validate_probes(faults, container, where)
            continue
        for key in ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe"):
            if container.get(key) is not None:
                faults.append(forbidden(f"{where}.{key}", _ONLY_RESTARTING))


def _ephemeral_containers(faults: Faults, spec: Part, volumes: Volumes, claims: Set[str], path: str) -> None:
    others = {c.get("name", "") for c in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ()))}
    taken = set(others)
    for i, container in enumerate(spec["ephemeralContainers"]):
        where, name = f"{path}[{i}]", container.get("name", "")
        _common(faults, container, spec, volumes, claims, where)
        image_without_spaces(faults, container, where)
        if name in taken:
            faults.append(duplicate(f"{where}.name", name))
        taken.add(name)
        target = container.get("targetContainerName")
        if target and target not in others:
            faults.append(not_found(f"{where}.targetContainerName", target))
        unfit = "cannot be set for an Ephemeral Container"
        for key in _NOT_EPHEMERAL:
            if container.get(key):
                faults.append(forbidden(f"{where}.{key}", unfit))
        if any((container.get("resources") or {}).values()):
            faults.append(forbidden(f"{where}.resources", unfit))
        for j, mount in enumerate(container.get("volumeMounts") or ()):
            for key in ("subPath", "subPathExpr"):
                if mount.get(key):
                    faults.append(forbidden(f"{where}.volumeMounts[{j}].{key}", unfit))


def image_without_spaces(faults: Faults, container: Part, path: str) -> None:
    image = container.get("image") or ""
    if image != image.strip():
        faults.append(invalid(f"{path}.image", image, "must not have leading or trailing whitespace"))


def _common(faults: Faults, container: Part, spec: Part, volumes: Volumes, claims: Set[str], path: str) -> None:
    name = container.get("name", "")
    if not name:
        faults.append(required(f"{path}.name"))
    elif texts := formats.dns_label(name):
        add_all(faults, f"{path}.name", name, texts)
    if not container.get("image"):
        faults.append(required(f"{path}.image"))
    policy = container.get("terminationMessagePolicy", "")
    if policy not in _MESSAGE_POLICIES:
        faults.append(not_supported(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES))
    if container.get("ports"):
        _ports(faults, container["ports"], f"{path}.ports")
    if container.get("env"):
        _env(faults, container["env"], f"{path}.env")
    if container.get("envFrom"):
        _env_from(faults, container["envFrom"], f"{path}.envFrom")
    if container.get("volumeMounts") or container.get("volumeDevices"):
        validate_mounts(faults, container, volumes, path)
    policy = container.get("imagePullPolicy", "")
    if policy not in _PULL_POLICIES:
        faults.append(not_supported(f"{path}.imagePullPolicy", policy, _PULL_POLICIES))
    if container.get("resources"):
        container_resources(faults, container["resources"], f"{path}.resources", claims)
    if container.get("resizePolicy"):
        _resize_policies(faults, container["resizePolicy"], spec, f"{path}.resizePolicy")
    if container.get("securityContext"):
        container_security(faults, container["securityContext"], spec, f"{path}.securityContext")


@remembering
def _ports(faults: Faults, ports: Sequence[Part], path: str) -> None:
    names: set[str] = set()
    for i, port in enumerate(ports):
        where, name = f"{path}[{i}]", port.get("name")
        if name:
            if texts := formats.port_name(name):
                add_all(faults, f"{where}.name", name, texts)
            elif name in names:
                faults.append(duplicate(f"{where}.name", name))
            names.add(name)
        number = port.get("containerPort")
        if not number:
            faults.append(required(f"{where}.containerPort"))
        elif not 1 <= number <= 65535:
            add_all(faults, f"{where}.containerPort", number, formats.port_number(number))
        if host_port := port.get("hostPort"):
            add_all(faults, f"{where}.hostPort", host_port, formats.port_number(host_port))
        if port.get("protocol") not in _PROTOCOLS:
            faults.append(not_supported(f"{where}.protocol", port.get("protocol", ""), _PROTOCOLS))


def _host_ports(faults: Faults, containers: Sequence[Part], path: str) -> None:
    taken: set[str] = set()
    for i, container in enumerate(containers):
        for j, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in taken:
                faults.append(duplicate(f"{path}[{i}].ports[{j}].hostPort", key))
            taken.add(key)


@remembering
def _env(faults: Faults, variables: Sequence[Part], path: str) -> None:
    for i, variable in enumerate(variables):
        name = variable.get("name", "")
        if not name:
            faults.append(required(f"{path}[{i}].name"))
        elif texts := formats.env_name(name):
            add_all(faults, f"{path}[{i}].name", name, texts)
        if (source := variable.get("valueFrom")) is not None:
            _value_from(faults, variable, source, f"{path}[{i}].valueFrom")


def _value_from(faults: Faults, variable: Part, source: Part, path: str) -> None:
    sources = [key for key, content in source.items() if content is not None]
    if source.get("fieldRef") is not None:
        field_ref(faults, source["fieldRef"], f"{path}.fieldRef", _ENV_FIELDS)
    if source.get("resourceFieldRef") is not None:
        resource_field_ref(faults, source["resourceFieldRef"], f"{path}.resourceFieldRef", in_volume=False)
    for key in ("configMapKeyRef", "secretKeyRef"):
        if (ref := source.get(key)) is not None:
            add_all(faults, f"{path}.{key}.name", ref.get("name", ""), formats.dns_subdomain(ref.get("name", "")))
            if not ref.get("key"):
                faults.append(required(f"{path}.{key}.key"))
            else:
                add_all(faults, f"{path}.{key}.key", ref["key"], formats.config_key(ref["key"]))
    if (file := source.get("fileKeyRef")) is not None:
        _file_ref(faults, file, f"{path}.fileKeyRef")
    if not sources:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        faults.append(invalid(path, "", text))
    elif variable.get("value"):
        faults.append(invalid(path, "", "may not be specified when `value` is not empty"))
    elif len(sources) > 1:
        faults.append(invalid(path, "", "may not have more than one field specified at a time"))


def _file_ref(faults: Faults, ref: Part, path: str) -> None:
    if not ref.get("key"):
        faults.append(required(f"{path}.key"))
    else:
        add_all(faults, f"{path}.key", ref["key"], formats.env_name(ref["key"]))
    if not ref.get("volumeName"):
        faults.append(required(f"{path}.volumeName"))
    else:
        add_all(faults, f"{path}.volumeName", ref["volumeName"], formats.dns_label(ref["volumeName"]))
    if not ref.get("path"):
        faults.append(required(f"{path}.path"))
    else:
        backsteps(faults, f"{path}.path", ref["path"])


def validate_file_refs(faults: Faults, spec: Part, path: str) -> None:
    """Files that environment variables are read from must lie in an emptyDir of the pod."""
    volumes = {volume.get("name", ""): volume for volume in spec.get("volumes") or ()}
    for group in ("containers", "initContainers", "ephemeralContainers"):
        for i, container in enumerate(spec.get(group) or ()):
            for j, variable in enumerate(container.get("env") or ()):
                file = (variable.get("valueFrom") or {}).get("fileKeyRef")
                if file is None:
                    continue
                where, name = f"{path}.{group}[{i}].env[{j}].valueFrom.fileKeyRef.volumeName", file.get("volumeName")
                if name not in volumes:
                    faults.append(not_found(where, name or ""))
                elif volumes[name].get("emptyDir") is None:
                    faults.append(invalid(where, name, "referenced volume must be of type emptyDir"))


def _env_from(faults: Faults, sources: Sequence[Part], path: str) -> None:
    for i, source in enumerate(sources):
        where = f"{path}[{i}]"
        if prefix := source.get("prefix"):
            add_all(faults, f"{where}.prefix", prefix, formats.env_name(prefix))
        refs = [key for key in ("configMapRef", "secretRef") if source.get(key) is not None]
        for key in refs:
            name = source[key].get("name", "")
            if not name:
                faults.append(required(f"{where}.{key}.name"))
            else:
                add_all(faults, f"{where}.{key}.name", name, formats.dns_subdomain(name))
        if not refs:
            faults.append(invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(refs) > 1:
            faults.append(invalid(path, "", "may not have more than one field specified at a time"))


def _restart_rules(faults: Faults, container: Part, path: str) -> None:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        if rules:
            faults.append(required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used"))
    elif policy not in _RESTART_POLICIES:
        faults.append(not_supported(f"{path}.restartPolicy", policy, _RESTART_POLICIES))
    for i, rule in enumerate(rules):
        where, codes = f"{path}.restartPolicyRules[{i}]", rule.get("exitCodes")
        if rule.get("action") != "Restart":
            faults.append(not_supported(f"{where}.action", rule.get("action", ""), ("Restart",)))
        if codes is None:
            faults.append(required(f"{where}.exitCodes", "must be specified"))
        elif codes.get("operator") not in _RESTART_OPERATORS:
            operator = codes.get("operator", "")
            faults.append(not_supported(f"{where}.exitCodes.operator", operator, _RESTART_OPERATORS))


def _resize_policies(faults: Faults, policies: Sequence[Part], spec: Part, path: str) -> None:
    seen: set[str] = set()
    for i, policy in enumerate(policies):
        name, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            faults.append(duplicate(f"{path}[{i}]", name))
        seen.add(name)
        for given, allowed in ((name, ("cpu", "memory")), (restart, ("NotRequired", "RestartContainer"))):
            if not given:
                faults.append(required(path))
            elif given not in allowed:
                faults.append(not_supported(path, given, allowed))
        if spec.get("restartPolicy") == "Never" and restart != "NotRequired":
            faults.append(invalid(path, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'"))
