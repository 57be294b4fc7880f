"""Who is calling: the headers and the certificate that prove it, kept fresh.

`Credentials.current()` is asked before every attempt and is cheap. `refused()` is called after a 401: what can be
renewed (a token file, an exec program's answer) is then renewed before one more attempt.
"""

from __future__ import annotations

import base64
import logging
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote

from koord.kube.clock import Clock
from koord.kube.cluster_config import ClusterConfig, ConfigError, Impersonation
from koord.kube.tls import ClientCertificate

TOKEN_FILE_REREAD_S: Final = 60.0

log = logging.getLogger(__name__)

Headers = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Proof:
    """What one attempt presents."""

    headers: Headers = ()
    certificate: ClientCertificate | None = None


class Credentials(Protocol):
    async def current(self) -> Proof: ...

    async def refused(self, proof: Proof) -> bool:
        """After a 401 for `proof`: drops what is cached. Whether another attempt may differ."""
        ...


class Fixed:
    """A token or a password that never changes, or nothing at all (a client certificate speaks for itself)."""

    def __init__(self, headers: Headers) -> None:
        self._proof = Proof(headers)

    async def current(self) -> Proof:
        return self._proof

    async def refused(self, proof: Proof) -> bool:
        return False


class TokenFile:
    """A token in a file that is rotated in place, as the kubelet does for service accounts."""

    def __init__(self, path: str, origin: str, clock: Clock, fallback_token: str = "") -> None:
        self._path, self._origin, self._clock = path, origin, clock
        self._token = fallback_token
        self._read_at = float("-inf")
        self._proof = Proof(bearer(fallback_token) if fallback_token else ())

    async def current(self) -> Proof:
        if self._clock.monotonic() - self._read_at >= TOKEN_FILE_REREAD_S:
            self._reread()
        return self._proof

    async def refused(self, proof: Proof) -> bool:
        self._reread()
        return self._proof != proof

    def _reread(self) -> None:
        try:
            with open(self._path, encoding="utf-8") as file:
                token = file.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            self._keep_or_raise(str(error))
            return
        if not token:
            self._keep_or_raise("is empty")
            return
        self._read_at = self._clock.monotonic()
        if token != self._token:
            self._token, self._proof = token, Proof(bearer(token))

    def _keep_or_raise(self, why: str) -> None:
        if not self._token:
            raise ConfigError(f"{self._origin}: token file {self._path}: {why}")
        log.warning("keeping the token of before: token file %s: %s", self._path, why)


def bearer(token: str) -> Headers:
    return (("Authorization", f"Bearer {token.strip()}"),)


def basic(username: str, password: str) -> Headers:
    return (("Authorization", "Basic " + base64.b64encode(f"{username}:{password}".encode()).decode("ascii")),)


def impersonation_headers(who: Impersonation | None) -> Headers:
    if who is None:
        return ()
    headers: list[tuple[str, str]] = [("Impersonate-User", who.user)]
    if who.uid:
        headers.append(("Impersonate-Uid", who.uid))
    headers += [("Impersonate-Group", group) for group in who.groups]
    for key, values in sorted(who.extra.items()):
        # Header names are case-insensitive tokens: what is not one is percent-encoded, as the server expects.
        headers += [(f"Impersonate-Extra-{quote(key, safe=_TOKEN_CHARACTERS)}", value) for value in values]
    return tuple(headers)


_TOKEN_CHARACTERS: Final = "!#$&'*+-.^_`|~"


def credentials_for(config: ClusterConfig, clock: Clock) -> Credentials:
    """The way of proving oneself that `config` asks for, with kubectl's precedence.

    A token file wins over a token, and both, like a password or a client certificate, over an exec program. Over plain
    HTTP nothing is presented at all: anybody on the way could read it.
    """
    if not config.server.startswith("https:"):
        return Fixed(())
    if config.token_file:
        return TokenFile(config.token_file, config.origin or config.server, clock, config.token)
    if config.token:
        return Fixed(bearer(config.token))
    if config.username:
        return Fixed(basic(config.username, config.password))
    if config.exec is not None and not (config.cert_file or config.cert_data):
        from koord.kube.exec_plugin import ExecPlugin

        return ExecPlugin(config.exec, config, clock)
    return Fixed(())
