"""Authentication: which user sends a request.

Asked once per request, so answers are kept: a client certificate by its serial number (the TLS layer has verified it
against our CA), a token by its text. In this order: client certificate, static token, service account token. No
credential gives None, and the caller decides what strangers may see; a wrong one is refused.
"""

from __future__ import annotations

import calendar
import hashlib
import ssl
import time
from asyncio import BaseTransport
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from koord.api.kubernetes.access import AUTHENTICATED, CREDENTIAL_ID, UserInfo
from koord_minicluster.apiserver.access.service_accounts import InvalidToken, ServiceAccountTokens
from koord_minicluster.apiserver.status import StatusError

__all__ = ["Authenticator", "UserInfo", "unauthorized"]

_KEPT_MOST: Final = 4096
_OPENSSL_TIME: Final = "%b %d %H:%M:%S %Y GMT"


@dataclass(frozen=True, slots=True)
class _Certified:
    user: UserInfo
    expires_s: float


class Authenticator:
    """Finds the user of a request. `tokens` are static bearer tokens."""

    def __init__(
        self,
        tokens: Mapping[str, UserInfo],
        service_accounts: ServiceAccountTokens | None = None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._tokens = {token: _authenticated(user) for token, user in tokens.items()}
        self._service_accounts, self._now_s = service_accounts, now_s
        self._by_serial: dict[str, _Certified] = {}

    def authenticate(self, headers: Mapping[str, str], transport: BaseTransport | None) -> UserInfo | None:
        """The user, None where no credential was sent; raises 401 for one that is not valid."""
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        if certificate:
            user = self._certified(certificate, transport)
            if user is not None:
                return user
        token = bearer_token(headers)
        if token is None:
            if certificate:
                raise unauthorized()
            return None
        user = self.token_user(token)
        if user is None:
            raise unauthorized()
        return user

    def token_user(self, token: str) -> UserInfo | None:
        """The user that the token belongs to; None if it is unknown, no longer valid, or not for this server."""
        user = self._tokens.get(token)
        return user if user is not None else self.check_token(token, ())[0]

    def check_token(self, token: str, audiences: tuple[str, ...]) -> tuple[UserInfo | None, tuple[str, ...], str]:
        """The token's user and the audiences it is valid for (default: this server), or why it is invalid."""
        issuer = self._service_accounts.issuer if self._service_accounts is not None else ""
        user = self._tokens.get(token)
        if user is not None:
            matching = tuple(audience for audience in audiences or (issuer,) if audience == issuer)
            return (user, matching, "") if matching else (None, (), "invalid bearer token")
        if self._service_accounts is None:
            return None, (), "invalid bearer token"
        try:
            user, matching = self._service_accounts.check(token, audiences)
        except InvalidToken as error:
            reason = str(error)
            return None, (), f"[invalid bearer token, {reason}]" if reason else "invalid bearer token"
        return user, matching, ""

    def _certified(self, certificate: Mapping[str, Any], transport: BaseTransport | None) -> UserInfo | None:
        serial = certificate["serialNumber"]
        kept = self._by_serial.get(serial)
        if kept is None:
            kept = _read(certificate, transport)
            if len(self._by_serial) >= _KEPT_MOST:
                self._by_serial.clear()
            self._by_serial[serial] = kept
        return kept.user if kept.expires_s > self._now_s() and kept.user.name else None


def bearer_token(headers: Mapping[str, str]) -> str | None:
    """The token of an Authorization header; None where there is none, or it is of another scheme."""
    header = headers.get("Authorization")
    if header is None:
        return None
    scheme, _, token = header.strip().partition(" ")
    token = token.strip()
    return token if scheme.lower() == "bearer" and token else None


def unauthorized() -> StatusError:
    return StatusError(401, "Unauthorized", "Unauthorized")


def _read(certificate: Mapping[str, Any], transport: BaseTransport | None) -> _Certified:
    """The user that a certificate names: its common name, its organisations being the groups."""
    name, groups = "", []
    for relative_name in certificate.get("subject", ()):
        for key, value in relative_name:
            if key == "commonName":
                name = value
            elif key == "organizationName":
                groups.append(value)
    extra: dict[str, tuple[str, ...]] = {}
    tls = transport.get_extra_info("ssl_object") if transport is not None else None
    if isinstance(tls, ssl.SSLObject | ssl.SSLSocket) and (der := tls.getpeercert(binary_form=True)):
        extra[CREDENTIAL_ID] = (f"X509SHA256={hashlib.sha256(der).hexdigest()}",)
    expires_s = calendar.timegm(time.strptime(certificate["notAfter"], _OPENSSL_TIME))
    return _Certified(_authenticated(UserInfo(name, groups=tuple(groups), extra=extra)), float(expires_s))


def _authenticated(user: UserInfo) -> UserInfo:
    if AUTHENTICATED in user.groups:
        return user
    return UserInfo(user.name, user.uid, (*user.groups, AUTHENTICATED), user.extra)
