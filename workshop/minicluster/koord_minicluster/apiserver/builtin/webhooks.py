"""Configurations of admission webhooks: which requests they see, and where they are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, choice, label_selector
from koord_minicluster.apiserver.printing import AGE, NAME, of
from koord_minicluster.apiserver.resource import Column, Obj, Strategy
from koord_minicluster.apiserver.status import Cause, duplicate, invalid, not_supported, required, too_many

_OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_SCOPES: Final = ("*", "Cluster", "Namespaced")
_NO_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_REVIEW_VERSIONS: Final = ("v1", "v1beta1")
_DESIRED: Final = "; desired format: https://host[/path]"


def default_validating(config: Obj) -> None:
    for hook in config.get("webhooks") or ():
        _default_hook(hook)


def default_mutating(config: Obj) -> None:
    for hook in config.get("webhooks") or ():
        _default_hook(hook)
        if hook.get("reinvocationPolicy") is None:
            hook["reinvocationPolicy"] = "Never"


def _default_hook(hook: Obj) -> None:
    for key, value in (("failurePolicy", "Fail"), ("matchPolicy", "Equivalent"), ("timeoutSeconds", 10)):
        if hook.get(key) is None:
            hook[key] = value
    for key in ("namespaceSelector", "objectSelector"):
        if hook.get(key) is None:
            hook[key] = {}
    for rule in hook.get("rules") or ():
        if rule.get("scope") is None:
            rule["scope"] = "*"
    service = (hook.get("clientConfig") or {}).get("service")
    if service is not None and service.get("port") is None:
        service["port"] = 443


def validate(config: Obj) -> Sequence[Cause]:
    faults: Faults = []
    names: set[str] = set()
    for i, hook in enumerate(config.get("webhooks") or ()):
        path, name = f"webhooks[{i}]", hook.get("name", "")
        _name(faults, name, f"{path}.name")
        for j, rule in enumerate(hook.get("rules") or ()):
            _rule(faults, rule, f"{path}.rules[{j}]")
        choice(faults, hook, "failurePolicy", path, ("Fail", "Ignore"), ("Fail", "Ignore"))
        choice(faults, hook, "matchPolicy", path, ("Equivalent", "Exact"), ("Equivalent", "Exact"))
        if hook.get("sideEffects") is None:
            faults.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(_NO_SIDE_EFFECTS)}"))
        else:
            choice(faults, hook, "sideEffects", path, _NO_SIDE_EFFECTS, _NO_SIDE_EFFECTS)
        timeout_s = hook.get("timeoutSeconds")
        if timeout_s is not None and not 1 <= timeout_s <= 30:
            text = "the timeout value must be between 1 and 30 seconds"
            faults.append(invalid(f"{path}.timeoutSeconds", timeout_s, text))
        for key in ("namespaceSelector", "objectSelector"):
            label_selector(faults, hook.get(key), f"{path}.{key}")
        choice(faults, hook, "reinvocationPolicy", path, ("IfNeeded", "Never"), ("IfNeeded", "Never"))
        _client(faults, hook.get("clientConfig") or {}, f"{path}.clientConfig")
        _match_conditions(faults, hook.get("matchConditions") or (), f"{path}.matchConditions")
        _review_versions(faults, hook.get("admissionReviewVersions") or [], f"{path}.admissionReviewVersions")
        if name and name in names:
            faults.append(duplicate(f"{path}.name", name))
        names.add(name)
    return faults


def _name(faults: Faults, name: str, path: str) -> None:
    if not name:
        faults.append(required(path))
    elif texts := formats.dns_subdomain(name):
        faults.append(invalid(path, name, ",".join(texts)))
    elif name.count(".") < 2:
        text = "should be a domain with at least three segments separated by dots"
        faults.append(invalid(path, name, text))


def _rule(faults: Faults, rule: Part, path: str) -> None:
    operations = rule.get("operations") or []
    if not operations:
        faults.append(required(f"{path}.operations"))
    if len(operations) > 1 and "*" in operations:
        text = "if '*' is present, must not specify other operations"
        faults.append(invalid(f"{path}.operations", operations, text))
    for i, operation in enumerate(operations):
        if operation not in _OPERATIONS:
            faults.append(not_supported(f"{path}.operations[{i}]", operation, _OPERATIONS))
    for key, said in (("apiGroups", "API groups"), ("apiVersions", "API versions")):
        values = rule.get(key) or []
        if not values:
            faults.append(required(f"{path}.{key}"))
        if len(values) > 1 and "*" in values:
            faults.append(invalid(f"{path}.{key}", values, f"if '*' is present, must not specify other {said}"))
        if key == "apiVersions":
            faults += [required(f"{path}.{key}[{i}]") for i, value in enumerate(values) if not value]
    _resources(faults, rule.get("resources") or [], f"{path}.resources")
    choice(faults, rule, "scope", path, _SCOPES, _SCOPES)


def _resources(faults: Faults, resources: list[str], path: str) -> None:
    if not resources:
        faults.append(required(path))
    all_of: set[str] = set()
    any_with: set[str] = set()
    plain = False
    for i, resource_text in enumerate(resources):
        if not resource_text:
            faults.append(required(f"{path}[{i}]"))
            continue
        resource, slash, sub = resource_text.partition("/")
        if not slash:
            plain = resource_text != "*"
            continue
        if resource in all_of:
            text = f"if '{resource}/*' is present, must not specify {resource_text}"
            faults.append(invalid(f"{path}[{i}]", resource_text, text))
        if sub in any_with:
            faults.append(
                invalid(f"{path}[{i}]", resource_text, f"if '*/{sub}' is present, must not specify {resource_text}")
            )
        if sub == "*":
            all_of.add(resource)
        if resource == "*":
            any_with.add(sub)
    if len(resources) > 1 and "*/*" in resources:
        faults.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    if "*" in resources and plain:
        text = "if '*' is present, must not specify other resources without subresources"
        faults.append(invalid(path, resources, text))


def _client(faults: Faults, client: Part, path: str) -> None:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        faults.append(required(path, "exactly one of url or service is required"))
    elif url is not None:
        _url(faults, url, f"{path}.url")
    elif service is not None:
        _service(faults, service, f"{path}.service")


def _url(faults: Faults, url: str, path: str) -> None:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        faults.append(required(path, f"url must be a valid URL: {error}{_DESIRED}"))
        return
    if parts.scheme != "https":
        faults.append(invalid(path, parts.scheme, f"'https' is the only allowed URL scheme{_DESIRED}"))
    user, at, host = parts.netloc.rpartition("@")
    if not host:
        faults.append(invalid(path, host, f"host must be specified{_DESIRED}"))
    if at:
        faults.append(invalid(path, user, "user information is not permitted in the URL"))
    if parts.fragment:
        faults.append(invalid(path, parts.fragment, "fragments are not permitted in the URL"))
    if parts.query:
        faults.append(invalid(path, parts.query, "query parameters are not permitted in the URL"))


def _service(faults: Faults, service: Part, path: str) -> None:
    # The real server mixes the two up in its messages.
    for key, said in (("namespace", "name"), ("name", "namespace")):
        if not service.get(key):
            faults.append(required(f"{path}.{said}"))
    port = service.get("port") or 0
    if texts := formats.port_number(port):
        faults.append(invalid(f"{path}.port", port, f"port is not valid: {', '.join(texts)}"))
    target = service.get("path") or "/"
    if target == "/":
        return
    if not target.startswith("/"):
        faults.append(invalid(f"{path}.path", target, "must start with a '/'"))
    for i, step in enumerate(target[1:].removesuffix("/").split("/")):
        if not step:
            faults.append(invalid(f"{path}.path", target, f"segment[{i}] may not be empty"))
            continue
        for text in formats.dns_subdomain(step):
            faults.append(invalid(f"{path}.path", target, f"segment[{i}]: {text}"))


def _match_conditions(faults: Faults, conditions: Sequence[Part], path: str) -> None:
    names: set[str] = set()
    if len(conditions) > 64:
        faults.append(too_many(path, len(conditions), 64))
    for i, condition in enumerate(conditions):
        where, name = f"{path}[{i}]", condition.get("name", "")
        expression = condition.get("expression", "").strip()
        if not expression:
            faults.append(required(f"{where}.expression"))
        elif text := _condition_fault(expression):
            faults.append(invalid(f"{where}.expression", expression, text))
        if not name:
            faults.append(required(f"{where}.name"))
        else:
            add_all(faults, f"{where}.name", name, formats.label_key(name))
            if name in names:
                faults.append(duplicate(f"{where}.name", name))
        names.add(name)


def _condition_fault(expression: str) -> str:
    """Why a condition cannot be understood; empty if it can."""
    # CEL takes a while to load, and few servers are asked for it.
    from koord.api.cel.syntax import CelError
    from koord_minicluster.apiserver.rules.conditions import condition

    try:
        condition(expression)
    except CelError as error:
        return str(error)
    return ""


def _review_versions(faults: Faults, versions: list[str], path: str) -> None:
    listed = ", ".join(_REVIEW_VERSIONS)
    if not versions:
        faults.append(required(path, f"must specify one of {listed}"))
        return
    seen: set[str] = set()
    for i, version in enumerate(versions):
        if version in seen:
            faults.append(invalid(f"{path}[{i}]", version, "duplicate version"))
            continue
        seen.add(version)
        add_all(faults, f"{path}[{i}]", version, formats.dns_1035_label(version))
    if not seen & set(_REVIEW_VERSIONS):
        faults.append(invalid(path, versions, f"must include at least one of {listed}"))


_COLUMNS: Final = (NAME, Column("Webhooks", "integer", of(lambda obj: len(obj.get("webhooks") or ()))), AGE)

MUTATING: Final = Strategy(
    default=default_mutating, validate=validate, columns=_COLUMNS, has_status=False, unconditional_update=False
)
VALIDATING: Final = Strategy(
    default=default_validating, validate=validate, columns=_COLUMNS, has_status=False, unconditional_update=False
)
