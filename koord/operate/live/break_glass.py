"""Admission switched off and on by hand: writes the annotation that `koord.admission.break_glass` defines."""

from __future__ import annotations

import time
from typing import Any, Final

from koord.admission.break_glass import closed, opened, said
from koord.api.kinds import MUTATING_WEBHOOK_CONFIGURATIONS, VALIDATING_WEBHOOK_CONFIGURATIONS, Kind
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.errors import ApiError, NotFound

FIELD_MANAGER: Final = "koord-cli"
CONFIGURATIONS: Final[tuple[tuple[Kind[Any], str], ...]] = (
    (MUTATING_WEBHOOK_CONFIGURATIONS, names.WEBHOOK_MUTATING_CONFIGURATION),
    (VALIDATING_WEBHOOK_CONFIGURATIONS, names.WEBHOOK_VALIDATING_CONFIGURATION),
)


async def turn(client: Client, reason: str | None) -> dict[str, str]:
    """Switches admission off for a reason; None switches it on. Returns since when, and why, it is or was off, by
    configuration."""
    statements = {}
    for kind, name in CONFIGURATIONS:
        try:
            annotations = (await client.get(kind, name)).metadata.annotations
        except NotFound:
            if reason is None:
                continue
            # The configuration is created with the annotation, so that a manager does not create it without.
            patch = opened({}, time.time(), reason)
            body = {**patch, "metadata": {**patch["metadata"], "name": name}}
            annotations = (await client.create(kind, body, field_manager=FIELD_MANAGER)).metadata.annotations
        else:
            change = closed(annotations) if reason is None else opened(annotations, time.time(), reason)
            if change is not None:
                patched = await client.patch(kind, name, change, field_manager=FIELD_MANAGER)
                annotations = patched.metadata.annotations if reason is not None else annotations
        statements[name] = said(annotations) or ""
    return statements


async def look(client: Client) -> str:
    """Since when admission is off, and why; empty if it is on, or if the configurations cannot be read."""
    for kind, name in CONFIGURATIONS:
        try:
            statement = said((await client.get(kind, name)).metadata.annotations)
        except ApiError:
            continue
        if statement is not None:
            return statement
    return ""
