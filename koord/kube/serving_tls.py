"""The serving side of TLS: a certificate from files, changed live when the files change.

Mounted Secrets are rotated in place by a swap of links, so the files are looked at every `RECHECK_S`. A pair that does
not fit together (a rotation half done) is left for the next look. Open connections stay unchanged.
"""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from typing import Final

RECHECK_S: Final = 10.0

log = logging.getLogger(__name__)


class ServingTls:
    """`context` is for the server; `follow` keeps it fresh until cancelled."""

    def __init__(self, cert_file: str, key_file: str, *, keeps: object = None) -> None:
        """`keeps` lives as long as this does: a temporary folder that the files are in."""
        self.cert_file, self.key_file, self._keeps = cert_file, key_file, keeps
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._seen = self._stamp()
        try:
            self.context.load_cert_chain(cert_file, key_file)
        except (OSError, ssl.SSLError) as error:
            raise ValueError(f"cannot serve TLS with certificate {cert_file} and key {key_file}: {error}") from error

    async def follow(self, every_s: float = RECHECK_S) -> None:
        while True:
            await asyncio.sleep(every_s)
            self.refresh()

    def refresh(self) -> bool:
        """Takes changed files into use. Whether there were any."""
        stamp = self._stamp()
        if stamp == self._seen:
            return False
        try:
            # Tried on the side first: a failed load would leave the context in use with a certificate and no key.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.cert_file, self.key_file)
            self.context.load_cert_chain(self.cert_file, self.key_file)
        except (OSError, ssl.SSLError) as error:
            log.warning("keeping the serving certificate of before: %s", error, extra={"file": self.cert_file})
            return False
        self._seen = stamp
        log.info("serving with a new certificate", extra={"file": self.cert_file})
        return True

    def _stamp(self) -> tuple[object, ...]:
        return tuple(_file_stamp(path) for path in (self.cert_file, self.key_file))


def _file_stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
