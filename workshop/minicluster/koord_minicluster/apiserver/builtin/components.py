"""ComponentStatuses, as tables show them; nothing of them is stored."""

from __future__ import annotations

from typing import Final

from koord_minicluster.apiserver.printing import NAME, of, text
from koord_minicluster.apiserver.resource import Obj, Strategy


def _health(obj: Obj, key: str) -> str:
    condition: Obj = next((entry for entry in obj.get("conditions") or () if entry.get("type") == "Healthy"), {})
    return str(condition.get(key, ""))


def _status(obj: Obj) -> str:
    return {"": "Unknown", "True": "Healthy"}.get(_health(obj, "status"), "Unhealthy")


COMPONENT_STATUS: Final = Strategy(
    columns=(
        NAME,
        text("Status", of(_status)),
        text("Message", of(lambda obj: _health(obj, "message"))),
        text("Error", of(lambda obj: _health(obj, "error"))),
    ),
    has_status=False,
    has_generation=False,
)
