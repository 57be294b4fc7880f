"""ConfigMaps, Secrets and ServiceAccounts: keys that can be file names, sizes that fit, immutability that holds."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Final

from koord.api.text import formats
from koord_minicluster.apiserver.bodies import json_text
from koord_minicluster.apiserver.builtin.checks import Faults, add_all, immutable
from koord_minicluster.apiserver.builtin.key_pairs import key_pair_fault
from koord_minicluster.apiserver.printing import AGE, NAME, at, of, text
from koord_minicluster.apiserver.resource import Obj, Strategy
from koord_minicluster.apiserver.status import Cause, forbidden, invalid, required, too_long

_LARGEST_BYTES: Final = 1 << 20
_FROZEN: Final = "field is immutable when `immutable` is set"
_ACCOUNT_NAME: Final = "kubernetes.io/service-account.name"
_REDACTED: Final = "<secret contents redacted>"


def _decoded_bytes(value: str) -> int:
    return len(value) * 3 // 4 - value[-2:].count("=")


def validate_config_map(config: Obj) -> Sequence[Cause]:
    faults: Faults = []
    data, binary = config.get("data") or {}, config.get("binaryData") or {}
    for key in data:
        add_all(faults, f"data[{key}]", key, formats.config_key(key))
        if key in binary:
            faults.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
    for key in binary:
        add_all(faults, f"binaryData[{key}]", key, formats.config_key(key))
    size = sum(len(value.encode()) for value in data.values())
    if size + sum(_decoded_bytes(value) for value in binary.values()) > _LARGEST_BYTES:
        faults.append(too_long("[]", _LARGEST_BYTES))
    return faults


def _frozen(faults: Faults, new: Obj, old: Obj, keys: Sequence[str]) -> None:
    if old.get("immutable"):
        if not new.get("immutable"):
            faults.append(forbidden("immutable", _FROZEN))
        for key in keys:
            if new.get(key) != old.get(key):
                faults.append(forbidden(key, _FROZEN))


def validate_config_map_update(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    _frozen(faults, new, old, ("data", "binaryData"))
    return faults


def default_secret(secret: Obj) -> None:
    if not secret.get("type"):
        secret["type"] = "Opaque"
    if plain := secret.pop("stringData", None):
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        secret["data"] = {**(secret.get("data") or {}), **encoded}


def validate_secret(secret: Obj) -> Sequence[Cause]:
    faults: Faults = []
    data: Mapping[str, str] = secret.get("data") or {}
    for key in data:
        add_all(faults, f"data[{key}]", key, formats.config_key(key))
    if sum(_decoded_bytes(value or "") for value in data.values()) > _LARGEST_BYTES:
        faults.append(too_long("data", _LARGEST_BYTES))
    match secret.get("type"):
        case "kubernetes.io/service-account-token":
            if not (secret["metadata"].get("annotations") or {}).get(_ACCOUNT_NAME):
                faults.append(required(f"metadata.annotations[{_ACCOUNT_NAME}]"))
        case "kubernetes.io/dockercfg":
            _json(faults, data, ".dockercfg")
        case "kubernetes.io/dockerconfigjson":
            _json(faults, data, ".dockerconfigjson")
        case "kubernetes.io/basic-auth":
            if "username" not in data and "password" not in data:
                faults += [required("data[username]"), required("data[password]")]
        case "kubernetes.io/ssh-auth":
            if not data.get("ssh-privatekey"):
                faults.append(required("data[ssh-privatekey]"))
        case "kubernetes.io/tls":
            faults += [required(f"data[{key}]") for key in ("tls.crt", "tls.key") if key not in data]
    return faults


def _json(faults: Faults, data: Mapping[str, str], key: str) -> None:
    if key not in data:
        faults.append(required(f"data[{key}]"))
        return
    content = base64.b64decode(data[key] or "")
    if text_ := json_text.fault(content) or _not_a_map(content):
        faults.append(invalid(f"data[{key}]", _REDACTED, text_))


def _not_a_map(content: bytes) -> str:
    value = json_text.loads_untyped(content)[0]
    if value is None or isinstance(value, dict):
        return ""
    kind = {str: "string", bool: "bool", list: "array"}.get(type(value), "number")
    return f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}"


def secret_warnings(secret: Obj) -> Sequence[str]:
    if secret.get("type") != "kubernetes.io/tls":
        return ()
    data = secret.get("data") or {}
    text_ = key_pair_fault(*(base64.b64decode(data.get(key) or "") for key in ("tls.crt", "tls.key")))
    return (text_,) if text_ else ()


def validate_secret_update(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    immutable(faults, new, old, ("type",), "")
    _frozen(faults, new, old, ("data",))
    return faults


CONFIG_MAP: Final = Strategy(
    validate=validate_config_map,
    validate_update=validate_config_map_update,
    columns=(NAME, text("Data", of(lambda o: len(o.get("data") or ()) + len(o.get("binaryData") or ()))), AGE),
    has_status=False,
    has_generation=False,
)
SECRET: Final = Strategy(
    default=default_secret,
    validate=validate_secret,
    validate_update=validate_secret_update,
    warnings=secret_warnings,
    fields=lambda secret: {"type": secret.get("type", "")},
    columns=(NAME, text("Type", at("type")), text("Data", of(lambda o: len(o.get("data") or ()))), AGE),
    has_status=False,
    has_generation=False,
)
SERVICE_ACCOUNT: Final = Strategy(columns=(NAME, AGE), has_status=False, has_generation=False, returns_deleted=True)
