"""Clusters and pods to replay: the openb traces (Alibaba, 2023) from a folder, or a small one that is made up.

Files are named as their publishers name them: `openb_node_list_gpu_node.csv`, `openb_pod_list_TRACE.csv` (or .csv.gz),
and `fgd_arrival_orders.npz` with the published orders of arrival and of nodes by trace and seed. For other traces and
seeds an order is drawn by the same rule: all pods shuffled, then pods drawn again until 130 % of all GPU has been asked
for. Nodes come in the order in which ties are broken.
"""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, cast

import numpy as np

from koord.scheduler.plugins.packing.shapes import WHOLE, Fleet, PodShape, groups_of
from koord.scheduler.state.table import Array
from koord.sim.traces import openb
from koord.sim.traces.openb import NODES
from koord.sim.traces.trace import GpuNode, Repairs, TraceFault

PODS: Final = "openb_pod_list_{}.csv"
ORDERS: Final = "fgd_arrival_orders.npz"
WITH_TIMES: Final = "default"
ARRIVING: Final = 1.3
"""How much GPU pods ask for in all, of what there is."""
PUBLISHED: Final = (
    "default", "cpu050", "cpu200", "gpushare40", "gpushare60", "gpushare100",
    "gpuspec10", "gpuspec20", "gpuspec33", "multigpu20", "multigpu30", "multigpu50",
)  # fmt: skip
"""The traces with published results."""
MADE_UP: Final = "made-up"
MADE_UP_PODS: Final = 600


class TraceError(ValueError):
    """A trace that cannot be read: which file, and why."""


class TracePod(NamedTuple):
    name: str
    shape: PodShape
    begins_s: int
    ends_s: int


@dataclass(frozen=True, slots=True)
class Trace:
    """A cluster, the pods of a trace, and one order of arrival."""

    name: str
    seed: int
    nodes: list[GpuNode]
    "Ties go to the first."
    pods: list[TracePod]
    arrivals: list[int]
    "Places in `pods`, some of them more than once."

    @property
    def gpu_milli(self) -> int:
        return WHOLE * sum(node.gpus for node in self.nodes)

    @property
    def mix(self) -> dict[PodShape, float]:
        """How often each shape comes in the recorded trace."""
        counts: dict[PodShape, float] = {}
        for pod in self.pods:
            counts[pod.shape] = counts.get(pod.shape, 0.0) + 1
        return counts


def fleet_of(nodes: list[GpuNode]) -> Fleet:
    """Empty nodes, as policies see them."""
    groups, group = groups_of((node.model, node.gpus, node.cpu_milli, node.memory_mib) for node in nodes)
    most = max(node.gpus for node in nodes)
    devices = np.array([[WHOLE] * node.gpus + [0] * (most - node.gpus) for node in nodes], np.int64)
    cpu, memory = (np.array([node[i] for node in nodes], np.int64) for i in (3, 4))
    return Fleet(groups, group, cpu, memory, devices)


def read(folder: Path, name: str, seed: int) -> Trace:
    """A trace with its published order of arrival, or one that is drawn."""
    nodes, pods = _nodes(folder / NODES), _pods(folder, name)
    orders = _orders(folder)
    key = f"{name}_{seed}"
    if f"{key}_pods" in orders:
        arrivals = orders[f"{key}_pods"].tolist()
        rank = orders[f"{key}_noderank"].tolist()
    else:
        capacity = WHOLE * sum(node.gpus for node in nodes)
        arrivals, rank = _draw(pods, len(nodes), capacity, random.Random(f"{name} {seed}"))
    by_name = sorted(nodes)
    if not any(pod.ends_s for pod in pods):
        pods = _with_lives(pods, _pods(folder, WITH_TIMES), random.Random(name))
    return Trace(name, seed, [by_name[i] for i in np.argsort(rank).tolist()], pods, arrivals)


def _with_lives(pods: list[TracePod], others: list[TracePod], rng: random.Random) -> list[TracePod]:
    """Traces that were made from another one have no times of their own: they get life times of that one."""
    drawn = rng.choices(others, k=len(pods))
    return [pod._replace(begins_s=other.begins_s, ends_s=other.ends_s) for pod, other in zip(pods, drawn, strict=True)]


def names(folder: Path) -> list[str]:
    """The traces of a folder."""
    head, tail = PODS.split("{}")
    stems = {path.name.removeprefix(head).split(tail)[0] for path in folder.glob(f"{head}*{tail}*")}
    return sorted(stems)


def _orders(folder: Path) -> dict[str, Array]:
    path = folder / ORDERS
    if not path.exists():
        return {}
    with np.load(path) as orders:
        return {name: orders[name] for name in orders.files}


def _draw(pods: list[TracePod], nodes: int, capacity: int, rng: random.Random) -> tuple[list[int], list[int]]:
    order = list(range(len(pods)))
    rng.shuffle(order)
    arrivals: list[int] = []
    asked = 0
    while True:
        another = order[len(arrivals)] if len(arrivals) < len(order) else rng.randrange(len(pods))
        asked += pods[another].shape.total_milli
        if asked > ARRIVING * capacity:
            break
        arrivals.append(another)
    rank = list(range(nodes))
    rng.shuffle(rank)
    return arrivals, rank


def _nodes(path: Path) -> list[GpuNode]:
    with _opened(path) as stream:
        return list(openb.read_nodes(stream, str(path)))


def _pods(folder: Path, name: str) -> list[TracePod]:
    path = folder / PODS.format(name)
    if not path.exists():
        path = path.with_name(path.name + ".gz")
    with _opened(path) as stream:
        pods = openb.read_pods(stream, str(path), Repairs())
    return [
        TracePod(
            pod.name,
            PodShape(pod.cpu_milli, pod.memory_mib, pod.gpus, pod.gpu_milli, pod.models),
            pod.begin_s,
            pod.end_s,
        )
        for pod in pods
    ]


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            yield cast("BinaryIO", file)
    except TraceFault as fault:
        raise TraceError(str(fault)) from None
    except OSError as error:
        raise TraceError(f"{path}: {error.strerror}") from error


SMALL: Final = (("G2", 8, 96_000, 393_216, 4), ("T4", 2, 104_000, 524_288, 3), ("V100M16", 4, 32_000, 131_072, 1))
"""Kinds of nodes, with how many there are of each among eight."""
OPENB: Final = (
    ("G2", 8, 96_000, 393_216, 549), ("T4", 2, 104_000, 524_288, 387), ("P100", 2, 16_000, 122_880, 107),
    ("G3", 8, 128_000, 786_432, 39), ("V100M16", 4, 32_000, 131_072, 28), ("P100", 2, 64_000, 262_144, 22),
    ("V100M32", 8, 96_000, 786_432, 21), ("V100M16", 1, 8_000, 32_768, 19), ("T4", 4, 96_000, 393_216, 17),
    ("V100M32", 4, 48_000, 376_832, 9), ("V100M16", 8, 64_000, 262_144, 7), ("P100", 1, 8_000, 61_440, 3),
    ("P100", 2, 8_000, 61_440, 2), ("A10", 1, 128_000, 1_048_576, 2), ("V100M16", 8, 82_000, 344_064, 1),
)  # fmt: skip
"""The GPU nodes of the openb cluster."""
SHAPES: Final = (
    (PodShape(8_000, 32_768, 1, 1000), 30), (PodShape(4_000, 16_384, 1, 500), 20),
    (PodShape(3_000, 12_288, 1, 330), 15), (PodShape(6_000, 24_576, 1, 810), 10),
    (PodShape(11_000, 49_152, 1, 1000, frozenset({"G2", "V100M16"})), 5), (PodShape(2_000, 8_192, 1, 190), 8),
    (PodShape(88_000, 327_680, 8, 1000), 2), (PodShape(16_000, 65_536, 2, 1000), 4), (PodShape(8_000, 30_720), 16),
)  # fmt: skip
"""Shapes of pods, with how often they come."""


def made_up(seed: int, nodes: int = 40) -> Trace:
    """A small cluster and trace of the same kind, for a first look and for tests."""
    return _made(seed, [kind for *kind, number in SMALL for _ in range(number)] * (nodes // 8), MADE_UP_PODS)


def as_large(seed: int, pods: int) -> Trace:
    """As many nodes of each kind as the openb cluster has, and made-up pods in many sizes of CPU and memory."""
    return _made(seed, [kind for *kind, number in OPENB for _ in range(number)], pods, sizes=8)


def _made(seed: int, kinds: Sequence[Sequence[Any]], number: int, sizes: int = 1) -> Trace:
    rng = random.Random(seed)
    nodes = [GpuNode(f"node-{i:04}", *kind) for i, kind in enumerate(kinds)]
    drawn = rng.choices([shape for shape, _ in SHAPES], [often for _, often in SHAPES], k=number)
    pods = []
    for i, shape in enumerate(drawn):
        size = 1 + rng.randrange(sizes) / 16
        shape = shape._replace(cpu_milli=int(shape.cpu_milli * size), memory_mib=int(shape.memory_mib * size))
        begins_s = i * 60
        pods.append(TracePod(f"pod-{i:04}", shape, begins_s, begins_s + int(rng.expovariate(1 / 7200)) + 60))
    arrivals, rank = _draw(pods, len(nodes), WHOLE * sum(node.gpus for node in nodes), rng)
    return Trace(MADE_UP, seed, [nodes[i] for i in np.argsort(rank).tolist()], pods, arrivals)
