"""`python -m koord.runtime.pod_resources.live KUBELET SOCKET GIVEN`: a child of the agent, ends with it."""

import asyncio
import logging
import sys


def run() -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        from koord.api.machinery.faults import BadInput
        from koord.runtime.pod_resources.live.server import main
    except ImportError as error:
        sys.stderr.write(f"{error}; install koord[runtime] for the gate PodResourcesProxy\n")
        return 3
    status = 0
    try:
        asyncio.run(main(*sys.argv[1:4]))
    except* (BadInput, OSError) as errors:
        sys.stderr.write(f"{errors.exceptions[0]}\n")
        status = 2
    return status


if __name__ == "__main__":
    sys.exit(run())
