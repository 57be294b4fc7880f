"""Which shapes of pods come, and how often: a histogram of the pods of the last days, in which older ones count less.

Every pod counts once, by its name, whatever becomes of it: moves, trials that are undone, a restart that puts all pods
again. A pod that came a half-life ago counts half.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, ClassVar, Final

from koord.api.kubernetes.pod import Pod, PodSpec
from koord.scheduler.plugins.packing.pod_shapes import shape_of
from koord.scheduler.plugins.packing.shapes import PodShape
from koord.scheduler.state.cluster import Cluster
from koord.scheduler.state.notes import Notes
from koord.scheduler.state.pods import PodRecord, Shape, scheduled_spec, template_of
from koord.scheduler.state.table import Row

HALF_LIFE_S: Final = 3 * 86_400.0
MOST_PODS: Final = 20_000
"""The pods that came last are remembered."""
SHAPES_KEPT: Final = 1 << 14


class Demand(Notes):
    """A note is the shape of a pod."""

    name: ClassVar[str] = "GPU packing"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._came: OrderedDict[str, tuple[PodShape, float]] = OrderedDict()
        "By pod: its shape, and when it came."
        self._gone: set[str] = set()
        "Of these, the pods that have left their nodes."
        self._here = 0
        "How many are on nodes."
        self._shapes: dict[Shape, PodShape | None] = {}
        self._device_bytes = 0
        self.gpu_pods = 0
        "How many of the pods that count have GPUs."

    def of(self, pod: Pod) -> PodShape | None:
        spec = scheduled_spec(pod.spec)
        return self.of_shape(template_of(pod, spec).shape, spec)

    def of_shape(self, shape: Shape, spec: PodSpec) -> PodShape | None:
        """The same, where it is known what the pod has in common with others."""
        if shape in self._shapes:
            return self._shapes[shape]
        if len(self._shapes) >= SHAPES_KEPT:
            self._shapes.clear()
        found = self._shapes[shape] = shape_of(shape.requests, spec, self._device_bytes)
        return found

    def moved(self, note: Any, record: PodRecord, row: Row, sign: int) -> None:
        self._here += sign
        if sign < 0:
            self._gone.add(record.key)
            return
        self._gone.discard(record.key)
        if record.key not in self._came:
            self.see(record.key, note, self.cluster.now_s if record.placed_s is None else record.placed_s)
            self.cluster.undoable(lambda: self._forget(record.key))

    def _forget(self, pod: str) -> None:
        """It was only tried out."""
        shape, _ = self._came.pop(pod, (None, 0.0))
        self._gone.discard(pod)
        self.gpu_pods -= shape is not None and shape.gpus > 0

    def measure_by(self, device_bytes: int) -> None:
        """So much memory is a whole device, where pods ask for bytes."""
        if device_bytes != self._device_bytes:
            self._device_bytes = device_bytes
            self._shapes.clear()

    def see(self, pod: str, shape: PodShape, at_s: float) -> None:
        """A pod has come."""
        if pod not in self._came:
            self._came[pod] = shape, at_s
            self.gpu_pods += shape.gpus > 0
            if len(self._came) > MOST_PODS:
                self._forget(next(iter(self._came)))

    @property
    def turnover(self) -> float:
        """Of pods that were on nodes, the part that has left: 0 where pods stay, near 1 where their lives are short."""
        return len(self._gone) / max(len(self._gone) + self._here, 1)

    def mix(self, now_s: float) -> dict[PodShape, float]:
        """How often each shape comes."""
        found: dict[PodShape, float] = {}
        for shape, at_s in self._came.values():
            weight = 0.5 ** (max(0.0, now_s - at_s) / HALF_LIFE_S)
            found[shape] = found.get(shape, 0.0) + weight
        return found
