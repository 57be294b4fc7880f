"""What a copilot tells the node agent of containers that another system runs beside Kubernetes, over a unix socket.

The paths and names are those of Koordinator's YARN copilot: GET /health, /information, /v1/containers, /v1/container;
POST /v1/killContainer, /v1/killContainersByResource.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from koord.api.kubernetes.pod import ResourceRequirements
from koord.api.machinery.struct import EMPTY, Struct, field
from koord.api.text.quantity import ResourceList

SOCKET: Final = "/var/run/yarn-copilot/yarn-copilot.sock"
DIRECTORY: Final = "hadoop-yarn"
"""Of all its containers, below best effort."""
LABEL_EXECUTION: Final = "yarn.hadoop.apache.org/execution-type"
LABEL_APPLICATION: Final = "yarn.hadoop.apache.org/application-id"


class CopilotInformation(Struct, omit_defaults=False):
    name: str = "yarn"
    version: str = "v1"


class ContainerInfo(Struct, omit_defaults=False):
    """One container. The list of all is in the order in which they should go."""

    name: str
    namespace: str = "yarn"
    uid: str = ""
    labels: Mapping[str, str] = EMPTY
    annotations: Mapping[str, str] = EMPTY
    priority: int = 1
    create_timestamp: str = "0001-01-01T00:00:00Z"
    cgroup_dir: str = ""
    host_network: bool = True
    resources: ResourceRequirements = ResourceRequirements()


class KillRequest(Struct):
    container_id: str = field(name="containerID", default="")
    resources: ResourceList = EMPTY
    "Of killContainersByResource: the amounts to release, `cpu` and `memory`."


class KillInfo(Struct, omit_defaults=False):
    items: tuple[ContainerInfo, ...] = ()
    "What goes, with what is on its way out already."
