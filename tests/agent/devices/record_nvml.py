"""Records what NVML says on this machine, for tests on machines without GPUs:

python -m tests.agent.devices.record_nvml > tests/agent/devices/answers/NAME.json
"""

from __future__ import annotations

import sys

import msgspec

from koord.agent.devices.nvml import Nvml


def main() -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(Nvml().inventory()), indent=2).decode() + "\n")


if __name__ == "__main__":
    main()
