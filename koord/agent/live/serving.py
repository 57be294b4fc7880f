"""What the agent tells over HTTP beside health and metrics: its audit, newest first, a page at a time."""

from __future__ import annotations

from typing import Final

import msgspec
from aiohttp import web

from koord.agent.executor.audit import Audit, AuditEvent
from koord.api.text.whole_number import natural_number

PAGE: Final = 256
LARGEST_PAGE: Final = 2048


def events(audit: Audit, request: web.Request) -> web.Response:
    """GET /events?size=&pageToken=. A token is the number of the last event of the page before."""
    size, token = natural_number(request.query.get("size", str(PAGE)), LARGEST_PAGE), request.query.get("pageToken", "")
    after = natural_number(token) if token else None
    if not size:
        return web.Response(status=400, text=f"size must be a number from 1 to {LARGEST_PAGE}\n")
    if token and after is None:
        return web.Response(status=409, text="pageToken is unknown\n")
    page = audit.newest(size, after)
    following = str(page[-1].number) if len(page) == size else ""
    if "json" in request.headers.get("Accept", ""):
        body = {"events": page, "nextPageToken": following}
        return web.Response(body=msgspec.json.encode(body), content_type="application/json")
    headers = {"Next-Page-Token": following} if following else {}
    return web.Response(text="".join(map(_line, page)), headers=headers)


def _line(event: AuditEvent) -> str:
    where = f"{event.directory}/{event.file}" if event.directory else f"{event.namespace}/{event.name}"
    change = f" {event.old} -> {event.value}" if event.value else ""
    return f"{event.created_at} {event.type} {event.reason} {where}{change}: {event.message}\n"
