"""References to a pod's own fields and resources, as environment variables and downward API files make them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from koord.api.text import formats
from koord.api.text.quantity import canonical
from koord_minicluster.apiserver.builtin.checks import Faults, Part, add_all, quantity_sign
from koord_minicluster.apiserver.status import invalid, not_supported, required

_KNOWN_FIELDS: Final = frozenset(
    {
        "metadata.annotations",
        "metadata.labels",
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.serviceAccountName",
        "spec.schedulerName",
        "status.phase",
        "status.hostIP",
        "status.hostIPs",
        "status.podIP",
        "status.podIPs",
    }
)
_RESOURCES: Final = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES: Final = ("requests.hugepages-", "limits.hugepages-")
_BYTE_DIVISORS: Final = (
    "1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei",
)  # fmt: skip
_SUBSCRIPT: Final = re.compile(r"(.+?)\['(.*)'\]")


def field_ref(faults: Faults, ref: Part, path: str, allowed: Sequence[str]) -> None:
    version, field = ref.get("apiVersion", ""), ref.get("fieldPath", "")
    if not version:
        faults.append(required(f"{path}.apiVersion"))
        return
    if not field:
        faults.append(required(f"{path}.fieldPath"))
        return
    subscripted = _SUBSCRIPT.fullmatch(field)
    wrong = ""
    if version != "v1":
        wrong = f"unsupported pod version: {version}"
    elif subscripted and subscripted[1] not in ("metadata.annotations", "metadata.labels"):
        wrong = f"field label does not support subscript: {field}"
    elif not subscripted and field not in _KNOWN_FIELDS and field != "spec.host":
        wrong = f"field label not supported: {field}"
    if wrong:
        faults.append(invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {wrong}"))
    elif subscripted:
        key = subscripted[2].lower() if subscripted[1] == "metadata.annotations" else subscripted[2]
        add_all(faults, path, key, formats.label_key(key))
    elif (name := "spec.nodeName" if field == "spec.host" else field) not in allowed:
        faults.append(not_supported(f"{path}.fieldPath", name, allowed))


def resource_field_ref(faults: Faults, ref: Part, path: str, *, in_volume: bool) -> None:
    name = ref.get("resource", "")
    if in_volume and not ref.get("containerName"):
        faults.append(required(f"{path}.containerName"))
    elif not name:
        faults.append(required(f"{path}.resource"))
    elif name not in _RESOURCES and not name.startswith(_HUGE_PAGES):
        faults.append(not_supported(f"{path}.resource", name, _RESOURCES))
    divisor = ref.get("divisor")
    if divisor is not None and quantity_sign(divisor) != 0:
        _divisor(faults, name, canonical(divisor), f"{path}.divisor")


def _divisor(faults: Faults, name: str, divisor: str, path: str) -> None:
    allowed: tuple[str, ...]
    if name.endswith(".cpu"):
        allowed, said, of = ("1m", "1"), "1m and 1", "cpu"
    elif name.endswith(".memory"):
        allowed, said, of = _BYTE_DIVISORS, ", ".join(_BYTE_DIVISORS), "memory"
    elif name.endswith(".ephemeral-storage"):
        allowed, said, of = _BYTE_DIVISORS, ", ".join(_BYTE_DIVISORS), "local ephemeral storage"
    elif name.startswith(_HUGE_PAGES):
        allowed, said, of = _BYTE_DIVISORS, ", ".join(_BYTE_DIVISORS), "hugepages"
    else:
        return
    if divisor not in allowed:
        faults.append(invalid(path, name, f"only divisor's values {said} are supported with the {of} resource"))
