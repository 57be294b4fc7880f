"""Which shapes of pods come, how often, and how long they stay: of the pods of the last days, older ones count less.

Every pod counts once, by its name, whatever becomes of it: moves, trials that are undone, a restart that puts all pods
again. A pod that came a half-life ago counts half, and so does an hour that it was there.

What fills a cluster is not what comes most often, but what stays: a thousand pods of a minute take less than one of a
day. So room is priced by the pods that stand at a time, and a little by those that come: of these alone there would be
few where lives are long. What comes counts no more than `MOST_OFTEN` times what stands of it: a hundred thousand pods
of a second do not make prices for all others.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
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
"""Beyond this many, pods that have left are forgotten, those that left first."""
STANDING: Final = 0.6
"""How far the time that pods stay counts; the rest is how often they come."""
MOST_OFTEN: Final = 100.0
STAYS_S: Final = 3600.0
"""A running pod counts for at least this long: how long it will stay is not known yet."""
SHAPES_KEPT: Final = 1 << 14


@dataclass(slots=True)
class _PodStay:
    shape: PodShape
    came_s: float
    left_s: float | None = None
    "None: it is there."
    stayed_s: float = 0.0
    "Of a pod that is known from elsewhere: how long it was there."

    def count(self, now_s: float) -> float:
        return _weight(now_s - self.came_s)

    def time_s(self, now_s: float) -> float:
        """How long it was there, in which hours that are long ago count less."""
        until_s = now_s if self.left_s is None else self.left_s
        here = (_weight(now_s - until_s) - _weight(now_s - self.came_s)) * HALF_LIFE_S / math.log(2)
        return (here if self.left_s is not None else max(here, STAYS_S)) + self.stayed_s * self.count(now_s)


def _weight(age_s: float) -> float:
    return math.exp2(-max(0.0, age_s) / HALF_LIFE_S)


class Demand(Notes):
    """A note is the shape of a pod."""

    name: ClassVar[str] = "GPU packing"

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._seen: dict[str, _PodStay] = {}
        "By pod."
        self._elsewhere: dict[str, None] = {}
        self._gone: dict[str, None] = {}
        "Of these, those that were never here, and those that have left their nodes, in that order."
        self._shapes: dict[Shape, PodShape | None] = {}
        self._device_bytes = 0
        self.gpu_pods = 0
        "How many of the pods that count have GPUs."

    def of(self, pod: Pod) -> PodShape | None:
        spec = scheduled_spec(pod.spec)
        return self.of_shape(template_of(pod, spec).shape, spec)

    def by_spec(self, spec: PodSpec) -> bool:
        return True

    def of_shape(self, shape: Shape, spec: PodSpec) -> PodShape | None:
        """The same, where it is known what the pod has in common with others."""
        if shape in self._shapes:
            return self._shapes[shape]
        if len(self._shapes) >= SHAPES_KEPT:
            self._shapes.clear()
        pod_shape = self._shapes[shape] = shape_of(shape.requests, spec, self._device_bytes)
        return pod_shape

    def moved(self, note: Any, record: PodRecord, row: Row, sign: int) -> None:
        key, now_s = record.key, self.cluster.now_s
        seen = self._seen.get(key)
        if sign < 0:
            if seen is not None:
                self._gone[key], seen.left_s = None, now_s
            return
        if seen is not None:
            self._gone.pop(key, None)
            seen.left_s = None
            return
        self._add(key, _PodStay(note, now_s if record.placed_s is None else record.placed_s))
        self.cluster.undoable(lambda: self._forget(key))

    def _add(self, pod: str, seen: _PodStay) -> None:
        self._seen[pod] = seen
        self.gpu_pods += seen.shape.gpus > 0
        if len(self._seen) > MOST_PODS:
            oldest = next(iter(self._elsewhere or self._gone), None)
            if oldest is not None:
                self._forget(oldest)

    def _forget(self, pod: str) -> None:
        """It was only tried out, or was long ago."""
        seen = self._seen.pop(pod, None)
        self._gone.pop(pod, None)
        self._elsewhere.pop(pod, None)
        self.gpu_pods -= seen is not None and seen.shape.gpus > 0

    def measure_by(self, device_bytes: int) -> None:
        """`device_bytes` of memory is a whole device, where pods ask for bytes."""
        if device_bytes != self._device_bytes:
            self._device_bytes = device_bytes
            self._shapes.clear()
            self.cluster.settle_anew()

    def see(self, pod: str, shape: PodShape, at_s: float, stayed_s: float = 0.0) -> None:
        """A pod is known that came at a time, and was somewhere else."""
        if pod not in self._seen:
            self._elsewhere[pod] = None
            self._add(pod, _PodStay(shape, at_s, at_s, stayed_s))

    def mix(self, now_s: float) -> dict[PodShape, float]:
        """How often each shape comes."""
        return _sums((seen.shape, seen.count(now_s)) for seen in self._seen.values())

    def standing(self, now_s: float) -> dict[PodShape, float]:
        """How much there is of each shape at a time, in parts of all pods."""
        often = _sums((seen.shape, seen.count(now_s)) for seen in self._seen.values())
        long_ = _sums((seen.shape, seen.time_s(now_s)) for seen in self._seen.values())
        time_s = sum(long_.values())
        if not time_s:
            return _parts(often)
        stands = _parts(long_)
        comes = {shape: min(part, MOST_OFTEN * stands[shape]) for shape, part in _parts(often).items()}
        return _parts({shape: (1 - STANDING) * comes[shape] + STANDING * stands[shape] for shape in often})


def _parts(weights: dict[PodShape, float]) -> dict[PodShape, float]:
    total = sum(weights.values())
    return {shape: weight / total for shape, weight in weights.items()} if total else weights


def _sums(weights: Iterator[tuple[PodShape, float]]) -> dict[PodShape, float]:
    sums: dict[PodShape, float] = {}
    for shape, weight in weights:
        sums[shape] = sums.get(shape, 0.0) + weight
    return sums
