"""Memory that is used again and again should not be fetched from the kernel each time."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
from koord.kube.heap import keep_freed_memory
if "keep" in sys.argv: assert keep_freed_memory()
def work():
    pieces = [bytes(200_000) for _ in range(15)]
    return len(b"".join(pieces))
for _ in range(5): work()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(20): work()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(*args: str) -> int:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *args], capture_output=True, text=True, check=True, timeout=60
    )
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these settings")
def test_kept_memory_is_used_again_without_page_faults() -> None:
    assert page_faults("keep") < 50
