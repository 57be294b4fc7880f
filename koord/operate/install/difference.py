"""What a step would change on an object: a unified diff of YAML, without what the server keeps for itself."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Final

from koord.api.text.yaml import dump
from koord.operate.install.manifest import Json, Key, metadata_of

_SERVERS: Final = frozenset({"managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink"})


def difference(key: Key, live: Mapping[str, object] | None, after: Mapping[str, object] | None) -> str:
    """Empty if nothing would change. None: the object does not exist before, or after, the change."""
    old, new = _text(live), _text(after)
    lines = difflib.unified_diff(old, new, f"live {key}" if live else "/dev/null", str(key) if after else "/dev/null")
    return "".join(lines)


def _text(manifest: Mapping[str, object] | None) -> list[str]:
    if manifest is None:
        return []
    meta = {name: value for name, value in metadata_of(manifest).items() if name not in _SERVERS}
    shown: Json = {name: value for name, value in manifest.items() if name not in ("status", "metadata")}
    if manifest.get("kind") == "Secret" and "data" in shown:
        shown["data"] = "(hidden)"
    return dump({**shown, "metadata": meta}).splitlines(keepends=True)
