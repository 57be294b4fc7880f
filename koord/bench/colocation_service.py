"""The service of the co-location figure: one process on one CPU, with requests that arrive at times of their own.

Prints, as JSON, how long each took from its arrival to its end, and for how long its thread had waited for the CPU.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time

from koord.agent.host.files import Files
from koord.agent.host.proc import run_queue_delay_ns


def main(number: int, seconds: float, ignored_s: float, load: float, request_ms: float) -> None:
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[number % len(os.sched_getaffinity(0))]})
    rng = random.Random(number)
    rate = load / (request_ms / 1000)
    began = time.monotonic()
    arrival, taken, delays = began, [], []
    files = Files("/")
    waited_ns = run_queue_delay_ns(files, "thread-self")
    while arrival < began + seconds:
        arrival += rng.expovariate(rate)
        pause = arrival - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        _work(request_ms)
        now_ns = run_queue_delay_ns(files, "thread-self")
        if arrival > began + ignored_s:
            taken.append((time.monotonic() - arrival) * 1000)
            delays.append((now_ns - waited_ns) / 1e6)
        waited_ns = now_ns
    sys.stdout.write(json.dumps({"ms": taken, "delays_ms": delays}))


def _work(milliseconds: float) -> None:
    """CPU time, not time: a request that is interrupted takes longer."""
    until = time.thread_time() + milliseconds / 1000
    while time.thread_time() < until:
        pass


if __name__ == "__main__":
    main(int(sys.argv[1]), *map(float, sys.argv[2:6]))
