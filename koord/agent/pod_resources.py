"""What the scheduler gave to the pods of this node, for clients of kubelet's pod-resources socket.

CPUs and devices come from the pods' annotations. GPUs are listed by UUID, as device plugins do, found by the minor
number if the annotation does not have it. Virtual functions of a card are listed instead of the card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from koord.agent.cpu_pools import own_cpus
from koord.agent.pods import AgentPod
from koord.agent.state import NodeState
from koord.api.protocol.annotations.device import DEVICE_ALLOCATED, AllocatedDevice
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.protocol.pod_resources import RESOURCE_OF, Given, GivenDevices, GivenToPods


def given_to_pods(state: NodeState) -> GivenToPods:
    uuids = {gpu.minor: gpu.uuid for gpu in state.devices.usable_gpus()} if state.devices else {}
    given_by_pod = {pod.key: _given(pod, uuids) for pod in state.pods.values() if pod.is_present}
    return GivenToPods({key: given for key, given in sorted(given_by_pod.items()) if given.cpus or given.devices})


def _given(pod: AgentPod, uuids: Mapping[int, str]) -> Given:
    try:
        allocated = DEVICE_ALLOCATED.read(pod.meta)
    except AnnotationError:
        allocated = {}
    devices = []
    for type_, devices_of_type in sorted(allocated.items()):
        ids = tuple(_ids(devices_of_type, uuids if type_ == "gpu" else {}))
        if type_ in RESOURCE_OF and ids:
            devices.append(GivenDevices(RESOURCE_OF[type_], ids))
    return Given(tuple(own_cpus(pod)), tuple(devices))


def _ids(devices: Iterable[AllocatedDevice], uuids: Mapping[int, str]) -> Iterable[str]:
    for device in devices:
        functions = device.extension.vfs if device.extension is not None else ()
        if functions:
            yield from (function.bus_id for function in functions if function.bus_id)
        elif identity := device.id or uuids.get(device.minor, ""):
            yield identity
