"""A blocking HTTPS client of a few lines, for tests that ask a server one thing at a time."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class PlainClient:
    """`tokens` are by user; requests are the admin's unless said. Answers are (code, decoded body)."""

    def __init__(self, url: str, ca: Path, tokens: Mapping[str, str]) -> None:
        self.url, self._tokens = url, tokens
        self._tls = ssl.create_default_context(cafile=str(ca))

    def get(self, path: str, user: str = "admin", **headers: str) -> tuple[int, Any]:
        return self._ask("GET", path, None, user, "", headers)

    def post(self, path: str, body: Any, user: str = "admin", **headers: str) -> tuple[int, Any]:
        return self._ask("POST", path, body, user, "application/json", headers)

    def patch(self, path: str, body: Any, user: str = "admin") -> tuple[int, Any]:
        return self._ask("PATCH", path, body, user, "application/merge-patch+json", {})

    def _ask(
        self, method: str, path: str, body: Any, user: str, content_type: str, more: Mapping[str, str]
    ) -> tuple[int, Any]:
        headers = {"Accept": "application/json", "User-Agent": "plain/1", **more}
        if user:
            headers["Authorization"] = f"Bearer {self._tokens.get(user, user)}"
        if content_type:
            headers["Content-Type"] = content_type
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=60) as answer:
                return answer.status, _decoded(answer.read())
        except urllib.error.HTTPError as refusal:
            return refusal.code, _decoded(refusal.read())


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except ValueError:
        return {"text": body.decode(errors="replace")}
