"""Probes and lifecycle hooks of a container: each does one thing, with sensible times."""

from __future__ import annotations

from typing import Final

from koord.api.text import formats
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, not_negative, port_or_name
from koord_minicluster.apiserver.remembering import remembering
from koord_minicluster.apiserver.status import forbidden, invalid, not_supported, required

_TIMES: Final = ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold")
_PROBE_ACTIONS: Final = ("exec", "httpGet", "tcpSocket", "grpc")
_HOOK_ACTIONS: Final = ("exec", "httpGet", "tcpSocket", "sleep")


def validate_probes(faults: Faults, container: Part, path: str) -> None:
    for key in ("livenessProbe", "readinessProbe", "startupProbe"):
        if (probe := container.get(key)) is not None:
            (_readiness if key == "readinessProbe" else _other_probe)(faults, probe, f"{path}.{key}")


@remembering
def _readiness(faults: Faults, probe: Part, path: str) -> None:
    _probe(faults, probe, path, of_readiness=True)


@remembering
def _other_probe(faults: Faults, probe: Part, path: str) -> None:
    _probe(faults, probe, path, of_readiness=False)


def _probe(faults: Faults, probe: Part, path: str, *, of_readiness: bool) -> None:
    _action(faults, probe, _PROBE_ACTIONS, None, path)
    not_negative(faults, probe, _TIMES, path)
    own_grace_s = probe.get("terminationGracePeriodSeconds")
    if own_grace_s is not None and own_grace_s <= 0:
        faults.append(invalid(f"{path}.terminationGracePeriodSeconds", own_grace_s, "must be greater than 0"))
    if of_readiness:
        if own_grace_s is not None:
            where = f"{path}.terminationGracePeriodSeconds"
            faults.append(invalid(where, own_grace_s, "must not be set for readinessProbes"))
    elif probe.get("successThreshold", 1) != 1:
        faults.append(invalid(f"{path}.successThreshold", probe["successThreshold"], "must be 1"))


def validate_lifecycle(faults: Faults, lifecycle: Part, grace_s: int | None, path: str) -> None:
    for key in ("postStart", "preStop"):
        if (hook := lifecycle.get(key)) is not None:
            _action(faults, hook, _HOOK_ACTIONS, grace_s, f"{path}.{key}")


def _action(faults: Faults, handler: Part, actions: tuple[str, ...], grace_s: int | None, path: str) -> None:
    given = [key for key in actions if handler.get(key) is not None]
    if not given:
        faults.append(required(path, "must specify a handler type"))
        return
    _one_action(faults, given[0], handler[given[0]], grace_s, f"{path}.{given[0]}")
    for key in given[1:]:
        faults.append(forbidden(f"{path}.{key}", "may not specify more than 1 handler type"))


def _one_action(faults: Faults, kind: str, action: Part, grace_s: int | None, where: str) -> None:
    match kind:
        case "exec":
            if not action.get("command"):
                faults.append(required(f"{where}.command"))
        case "httpGet":
            _http_get(faults, action, where)
        case "tcpSocket":
            port_or_name(faults, f"{where}.port", action.get("port", 0))
        case "grpc":
            port_or_name(faults, f"{where}.port", action.get("port", 0))
        case "sleep":
            seconds = action.get("seconds", 0)
            if grace_s is not None and not 0 <= seconds <= grace_s:
                text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace_s})"
                faults.append(invalid(where, seconds, text))


def _http_get(faults: Faults, action: Part, path: str) -> None:
    if not action.get("path"):
        faults.append(required(f"{path}.path"))
    port_or_name(faults, f"{path}.port", action.get("port", 0))
    if action.get("scheme") not in ("HTTP", "HTTPS"):
        faults.append(not_supported(f"{path}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS")))
    for header in action.get("httpHeaders") or ():
        name = header.get("name", "")
        add_all(faults, f"{path}.httpHeaders", name, formats.http_header(name))
