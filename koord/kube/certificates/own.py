"""Certificates that a process makes for itself, for endpoints whose callers do not check who answers.

    python -m koord.kube.certificates.own FOLDER NAME

writes one into a folder, for a process that is to stay small: making certificates takes a library of some megabytes.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
import sys
from pathlib import Path
from typing import Final

VALID: Final = dt.timedelta(days=365)
VALID_IN_FILES: Final = dt.timedelta(days=3650)
"""A process reads its files once, and may run for years."""
CERTIFICATE, KEY = "tls.crt", "tls.key"


def own_certificate(name: str, address: str) -> ssl.SSLContext:
    """TLS with a certificate of this process's own. API servers do not verify kubelets unless they are told a CA."""
    from koord.kube.certificates import making

    key = making.new_key()
    hosts, now = (address, "localhost"), dt.datetime.now(dt.UTC)
    certificate = making.certificate(making.name(name), key, now, VALID, hosts=hosts, usage=making.SERVER)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    making.show(context, making.pem_of(certificate), making.key_pem(key))
    return context


def write(folder: Path, name: str) -> None:
    """Into files that only their owner can read."""
    from koord.kube.certificates import making

    key, now = making.new_key(), dt.datetime.now(dt.UTC)
    certificate = making.certificate(
        making.name(name), key, now, VALID_IN_FILES, hosts=(name, "localhost", "127.0.0.1"), usage=making.SERVER
    )
    (folder / CERTIFICATE).write_bytes(making.pem_of(certificate))
    (folder / KEY).touch(mode=0o600)
    (folder / KEY).write_bytes(making.key_pem(key))


async def own_certificate_aside(name: str, address: str) -> ssl.SSLContext:
    """The same, without holding up the event loop: importing the library takes a while."""
    return await asyncio.to_thread(own_certificate, name, address)


if __name__ == "__main__":
    write(Path(sys.argv[1]), sys.argv[2])
