"""The TLS side of a connection: the trusted authorities, and the certificate to present.

`ClientTls.context(shown)` gives one `SSLContext` for as long as nothing changes. Files are looked at again at most
every `RECHECK_S` seconds, because mounted secrets are rotated in place; a changed file gives a new context, and so new
connections. A rotation that is half done (certificate and key do not fit) keeps the old context and is tried again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from koord.kube.clock import Clock
from koord.kube.cluster_config import ClusterConfig, ConfigError

RECHECK_S: Final = 10.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate and its key as PEM."""

    cert: bytes
    key: bytes


class ClientTls:
    """SSL contexts for one cluster."""

    def __init__(self, config: ClusterConfig, clock: Clock) -> None:
        self._config, self._clock = config, clock
        self._files = [path for path in _files(config) if path]
        self._seen: tuple[object, ...] = ()
        self._checked_at = float("-inf")
        self._shown: ClientCertificate | None = None
        self._context: ssl.SSLContext | None = None

    def context(self, shown: ClientCertificate | None = None) -> ssl.SSLContext:
        """The context for the next request. `shown` is a certificate that an exec program gave."""
        now = self._clock.monotonic()
        if self._context is not None and shown is self._shown and now - self._checked_at < RECHECK_S:
            return self._context
        seen = tuple(_stamp(path) for path in self._files)
        if self._context is None or shown != self._shown or seen != self._seen:
            try:
                self._context = _build(self._config, shown)
            except ConfigError as error:
                if self._context is None:
                    raise
                log.warning("keeping the TLS settings of before: %s", error)
            else:
                self._seen = seen
        self._shown, self._checked_at = shown, now
        return self._context

    def refused(self, shown: ClientCertificate | None = None) -> bool:
        """After a 401: looks at the files at once. Whether there is something new to show."""
        before = self._context
        self._checked_at = float("-inf")
        return self.context(shown) is not before


def _files(config: ClusterConfig) -> Iterator[str]:
    if not config.ca_data:
        yield config.ca_file
    if not config.cert_data:
        yield config.cert_file
    if not config.key_data:
        yield config.key_file


def _stamp(path: str) -> tuple[int, ...]:
    """What changes when a file is rewritten or replaced, also through a symlink."""
    try:
        stat = os.stat(path)
    except OSError:
        return ()
    return stat.st_mtime_ns, stat.st_ino, stat.st_size


def _build(config: ClusterConfig, shown: ClientCertificate | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if config.insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    else:
        _trust(context, config)
    cert = shown.cert if shown else config.cert_data
    key = shown.key if shown else config.key_data
    if cert or (config.cert_file and not shown):
        _show(context, config, cert, key, from_exec=shown is not None)
    return context


def _trust(context: ssl.SSLContext, config: ClusterConfig) -> None:
    if not config.ca_data and not config.ca_file:
        context.load_default_certs()
        return
    try:
        if config.ca_data:
            context.load_verify_locations(cadata=config.ca_data.decode("ascii"))
        else:
            context.load_verify_locations(cafile=config.ca_file)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"{_where(config)}: the certificate authority is not PEM: {error}") from None
    except OSError as error:
        raise ConfigError(f"{_where(config)}: certificate authority {config.ca_file}: {error.strerror}") from None


def _show(context: ssl.SSLContext, config: ClusterConfig, cert: bytes, key: bytes, *, from_exec: bool) -> None:
    try:
        with contextlib.ExitStack() as stack:
            cert_file = stack.enter_context(_as_file(cert)) if cert else config.cert_file
            key_file = stack.enter_context(_as_file(key)) if key else config.key_file
            # A passphrase prompt on the terminal would hang a daemon: an encrypted key is an error.
            context.load_cert_chain(cert_file, key_file or None, password=lambda: "")
    except ssl.SSLError as error:
        source = "the client certificate of the exec program" if from_exec else "the client certificate and its key"
        raise ConfigError(f"{_where(config)}: {source} cannot be used: {error}") from None
    except OSError as error:
        paths = " / ".join(path for path in (config.cert_file, config.key_file) if path)
        raise ConfigError(f"{_where(config)}: client certificate {paths}: {error.strerror}") from None


@contextlib.contextmanager
def _as_file(data: bytes) -> Iterator[str]:
    """A path at which OpenSSL can read `data`: in memory where the kernel can, else a private file, gone afterwards."""
    try:
        descriptor = os.memfd_create("koord")
        path = f"/proc/self/fd/{descriptor}"
    except (OSError, AttributeError):
        descriptor, path = tempfile.mkstemp(prefix="koord-")
    try:
        os.write(descriptor, data)
        yield path
    finally:
        os.close(descriptor)
        if not path.startswith("/proc/"):
            os.unlink(path)


def _where(config: ClusterConfig) -> str:
    return config.origin or config.server
