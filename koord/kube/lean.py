"""The HTTP client, loaded without the machine's certificate authorities.

aiohttp reads all of them twice when it is imported, for callers that name none: 2 MiB and 40 ms that a process of koord
never uses, since its connections name their authorities (`koord.kube.tls`). A connection without authorities then
fails. Import this module before aiohttp; code that runs later reads authorities as usual.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

_SOURCES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")


@contextlib.contextmanager
def _no_authorities() -> Iterator[None]:
    before = {name: os.environ.get(name) for name in _SOURCES}
    os.environ.update(dict.fromkeys(_SOURCES, os.devnull))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


with _no_authorities():
    import aiohttp as aiohttp
    from aiohttp.abc import AbstractStreamWriter as AbstractStreamWriter
    from aiohttp.http_writer import StreamWriter as StreamWriter
    from aiohttp.payload import BytesPayload as BytesPayload
