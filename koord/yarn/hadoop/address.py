"""host:port, as Hadoop names its daemons: in configuration files, annotations and a ResourceManager's answers."""

from __future__ import annotations

import re
from typing import Final

_HOST: Final = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,252}|\[[0-9A-Fa-f:.]{2,45}\]"
_ADDRESS: Final = re.compile(rf"(?:{_HOST}):(?P<port>[0-9]{{1,5}})")
_LAST_PORT: Final = 65535


def is_address(text: str) -> bool:
    """Addresses become parts of URLs and of annotations: what could mean something else there is none."""
    return (match := _ADDRESS.fullmatch(text)) is not None and 0 < int(match["port"]) <= _LAST_PORT
