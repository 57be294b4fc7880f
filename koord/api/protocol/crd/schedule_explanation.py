"""ScheduleExplanation: a question to the scheduler, why a pod or gang has no node, and its answer."""

from __future__ import annotations

from typing import Annotated

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.protocol.crd.fields import FreeForm, served_default
from koord.api.text.duration import Duration
from koord.api.text.timestamp import Timestamp


class ScheduleExplanationSpec(Struct):
    question_object_key: str = ""
    "What is asked about: namespace/name of a pod or gang, or the id of a gang group."
    question_object_template: FreeForm = EMPTY
    "Reserved for questions about a pod that does not exist. Not read."
    ttl: Annotated[Duration, served_default("24h")] = "24h"
    "How long the answer is kept up to date before the object is deleted. 0 keeps it for good."


class SchedulingResult(Struct):
    namespace: str = ""
    "Namespace of the pod."
    name: str = ""
    "Name of the pod."
    uid: str = ""
    "UID of the pod."
    node_name: str = ""
    "Node that the pod could go to."


class NodeFailedDetail(Struct):
    failed_plugin: str = ""
    "The scheduler plugin that turned the nodes down."
    reason: str = ""
    "Why the plugin turned the nodes down."
    preempt_might_help: bool = False
    "Whether the pod might fit if other pods were evicted."
    failed_nodes: tuple[str, ...] = ()
    "The nodes that were turned down for this reason."


class NodeLevelExplanations(Struct):
    schedulable: bool = False
    "Whether all pods that were asked about fit."
    failed_message: str = ""
    "Why the pods do not all fit."
    feasible_scheduling_result: tuple[SchedulingResult, ...] = ()
    "Where the pods would go, as far as they fit."
    node_failed_details: tuple[NodeFailedDetail, ...] = ()
    "Why nodes were turned down, nodes with the same reason together."


class PossibleVictim(Struct):
    namespace: str = ""
    "Namespace of the pod."
    name: str = ""
    "Name of the pod."
    uid: str = ""
    "UID of the pod."
    is_nominated_pod: bool = False
    "Whether the pod does not run yet, but the node is held for it."


class NodePossibleVictim(Struct):
    node_name: str = ""
    "Name of the node."
    possible_victims: tuple[PossibleVictim, ...] = ()
    "Pods there that would be evicted."


class TopologyDomainLevelExplanation(Struct):
    topology_domain: str = ""
    "The part of the network topology that this entry is about."
    schedulable: bool = False
    "Whether all pods that were asked about fit here."
    schedulable_after_preemption: bool = False
    "Whether they would fit here once the possible victims are evicted. Says something only if schedulable is false."
    failed_message: str = ""
    "Why they do not fit here."
    schedule_explanation: NodeLevelExplanations = NodeLevelExplanations()
    "The answer for the present nodes."
    preempt_explanation: NodeLevelExplanations = NodeLevelExplanations()
    "The answer for the nodes without the possible victims."
    node_possible_victims: tuple[NodePossibleVictim, ...] = ()
    "Pods that would be evicted to make room."


class ScheduleExplanationStatus(Struct):
    schedulable: bool = False
    "Whether what was asked about can be scheduled."
    schedulable_after_preemption: bool = False
    "Whether it could be after evicting other pods. Says something only if schedulable is false."
    failed_message: str = ""
    "Why it cannot be scheduled."
    last_update_time: Timestamp | None = None
    "When the answer was last written; at least once a minute while it is kept up to date."
    detailed_explanation: tuple[TopologyDomainLevelExplanation, ...] = ()
    "The answer for each part of the network topology."


class ScheduleExplanation(Struct):
    """A question to the scheduler, why a pod or gang has no node, and its answer."""

    metadata: ObjectMeta = ObjectMeta()
    spec: ScheduleExplanationSpec = ScheduleExplanationSpec()
    "The question."
    status: ScheduleExplanationStatus = ScheduleExplanationStatus()
    "The answer. Written by the scheduler."
