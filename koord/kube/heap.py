"""The C heap of a process that reads big lists again and again.

By default glibc gives each freed page of a list (3 MB and more) back to the kernel and gets it again, zeroed, for the
next one: on a virtual machine those page faults cost as much as receiving and decrypting the bytes. `keep_freed_memory`
keeps some instead. Called once by programs that hold a whole cluster; a node agent, which must be small, does not.
"""

from __future__ import annotations

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3


def keep_freed_memory(keep_bytes: int = 64 << 20) -> bool:
    """Lets the heap keep up to `keep_bytes` that are free at its end. False if the C library lacks this setting."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = ((_M_MMAP_THRESHOLD, 32 << 20), (_M_TRIM_THRESHOLD, keep_bytes), (_M_TOP_PAD, 4 << 20))
    return all(mallopt(option, value) == 1 for option, value in settings)
