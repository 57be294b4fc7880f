"""ClusterColocationProfile: what admission gives to pods that match, so that users need not write it on each.

The profiles that match a new pod are applied in the order of their names; a later one overwrites an earlier one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol.crd.fields import FreeForm, Int32, IntOrString
from koord.api.text.selector import LabelSelector


class ClusterColocationProfileSpec(Struct):
    namespace_selector: LabelSelector | None = None
    "Pods in namespaces with these labels match. Absent or empty: every namespace."
    selector: LabelSelector | None = None
    "Pods with these labels match. Absent or empty: every pod."
    probability: IntOrString | None = None
    "Share of the matching pods that get the profile, as a percentage: 30 or 30%. Absent: all of them."
    qos_class: Literal["LSE", "LSR", "LS", "BE", "SYSTEM"] | None = None
    "QoS class for the pod, written to its label koordinator.sh/qosClass."
    priority_class_name: str = ""
    "PriorityClass for the pod; its value and preemption policy follow. A pod is refused if there is none."
    koordinator_priority: Int32 | None = None
    "Rank among pods of the same priority, written to the pod's label koordinator.sh/priority. Larger wins."
    labels: Mapping[str, str] = EMPTY
    "Labels to set on the pod."
    annotations: Mapping[str, str] = EMPTY
    "Annotations to set on the pod."
    label_keys_mapping: Mapping[str, str] = EMPTY
    "Labels to copy: the value under each key here is also written under the key that it maps to."
    annotation_keys_mapping: Mapping[str, str] = EMPTY
    "Annotations to copy: the value under each key here is also written under the key that it maps to."
    label_suffixes: Mapping[str, str] = EMPTY
    "Texts to append to the values of the labels named here, where the pod has them."
    scheduler_name: str = ""
    "Scheduler for the pod."
    patch: FreeForm = EMPTY
    "A strategic merge patch for the pod, applied after everything else in the profile."


class ClusterColocationProfileStatus(Struct):
    """Nothing is reported for profiles."""


class ClusterColocationProfile(Struct):
    """What new pods are given on admission (labels, QoS class, priority, scheduler, a patch) when they match."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ClusterColocationProfileSpec = ClusterColocationProfileSpec()
    "Which pods match, and what they get."
    status: ClusterColocationProfileStatus = ClusterColocationProfileStatus()
    "Not used."
