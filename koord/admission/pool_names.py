"""Pods that ask for the pool in another system's words: plain requests become that system's name for batch resources.

    label caster.io/resource-type: colocation                     caster.io/colocation-cpu, -memory
    annotation katalyst.kubewharf.io/qos_level: reclaimed_cores   resource.katalyst.kubewharf.io/reclaimed_*

The pod becomes a batch pod under the rules of batch: QoS class BE, and the priority class of batch unless it says
another one itself. Crane has no word for this: its pods name gocrane.io/cpu themselves.
"""

from __future__ import annotations

from typing import Final

from koord.admission.plain import annotations_of, labels_of, with_part
from koord.admission.request import Json
from koord.admission.resource_translation import with_names
from koord.api.protocol import names
from koord.api.protocol.pool_names import OTHER_NAMES
from koord.api.protocol.priority import PriorityClass, QoSClass

CASTER_LABEL: Final = "caster.io/resource-type"
CASTER_VALUE: Final = "colocation"
KATALYST_LEVEL: Final = "katalyst.kubewharf.io/qos_level"
RECLAIMED: Final = "reclaimed_cores"


def translated(pod: Json) -> Json:
    """The same object if the pod asks for nothing of the kind."""
    labels = labels_of(pod)
    if labels.get(CASTER_LABEL) == CASTER_VALUE:
        word = "caster"
    elif annotations_of(pod).get(KATALYST_LEVEL) == RECLAIMED:
        word = "katalyst"
    else:
        return pod
    own = {str(names.LABEL_QOS_CLASS): QoSClass.BE.value, str(names.LABEL_PRIORITY_CLASS): PriorityClass.BATCH.value}
    pod = with_part(pod, {**own, **labels}, "metadata", "labels")
    pool = OTHER_NAMES[word]
    return with_names(pod, (pool.cpu, pool.memory))
