"""The requests of each component to a real API server, as the server itself wrote it down."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from koord.operate.install.settings import COMPONENTS, Component
from tests.cluster.servers import ACCOUNT
from tests.operate.install.recorded import Recorder, Request


def _entries(audit: Path) -> Iterator[tuple[str, Request, dict[str, Any]]]:
    """The account, the request, and the whole entry. A last line that is not written yet is left out."""
    for line in audit.read_text().splitlines(keepends=True):
        if not line.endswith("\n"):
            return
        entry = json.loads(line)
        what = entry.get("objectRef")
        if what is None:
            continue
        below = f"/{what['subresource']}" if what.get("subresource") else ""
        request = Request(entry["verb"], what.get("apiGroup", ""), what["resource"] + below, what.get("name", ""))
        yield entry["user"]["username"].removeprefix(ACCOUNT), request, entry


def recorded(audit: Path) -> dict[Component, Recorder]:
    found = {component.full_name: Recorder() for component in COMPONENTS}
    for account, request, entry in _entries(audit):
        found[account].requests.add(request)
        if entry.get("responseStatus", {}).get("code") in (401, 403):
            found[account].refused.append(f"{request}: {entry['responseStatus'].get('message', '')}")
    return {component: found[component.full_name] for component in COMPONENTS}


def times_done(audit: Path, *resources: str) -> Counter[str]:
    """How often each of these was created and the server said that it was, by resource and name of the pod."""
    return Counter(
        f"{request.resource} {entry['objectRef']['namespace']}/{request.name}"
        for _, request, entry in _entries(audit)
        if request.verb == "create"
        and request.resource in resources
        and entry.get("responseStatus", {}).get("code") == 201
    )
