"""A component's end of the line to its supervisor: it ends when the supervisor does, and says when it is ready.

The supervisor holds the other end of the component's standard input. When that closes, however the supervisor ended,
the component is asked to stop, and after a while made to: nothing is ever left behind. Standard output carries one
JSON line, `{"ready": {NAME: ADDRESS, ...}}`, when the component serves.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from typing import Final

import msgspec

SUPERVISED: Final = "KOORD_SUPERVISED"
STOP_WITHIN_S: Final = 20.0
"""As long as a supervisor gives a local node for its pods: one that is made to end leaves them behind."""


def is_supervised() -> bool:
    return os.environ.get(SUPERVISED) == "1"


def hold() -> None:
    """From here on this process does not outlive its supervisor."""
    threading.Thread(target=_watch, name="tether", daemon=True).start()


def say_ready(endpoints: Mapping[str, str]) -> None:
    sys.stdout.write(msgspec.json.encode({"ready": dict(endpoints)}).decode() + "\n")
    sys.stdout.flush()


def _watch() -> None:
    try:
        while os.read(sys.stdin.fileno(), 1024):
            pass
    except OSError:
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_WITHIN_S)
    os._exit(1)
