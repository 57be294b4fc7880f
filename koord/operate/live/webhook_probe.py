"""Tests whether a new pod passes koord's webhooks: two pods, created by dry run, so that nothing is stored.

The first must come back completed by the mutating webhook, the second must be refused by the validating one. This also
detects a webhook that does not answer and is ignored.
"""

from __future__ import annotations

import time
from typing import Any, Final

from koord.api.kinds import MUTATING_WEBHOOK_CONFIGURATIONS, PODS, VALIDATING_WEBHOOK_CONFIGURATIONS, Kind
from koord.api.protocol import names
from koord.kube.client import Client
from koord.kube.errors import ApiError, Forbidden, NotFound
from koord.operate.facts import WebhooksFact

NAMESPACE: Final = "default"
CONFIGURATIONS: Final[tuple[tuple[Kind[Any], str], ...]] = (
    (MUTATING_WEBHOOK_CONFIGURATIONS, names.WEBHOOK_MUTATING_CONFIGURATION),
    (VALIDATING_WEBHOOK_CONFIGURATIONS, names.WEBHOOK_VALIDATING_CONFIGURATION),
)
DENIED: Final = "denied the request"
"""The API server's words for a webhook's refusal. Any other 403 means that this user may not create pods."""
ANSWER_WITHIN_S: Final = 10.0
"""Longer than the API server's timeout for a webhook, so that its own error arrives."""


async def webhooks(client: Client, *, ask: bool) -> WebhooksFact:
    """`ask`: whether to try a pod. Raises `ApiError` if the configurations cannot be read."""
    missing = []
    for kind, name in CONFIGURATIONS:
        try:
            configuration = await client.get(kind, name)
        except NotFound:
            missing.append(name)
            continue
        off = configuration.metadata.annotations.get(names.OWN_ANNOTATION_BREAK_GLASS)
        if off is not None:
            said = f"admission is off by hand {off}; koord colocation break-glass off puts it back"
            return WebhooksFact(asked=True, failure=said)
    if missing or not ask:
        return WebhooksFact(tuple(missing))
    client = client.limited(timeout_s=ANSWER_WITHIN_S, attempts=1)
    began_s = time.monotonic()
    failure = await _completed(client) or await _refused(client)
    return WebhooksFact(asked=True, took_s=round(time.monotonic() - began_s, 3), failure=failure)


async def _completed(client: Client) -> str:
    try:
        made = await client.create(PODS, _pod("BE"), dry_run=True)
    except Forbidden as error:
        if DENIED not in error.message:
            raise
        return str(error)
    except ApiError as error:
        return str(error)
    if names.ANNOTATION_EXTENDED_RESOURCE_SPEC not in made.metadata.annotations:
        return "a batch pod was admitted without being completed: the mutating webhook did not take part"
    return ""


async def _refused(client: Client) -> str:
    try:
        await client.create(PODS, _pod("LSR"), dry_run=True)
    except ApiError as error:
        return "" if DENIED in error.message else str(error)
    return (
        "a pod with QoS class LSR and priority class koord-batch was admitted: the validating webhook did not take part"
    )


def _pod(qos: str) -> dict[str, Any]:
    amounts = {str(names.RESOURCE_BATCH_CPU): "1", str(names.RESOURCE_BATCH_MEMORY): "1Mi"}
    container = {"name": "main", "image": "koord-status", "resources": {"requests": amounts, "limits": amounts}}
    return {
        "metadata": {
            "generateName": "koord-status-",
            "namespace": NAMESPACE,
            "labels": {str(names.LABEL_QOS_CLASS): qos},
        },
        "spec": {"priorityClassName": str(names.PRIORITY_CLASS_BATCH), "containers": [container]},
    }
