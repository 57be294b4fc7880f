"""What the scheduler gave to the pods of a node: the file from the agent to its pod-resources process.

The agent moves a new file into place whenever something changes; the server reads it for each request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol.names import RESOURCE_FPGA, RESOURCE_NVIDIA_GPU, RESOURCE_RDMA

DIRECTORY: Final = "/var/run/koordlet/pod-resources"
SOCKET: Final = "kubelet.sock"
"""In that directory, and in kubelet's."""
KUBELET_DIRECTORY: Final = "var/lib/kubelet/pod-resources"
"""Below the host's root."""
GIVEN_FILE: Final = "pod-resources.json"
"""In the agent's state directory."""
RESOURCE_OF: Final[Mapping[str, str]] = {
    "gpu": RESOURCE_NVIDIA_GPU,
    "rdma": RESOURCE_RDMA,
    "fpga": RESOURCE_FPGA,
}
"""By type of device, the resource that its devices are told under."""


class GivenDevices(Struct):
    resource: str
    ids: tuple[str, ...]


class Given(Struct):
    """To one pod."""

    cpus: tuple[int, ...] = ()
    devices: tuple[GivenDevices, ...] = ()


class GivenToPods(Struct):
    pods: Mapping[str, Given] = EMPTY
    "By namespace and name."
