"""Certificates that a process makes for itself, for endpoints whose callers do not check who answers."""

from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from typing import Final

VALID: Final = dt.timedelta(days=365)


def own_certificate(name: str, address: str) -> ssl.SSLContext:
    """TLS with a certificate of this process's own. API servers do not verify kubelets unless they are told a CA."""
    from koord.certificates import making

    key = making.new_key()
    hosts, now = (address, "localhost"), dt.datetime.now(dt.UTC)
    certificate = making.certificate(making.name(name), key, now, VALID, hosts=hosts, usage=making.SERVER)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    making.show(context, making.pem_of(certificate), making.key_pem(key))
    return context


async def own_certificate_aside(name: str, address: str) -> ssl.SSLContext:
    """The same, without holding up the event loop: importing the library takes a while."""
    return await asyncio.to_thread(own_certificate, name, address)
