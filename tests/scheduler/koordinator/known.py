"""Where koord says something else than Koordinator and is meant to, each with its reason."""

from __future__ import annotations

from collections.abc import Iterable


def _each(reason: str, numbers: Iterable[int]) -> dict[int, str]:
    return dict.fromkeys(numbers, reason)


_CORES_TO_ITSELF = "a pod that wants cores for itself leaves the cores of its preferred CPUs alone, too"
_PARTS_OF_CORES = "preferred CPUs that are parts of cores do not keep a pod from the whole cores that it requires"
_ONE_NUMA_NODE = "on a machine with one NUMA node that node is agreed on, as on any other"
_NO_PREFERENCE = "a pod without any NUMA preference is not refused for wanting NUMA nodes for itself"
_BEST_SCORE = "of as many nodes the best score is taken, in whichever order the hints come"
_HIGHEST_PARTITION = "partitions with the highest allocationScore are tried first, as users are told"
_HEALTHY_PARTITION = "a partition with a GPU that is not healthy does not count among those that stay whole"
_REAL_SCORE = "a shared GPU is scored by what is free of it, in the topology as elsewhere"
_SCORED_HINTS = "hints prefer the NUMA nodes of the GPUs that the pod is going to get, by score"
_SELECTED_FIRST = "a selector that matches no GPU is told before a topology that is missing"
_GOES_ON = "pods of a once-satisfied gang go on once their group has started, whatever its other gangs wait for"
_PODS_STAY = "pods stay members of their gang while its PodGroup is gone"
_ANEW = "a gang that has lost all its pods comes together again: what it needs follows from the objects that exist"
_NOT_IN_VAIN = "a gang that counts only waiting pods is tried once enough of them wait"
_TRUE_COUNTS = "a PodGroup with a pod on a node is not pending any more, and counts it"
_NO_MINIMUM = "a PodGroup without a minimum has not finished before one of its pods has"
_TAINTS_COUNT = "taints of a reservation keep out pods without a reservation affinity as well"
_EVERY_NAME = "an exact match looks at every resource that is named, after one that neither side has as well"
_IGNORES_ALL = "a pod that ignores reservations needs none, even if it asks for one as well"
_INSIDE = "what is reserved inside a reservation is not free for pods that ignore reservations"
_ALL_THAT_IS_USED = "owners that use more than is reserved count with all that they use"
_COUNTED_ONCE = "what owners use comes out of a Restricted reservation, whichever resources its options restrict"
_KEPT_FROM_OWNERS = "what is reserved inside a reservation is hidden from its owners under every policy"
_NO_NODE_NEEDED = "a reservation that ended is deleted after a day, whether or not it had a node or says when it ended"
_OTHER_SWITCHES = "where devices must share PCIe switches, other switches are tried before a node is refused"
_KEEPS_ITS_NUMA_NODE = "CPUs of others do not span the NUMA node of a pod with its own policy, whichever came first"
_PROMISED_CPUS = "CPUs that a NUMA node has promised to pods that share them are not bound by others"
_NOT_TWICE = "an owner counts once, though its reservation takes no other one"
_SPLIT_IN_ORDER = "amounts are split from the NUMA node that has least, whichever numbers the nodes have"
_BY_USE = "hints are scored by what pods hold, whatever CPUs the pod's own bind policy leaves out"
_NEVER_REFUSES = "BestEffort takes the node without amounts of NUMA nodes where these do not suffice"
_ALL_KEYS = "all resources of a quota are compared, whichever of them the last pod asked for"
_NO_CIRCLE = "a quota does not become its own parent"
_WEIGHTS_COUNT = "a change of weights alone is looked at as well"
_ITS_NAMESPACE = "pods of a namespace are in the quota of that name that is in that namespace, not in one elsewhere"

KNOWN: dict[str, dict[int, str]] = {
    "cpus": {
        **_each(_CORES_TO_ITSELF, (600, 601, 602)),
        **_each(_PARTS_OF_CORES, (253, 363, 480, 560, 565, 572)),
    },
    "numa_hints": {
        **_each(
            _ONE_NUMA_NODE, (8, 15, 24, 67, 75, 100, 114, 124, 177, 208, 212, 225, 243, 248, 255, 271, 277, 278, 279)
        ),
        **_each(_NO_PREFERENCE, (21, 259)),
        **_each(_BEST_SCORE, (153,)),
    },
    "numa": {
        **_each(_SPLIT_IN_ORDER, (0, 24, 79, 87, 161, 166, 180)),
        **_each(_BY_USE, (3, 18, 50, 73, 77, 92, 117, 149, 160, 189)),
        **_each(_NEVER_REFUSES, (54, 74, 84, 85, 91, 113, 122, 133, 139, 156, 165, 182)),
        **_each(_ONE_NUMA_NODE, (64, 153, 197)),
        **_each(_BEST_SCORE, (41, 170)),
    },
    "devices": {
        **_each(_HIGHEST_PARTITION, (27, 105, 232, 254, 304, 305)),
        **_each(_REAL_SCORE, (2, 302)),
        **_each(_SCORED_HINTS, (301,)),
        **_each(_SELECTED_FIRST, (264,)),
        **_each(_HEALTHY_PARTITION, (306, 307, 308)),
    },
    "gangs": _each(
        _GOES_ON,
        (
            1,
            14,
            34,
            35,
            41,
            56,
            80,
            86,
            92,
            99,
            100,
            102,
            110,
            122,
            135,
            144,
            149,
            157,
            159,
            161,
            166,
            177,
            188,
            194,
            198,
            199,
        ),
    ),
    "reservations": {
        **_each(
            _TAINTS_COUNT,
            (9, 11, 17, 39, 73, 82, 108, 133, 140, 149, 159, 166, 174, 182, 197, 210, 225, 226, 249),
        ),
        **_each(_EVERY_NAME, (184, 236)),
        **_each(_IGNORES_ALL, (12,)),
        **_each(_INSIDE, (45,)),
        **_each(_ALL_THAT_IS_USED, (71, 274)),
        **_each(_NOT_TWICE, (217,)),
    },
    "quota": {},
    "quota_stories": {},
    "gang_stories": {
        **_each(_ANEW, (0, 13, 15, 18, 24, 46, 63, 65, 76, 125, 145, 148, 156, 164, 247, 255)),
        **_each(_PODS_STAY, (4, 10, 11, 22, 57, 61, 75, 77, 84, 108, 115, 124, 144, 153, 205, 218, 221, 223, 249)),
        **_each(_NOT_IN_VAIN, (19, 106, 243, 246)),
        **_each(_GOES_ON, (39, 55, 89, 105, 120, 157, 177, 197, 219, 226, 231, 239)),
    },
    "pod_groups": {
        **_each(
            _TRUE_COUNTS,
            (3, 11, 24, 30, 33, 38, 43, 46, 51, 59, 72, 94, 103, 111, 120, 124, 132, 147, 154, 158, 177, 179, 188),
        ),
        **_each(_TRUE_COUNTS, (211, 224, 230, 234)),
        **_each(_NO_MINIMUM, (9, 23, 28, 76, 91, 93, 163, 176, 194, 198, 208, 233, 235, 236, 238)),
    },
    "scores": {},
    "quota_admission": {
        **_each(_NO_CIRCLE, (39,)),
        **_each(_WEIGHTS_COUNT, (42, 60, 66, 295)),
        **_each(_ITS_NAMESPACE, (121,)),
    },
    "network": {},
    "revocations": _each(_ALL_KEYS, (52,)),
}
"""By subject, the number of a case in its recording -> why."""

UNRECORDED: tuple[str, ...] = (
    _COUNTED_ONCE,
    _KEPT_FROM_OWNERS,
    _NO_NODE_NEEDED,
    _OTHER_SWITCHES,
    _KEEPS_ITS_NUMA_NODE,
    _PROMISED_CPUS,
)
"""Deliberate differences that no recorded case shows: tests of koord's own plugins do."""
