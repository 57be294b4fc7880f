"""The checks before any request is answered, and the headers of every answer.

| attack | defence |
| --- | --- |
| another user of the machine | a one-time token in the link becomes a cookie that scripts cannot read |
| DNS rebinding | on loopback the `Host` header must name this machine |
| another page sends requests (CSRF) | `SameSite=Strict`, `Origin`, `Sec-Fetch-Site`, a token in a header of writes |
| another page shows ours (clickjacking) | `frame-ancestors 'none'` |
| scripts in names of objects | a policy without inline scripts, and answers that are never sniffed |
| links that leak the token | the token works once, the answer redirects, and `Referrer-Policy: no-referrer` |
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from aiohttp import web

from koord.console.live.viewers import NotSignedIn, Viewer, Viewers
from koord.console.shapes import Error
from koord.kube.errors import ApiError

COOKIE: Final = "koord-console"
"""Cookies do not tell ports apart: the name has the port too."""
CSRF: Final = "X-Koord-Csrf"
IDLE_S: Final = 12 * 3600.0
MOST_SESSIONS: Final = 1000
TOKEN_BYTES: Final = 32
WRONG_TOKENS: Final = 20
"""Wrong tokens from one address within a minute, before it may try no other. Viewers who are signed in go on."""
MOST_ADDRESSES: Final = 10_000
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:;"
    " font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
SAFE: Final = frozenset({"GET", "HEAD"})


class Refused(Exception):
    """A request that is refused: the status and the error that the viewer reads."""

    def __init__(self, status: int, object: str, cause: str, remedy: str = "") -> None:
        super().__init__(cause)
        self.status, self.error = status, Error(object=object, cause=cause, remedy=remedy)


@dataclass(slots=True)
class Session:
    viewer: Viewer | None
    "None: of the token below, which is reviewed again from time to time."
    token: str
    csrf: str
    used_s: float


class Guard:
    """Sessions of one server. `own` is the viewer of the link: the user of the kubeconfig, on loopback only."""

    def __init__(
        self,
        viewers: Viewers,
        own: Viewer | None,
        *,
        secure: bool,
        new_link: Callable[[str], None] = lambda token: None,
    ) -> None:
        self._viewers, self._own, self._secure, self._new_link = viewers, own, secure, new_link
        self.cookie = COOKIE
        self.hosts: frozenset[str] | None = None
        "The values of the Host header that are accepted; None: any."
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._link_token = secrets.token_urlsafe(TOKEN_BYTES) if own is not None else ""
        self._wrong: OrderedDict[str, list[float]] = OrderedDict()
        "When wrong tokens came, by address."

    @property
    def link_token(self) -> str:
        """The token of the next link; it works once."""
        return self._link_token

    # Checks.

    def check(self, request: web.Request) -> None:
        """Raises `Refused` for requests that no page of the console sends."""
        if self.hosts is not None and request.headers.get("Host", "").lower() not in self.hosts:
            raise Refused(421, "header Host", "this address is not the console's", "open the link that koord printed")
        site = request.headers.get("Sec-Fetch-Site", "none")
        is_api = request.path.startswith("/api/")
        if site not in ("none", "same-origin") and (is_api or request.method not in SAFE):
            raise Refused(403, "header Sec-Fetch-Site", "the request comes from another site", "")
        if request.method in SAFE:
            return
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("Host", "").lower():
            raise Refused(403, "header Origin", "the request comes from another site", "")
        if request.content_type != "application/json":
            raise Refused(415, "header Content-Type", "must be application/json", "")

    async def session(self, request: web.Request) -> Session:
        """The session of a request, by cookie or bearer token. Raises `Refused`."""
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            # A token in a header is proof of intent: no other page can send it.
            return Session(await self._viewer_of(token.strip(), request.remote or ""), "", "", 0.0)
        session = self._sessions.get(self._key(request.cookies.get(self.cookie, "")))
        if session is None or time.monotonic() - session.used_s > IDLE_S:
            raise Refused(401, "session", "you are not signed in", self.way_in())
        if request.method not in SAFE and not hmac.compare_digest(
            request.headers.get(CSRF, "").encode(), session.csrf.encode()
        ):
            raise Refused(403, f"header {CSRF}", "is missing or wrong", "load the page again")
        session.used_s = time.monotonic()
        return session

    async def viewer(self, session: Session) -> Viewer:
        return session.viewer if session.viewer is not None else await self._viewer_of(session.token, "")

    def way_in(self) -> str:
        if self._own is not None:
            return "open the link that koord console printed; each link works once"
        return "sign in with a bearer token, for example of: kubectl create token NAME"

    async def _viewer_of(self, token: str, address: str) -> Viewer:
        """`address`: of the caller; empty for the token of a session, which was valid once."""
        if address and not self._viewers.has(token) and self._wrong_from(address) >= WRONG_TOKENS:
            raise Refused(429, "token", "too many wrong tokens were tried", "wait a minute")
        try:
            return await self._viewers.of_token(token)
        except NotSignedIn:
            if address:
                self._wrong.setdefault(address, []).append(time.monotonic())
                self._wrong.move_to_end(address)
                while len(self._wrong) > MOST_ADDRESSES:
                    self._wrong.popitem(last=False)
            raise Refused(401, "token", "the API server does not accept it", self.way_in()) from None
        except ApiError as error:
            raise Refused(503, "API server", str(error), "try again later") from None

    def _wrong_from(self, address: str) -> int:
        """How many wrong tokens came from the address within the last minute."""
        recent = [at_s for at_s in self._wrong.get(address, ()) if time.monotonic() - at_s < 60]
        if recent:
            self._wrong[address] = recent
        else:
            self._wrong.pop(address, None)
        return len(recent)

    # Ways in.

    def by_link(self, token: str) -> str | None:
        """The cookie for the token of a link, which is used up; None if it is not valid."""
        if self._own is None or not hmac.compare_digest(token.encode(), self._link_token.encode()):
            return None
        self._link_token = secrets.token_urlsafe(TOKEN_BYTES)
        self._new_link(self._link_token)
        return self._open(Session(self._own, "", secrets.token_urlsafe(TOKEN_BYTES), time.monotonic()))

    async def by_token(self, token: str, address: str) -> str:
        """The cookie for a bearer token. Raises `Refused`."""
        await self._viewer_of(token, address)
        return self._open(Session(None, token, secrets.token_urlsafe(TOKEN_BYTES), time.monotonic()))

    def _open(self, session: Session) -> str:
        cookie = secrets.token_urlsafe(TOKEN_BYTES)
        self._sessions[self._key(cookie)] = session
        while len(self._sessions) > MOST_SESSIONS:
            self._sessions.popitem(last=False)
        return cookie

    def close(self, request: web.Request) -> None:
        self._sessions.pop(self._key(request.cookies.get(self.cookie, "")), None)

    @staticmethod
    def _key(cookie: str) -> str:
        # A lookup by hash takes the same time whatever part of a guess is right.
        return hmac.digest(b"session", cookie.encode(), "sha256").hex()

    def set_cookie(self, response: web.StreamResponse, cookie: str) -> None:
        response.set_cookie(self.cookie, cookie, httponly=True, samesite="Strict", secure=self._secure, path="/")


def protect(response: web.StreamResponse, *, secure: bool) -> None:
    """The headers of every answer."""
    response.headers.update(HEADERS)
    response.headers.setdefault("Cache-Control", "no-cache, private")
    if secure:
        response.headers["Strict-Transport-Security"] = "max-age=31536000"
