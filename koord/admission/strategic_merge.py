"""Strategic merge of a profile's patch into a pod or a reservation: the lists that are merged, and their keys.

The merge itself is the API server's (`koord.api.machinery.strategic_merge`). Lists that the table below names are
merged item by item; other lists are replaced, whatever newer fields a pod may have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from koord.admission.request import Json
from koord.api.machinery import strategic_merge
from koord.api.machinery.object_schema import Schema


def _object(below: Mapping[str, Schema] | None = None) -> Schema:
    return Schema("object", properties=below or {}, preserve_unknown=True)


def _merged(key: str, items: Schema | None = None) -> Schema:
    """A list that merges by a key; an empty key is for lists of plain values."""
    return Schema("array", items=items or _object(), patch_strategies=frozenset(("merge",)), patch_merge_key=key)


_META: Final = _object({"ownerReferences": _merged("uid"), "finalizers": _merged("")})
_CONTAINER: Final = _object(
    {
        "env": _merged("name"),
        "ports": _merged("containerPort"),
        "volumeDevices": _merged("devicePath"),
        "volumeMounts": _merged("mountPath"),
    }
)
_VOLUME: Final = _object({"ephemeral": _object({"volumeClaimTemplate": _object({"metadata": _META})})})
_POD_SPEC: Final = _object(
    {
        **dict.fromkeys(("containers", "initContainers", "ephemeralContainers"), _merged("name", _CONTAINER)),
        **dict.fromkeys(("imagePullSecrets", "resourceClaims", "schedulingGates"), _merged("name")),
        "volumes": _merged("name", _VOLUME),
        "hostAliases": _merged("ip"),
        "topologySpreadConstraints": _merged("topologyKey"),
    }
)
POD: Final = _object({"metadata": _META, "spec": _POD_SPEC})
RESERVATION: Final = _object(
    {"metadata": _META, "spec": _object({"template": _object({"metadata": _META, "spec": _POD_SPEC})})}
)


def merged(obj: Json, patch: Json, shape: Schema) -> Json:
    """The object with the patch merged into it. Raises `strategic_merge.MergeError`."""
    result = strategic_merge.apply(dict(obj), dict(patch), shape)
    return _without_directives(result) if _directs(patch) else result


def _directs(value: Any) -> bool:
    """Whether there is a directive anywhere in a patch."""
    if isinstance(value, Mapping):
        return any(name.startswith("$") or _directs(item) for name, item in value.items())
    return isinstance(value, list) and any(map(_directs, value))


def _without_directives(value: Any) -> Any:
    """Directives below what was not there before have nothing to direct, and are no fields."""
    if isinstance(value, Mapping):
        return {name: _without_directives(item) for name, item in value.items() if not name.startswith("$")}
    return [_without_directives(item) for item in value] if isinstance(value, list) else value
