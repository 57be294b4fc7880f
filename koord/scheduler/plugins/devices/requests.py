"""What a pod asks of devices: which requests are valid, and what they come to for each device.

    koordinator.sh/gpu: 200                             2 devices, 100 gpu-core and 100 gpu-memory-ratio of each
    gpu-core: 30, gpu-memory: 20Gi                      1 device
    gpu.shared: 2, gpu-memory-ratio: 50                 2 devices, 25 of each
    koordinator.sh/rdma: 3 with RequestsAsCount         3 devices, 1 of each

Devices are counted by gpu.shared, else by a ratio of several whole cards, else there is one; amounts are divided by
their number. Percentages are up to 100, or whole cards. Everything else is refused, with the resource that is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.faults import BadInput
from koord.api.protocol import names
from koord.api.protocol.annotations.device import (
    DEVICE_ALLOCATE_HINT,
    DEVICE_JOINT_ALLOCATE,
    GPU_PARTITION_SPEC,
    DeviceHint,
    GPUPartitionSpec,
)
from koord.api.protocol.annotations.value import AnnotationError
from koord.api.text.quantity import render, value
from koord.api.text.selector import EVERYTHING, LabelMatcher, compile_labels
from koord.scheduler.plugins.devices.templates import Templates
from koord.scheduler.state.pods import Amounts

GPU: Final = "gpu"
RDMA: Final = "rdma"
FPGA: Final = "fpga"
TYPES: Final = (GPU, RDMA, FPGA)
"""In the order in which they are looked at, so that of several shortages the same one is told."""
WHOLE: Final = 100

CARDS: Final = frozenset({names.RESOURCE_NVIDIA_GPU, names.RESOURCE_AMD_GPU, names.RESOURCE_HYGON_DCU})
"""Vendors' names for whole GPUs."""
_GPU, _SHARED = names.RESOURCE_GPU, names.RESOURCE_GPU_SHARED
CORE: Final = names.RESOURCE_GPU_CORE
MEMORY: Final = names.RESOURCE_GPU_MEMORY
RATIO: Final = names.RESOURCE_GPU_MEMORY_RATIO
_NPU_CORE, _NPU_CPU = names.RESOURCE_HUAWEI_NPU_CORE, names.RESOURCE_HUAWEI_NPU_CPU
_NPU_DVPP: Final = names.RESOURCE_HUAWEI_NPU_DVPP
GPU_NAMES: Final = CARDS | {_GPU, _SHARED, CORE, MEMORY, RATIO, _NPU_CORE, _NPU_CPU, _NPU_DVPP}
OTHERS: Final[Mapping[str, str]] = {RDMA: names.RESOURCE_RDMA, FPGA: names.RESOURCE_FPGA}
DEVICE_NAMES: Final = GPU_NAMES | set(OTHERS.values())
"""All that this plugin hands out."""
NAMES_OF: Final[Mapping[str, frozenset[str]]] = {
    GPU: GPU_NAMES,
    **{of: frozenset({name}) for of, name in OTHERS.items()},
}
"""By type of devices, the resources that request them."""

_ALONE: Final[tuple[frozenset[str], ...]] = tuple(
    map(frozenset, ({MEMORY}, {RATIO}, {CORE, MEMORY}, {CORE, RATIO}, {_NPU_CORE, RATIO}))
)
_WITH_SHARED: Final = tuple(names_alone | {_SHARED} for names_alone in _ALONE[:4])
_TEMPLATED: Final = tuple(
    map(frozenset, ({_SHARED, _NPU_CORE, _NPU_CPU, MEMORY}, {_SHARED, _NPU_CORE, _NPU_CPU, MEMORY, _NPU_DVPP}))
)
_SETS: Final = (
    "a number of cards, gpu, gpu-memory, gpu-memory-ratio, or gpu-core with one of the last two; "
    "gpu.shared may come with any but the first two"
)


class InvalidRequest(BadInput):
    """A pod asks for devices in a way that nothing can be given for."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a pod asks of devices of one type."""

    type: str
    count: int
    "Of devices; 0: of every one that the selector matches."
    per_device: Amounts
    "Of each device, sorted by name."
    selector: LabelMatcher = EVERYTHING
    vf_selector: LabelMatcher | None = None
    "Virtual functions that it must have one of; None: it needs none."
    scope: str = ""
    "How close together the devices must lie: Device, PCIe, NUMANode, Node."
    exclusive: str = ""
    "DeviceLevel: devices that no other pod uses; PCIeLevel: on PCIe switches that no other pod uses."
    templates: tuple[tuple[str, str], ...] | None = None
    "Of a part that must be a template: by model, its name there. None: it need not be one."
    is_whole: bool = field(init=False, compare=False)
    "Of GPUs: whether it takes whole ones. Memory in bytes is a share, whatever it comes to."

    def __post_init__(self) -> None:
        asked = self.amounts
        object.__setattr__(self, "is_whole", asked.get(RATIO, 0) >= WHOLE and MEMORY not in asked)

    @property
    def amounts(self) -> dict[str, int]:
        return dict(self.per_device)


@dataclass(frozen=True, slots=True)
class Wanted:
    """All that a pod asks of devices."""

    requests: tuple[Request, ...]
    "In the order of `TYPES`."
    joint: tuple[str, ...] = ()
    "Types whose devices should share PCIe switches, the leading type first; empty: each type by itself."
    same_pcie: bool = False
    "Whether they must."
    partition: GPUPartitionSpec | None = None
    isolation: str = ""
    "The isolation provider that must isolate pods on a shared GPU."

    def of(self, type_: str) -> Request | None:
        return next((request for request in self.requests if request.type == type_), None)

    @property
    def shares_gpu(self) -> bool:
        gpu = self.of(GPU)
        return gpu is not None and not gpu.is_whole


def asks_for_devices(requests: Amounts) -> bool:
    return any(name in DEVICE_NAMES for name, _ in requests)


def wanted(requests: Amounts, meta: ObjectMeta, templates: Templates | None = None) -> Wanted | None:
    """What a pod with these requests asks of devices; None: nothing. Raises what is wrong with it. `templates`: those
    that parts of devices must match; None: not checked."""
    asked = {name: amount for name, amount in requests if name in DEVICE_NAMES and amount > 0}
    if not asked:
        return None
    try:
        hints = DEVICE_ALLOCATE_HINT.read(meta)
        joint = DEVICE_JOINT_ALLOCATE.read(meta)
        partition = GPU_PARTITION_SPEC.read(meta)
    except AnnotationError as error:
        raise InvalidRequest(str(error)) from None
    wanted_devices = [*_gpu(asked, hints.get(GPU) or DeviceHint(), templates)]
    for type_, name in OTHERS.items():
        if name in asked:
            wanted_devices.append(_other(type_, asked[name], hints.get(type_) or DeviceHint()))
    alone = {request.type for request in wanted_devices if request.count}
    types = tuple(dict.fromkeys(type_ for type_ in (joint.device_types if joint else ()) if type_ in alone))
    return Wanted(
        tuple(wanted_devices),
        types if len(types) > 1 else (),
        bool(joint and joint.required_scope == "SamePCIe"),
        partition,
        meta.labels.get(names.LABEL_GPU_ISOLATION_PROVIDER, ""),
    )


def _gpu(asked: Mapping[str, int], hint: DeviceHint, templates: Templates | None) -> Iterator[Request]:
    amounts = {name: amount for name, amount in asked.items() if name in GPU_NAMES}
    if not amounts:
        return
    keys = frozenset(amounts)
    if len(keys) == 1 and keys <= CARDS:
        (cards,) = amounts.values()
        amounts = {CORE: WHOLE * cards, RATIO: WHOLE * cards}
    elif keys == {_GPU}:
        _require_percent(_GPU, amounts[_GPU])
        amounts = {CORE: amounts[_GPU], RATIO: amounts[_GPU]}
    elif keys in _ALONE:
        for name in (CORE, RATIO):
            _require_percent(name, amounts.get(name, 0))
    elif keys in _WITH_SHARED:
        _require_shares(amounts)
    elif keys in _TEMPLATED:
        if amounts[_SHARED] > 1:
            raise _invalid(_SHARED, amounts[_SHARED], "must be 1 for NPUs that are divided by templates")
        if amounts.get(_NPU_DVPP, 0) > WHOLE:
            raise _invalid(_NPU_DVPP, amounts[_NPU_DVPP], f"must be at most {WHOLE}")
    else:
        asked_for = ", ".join(sorted(keys))
        raise InvalidRequest(f"requests: {asked_for} cannot be asked for in this combination; valid is {_SETS}")
    ratio = amounts.get(RATIO, 0)
    count = amounts.pop(_SHARED, 0) or (ratio // WHOLE if ratio > WHOLE else 1)
    per_device = tuple(sorted((name, amount // count) for name, amount in amounts.items()))
    request = _hinted(GPU, count, per_device, hint)
    if templates is None or request.is_whole or templates.needed_for.isdisjoint(amounts):
        yield request
        return
    matching = templates.matching(per_device)
    if not matching:
        part = ", ".join(f"{render(name, amount)} {name}" for name, amount in per_device)
        raise InvalidRequest(f"requests: {part} matches no template of any model; {templates.listing()}")
    yield replace(request, templates=matching)


def _require_shares(amounts: Mapping[str, int]) -> None:
    shares = amounts[_SHARED]
    for name in (CORE, RATIO):
        amount = amounts.get(name, 0)
        if amount % shares:
            raise _invalid(name, amount, f"must be a multiple of {_SHARED} ({shares})")
        if amount > shares * WHOLE:
            raise _invalid(name, amount, f"must be at most {shares * WHOLE}: {WHOLE} of each GPU")


def _other(type_: str, amount: int, hint: DeviceHint) -> Request:
    name = OTHERS[type_]
    if amount > WHOLE:
        _require_percent(name, amount)
        return _hinted(type_, amount // WHOLE, ((name, WHOLE),), hint)
    if hint.allocate_strategy == "ApplyForAll":
        return _hinted(type_, 0, ((name, amount),), hint)
    if hint.allocate_strategy == "RequestsAsCount":
        of_each = WHOLE if hint.exclusive_policy == "DeviceLevel" else 1
        return _hinted(type_, amount, ((name, of_each),), hint)
    return _hinted(type_, 1, ((name, amount),), hint)


def _hinted(type_: str, count: int, per_device: Amounts, hint: DeviceHint) -> Request:
    return Request(
        type_,
        count,
        per_device,
        compile_labels(hint.selector, absent=EVERYTHING),
        None if hint.vf_selector is None else compile_labels(hint.vf_selector, absent=EVERYTHING),
        hint.required_topology_scope,
        hint.exclusive_policy,
    )


def _require_percent(name: str, amount: int) -> None:
    if amount > WHOLE and amount % WHOLE:
        raise _invalid(name, amount, f"must be at most {WHOLE}, or a multiple of {WHOLE}")


def _invalid(name: str, amount: int, rule: str) -> InvalidRequest:
    return InvalidRequest(f"requests[{name}]: {amount} {rule}")


def bandwidth_of(partition: GPUPartitionSpec | None) -> int:
    """Bytes a second that linked GPUs must have between them; 0: it does not matter."""
    bandwidth = None if partition is None else partition.ring_bus_bandwidth
    return 0 if bandwidth is None else value(bandwidth)
