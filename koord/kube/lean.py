"""The HTTP client, loaded without the machine's certificate authorities.

aiohttp reads all of them when it is imported, for callers that name none: 2 MiB that a node agent never uses, since its
connections say whom they trust (`koord.kube.tls`). One that names nobody trusts nobody then, and fails.
"""

from __future__ import annotations

import os
from typing import Final

_SOURCES: Final = ("SSL_CERT_FILE", "SSL_CERT_DIR")


def load_client() -> None:
    """To be called before anything else imports aiohttp; what comes later reads authorities as usual."""
    before = {name: os.environ.get(name) for name in _SOURCES}
    os.environ.update(dict.fromkeys(_SOURCES, os.devnull))
    try:
        import aiohttp  # noqa: F401 - for what it reads meanwhile
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
