"""Every name of the protocol: labels, annotations, resources, built-in objects, endpoints. Each is spelled here, once.

The types keep them apart: a `LabelKey` cannot be passed where an `AnnotationKey` is wanted. Where one name is both
(a vendor's resource that is also an annotation), it has two constants. Groups follow the protocol's own sections;
the line above a group says on which objects the keys stand and who writes > reads them: U user, W manager's
webhooks, M manager's controllers, S scheduler, D descheduler, K node agent, Y YARN operator, X others. What the values
mean is in `koord.api.protocol.annotations`; feature gates are in `koord.api.configuration.features`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NewType

LabelKey = NewType("LabelKey", str)
AnnotationKey = NewType("AnnotationKey", str)
ResourceName = NewType("ResourceName", str)

# Plain resources. Node allocatable and pod requests.
RESOURCE_CPU: Final = ResourceName("cpu")
RESOURCE_MEMORY: Final = ResourceName("memory")
RESOURCE_EPHEMERAL_STORAGE: Final = ResourceName("ephemeral-storage")
RESOURCE_PODS: Final = ResourceName("pods")

# Reclaimed resources; the cpu ones are integer milli-cores. M > nodes, W > pods.
RESOURCE_BATCH_CPU: Final = ResourceName("kubernetes.io/batch-cpu")
RESOURCE_BATCH_MEMORY: Final = ResourceName("kubernetes.io/batch-memory")
RESOURCE_MID_CPU: Final = ResourceName("kubernetes.io/mid-cpu")
RESOURCE_MID_MEMORY: Final = ResourceName("kubernetes.io/mid-memory")

# Devices: percent, 100 per device; gpu-memory in bytes; gpu.shared counts cards. M > nodes, U and W > pods.
RESOURCE_GPU: Final = ResourceName("koordinator.sh/gpu")
RESOURCE_GPU_SHARED: Final = ResourceName("koordinator.sh/gpu.shared")
RESOURCE_GPU_CORE: Final = ResourceName("koordinator.sh/gpu-core")
RESOURCE_GPU_MEMORY: Final = ResourceName("koordinator.sh/gpu-memory")
RESOURCE_GPU_MEMORY_RATIO: Final = ResourceName("koordinator.sh/gpu-memory-ratio")
RESOURCE_RDMA: Final = ResourceName("koordinator.sh/rdma")
RESOURCE_FPGA: Final = ResourceName("koordinator.sh/fpga")

# Whole cards and parts of cards under their vendors' names. U > S.
RESOURCE_NVIDIA_GPU: Final = ResourceName("nvidia.com/gpu")
RESOURCE_HYGON_DCU: Final = ResourceName("dcu.com/gpu")
RESOURCE_AMD_GPU: Final = ResourceName("amd.com/gpu")
RESOURCE_HUAWEI_NPU_CORE: Final = ResourceName("huawei.com/npu-core")
RESOURCE_HUAWEI_NPU_CPU: Final = ResourceName("huawei.com/npu-cpu")
RESOURCE_HUAWEI_NPU_DVPP: Final = ResourceName("huawei.com/npu-dvpp")

# QoS and priority. Pods (priority: reservations too); U, W > all.
LABEL_QOS_CLASS: Final = LabelKey("koordinator.sh/qosClass")
LABEL_PRIORITY: Final = LabelKey("koordinator.sh/priority")
LABEL_PRIORITY_CLASS: Final = LabelKey("koordinator.sh/priority-class")

# What admission does with a pod. U > W, but for the last two: W > K, and U > S, W.
LABEL_MUTATING_UPDATE: Final = LabelKey("pod.koordinator.sh/mutating-update")
LABEL_SKIP_ENHANCED_VALIDATION: Final = LabelKey("pod.koordinator.sh/skip-enhanced-validation")
LABEL_BINDING_ADMISSION_BYPASS: Final = LabelKey("koordinator.sh/binding-admission-bypass")
ANNOTATION_EXTENDED_RESOURCE_SPEC: Final = AnnotationKey("node.koordinator.sh/extended-resource-spec")
ANNOTATION_REPLACE_RESOURCES: Final = AnnotationKey("pod.koordinator.sh/replace-resources")

# What the node agent does for a pod. Pods; U > K.
ANNOTATION_CPU_BURST: Final = AnnotationKey("koordinator.sh/cpuBurst")
ANNOTATION_CPU_QOS: Final = AnnotationKey("koordinator.sh/cpuQOS")
ANNOTATION_MEMORY_QOS: Final = AnnotationKey("koordinator.sh/memoryQOS")
ANNOTATION_BLKIO_QOS: Final = AnnotationKey("koordinator.sh/blkioQOS")
ANNOTATION_NETWORK_QOS: Final = AnnotationKey("koordinator.sh/networkQOS")
ANNOTATION_RESCTRL: Final = AnnotationKey("node.koordinator.sh/resctrl")
LABEL_CORE_SCHED_GROUP_ID: Final = LabelKey("koordinator.sh/core-sched-group-id")
LABEL_CORE_SCHED_POLICY: Final = LabelKey("koordinator.sh/core-sched-policy")
ANNOTATION_OOM_SCORE_ADJ: Final = AnnotationKey("koordinator.sh/oom-score-adj")
ANNOTATION_OOM_SCORE_ADJ_SPEC: Final = AnnotationKey("koordinator.sh/oom-score-adj-spec")
LABEL_EVICTION_ENABLED: Final = LabelKey("koordinator.sh/eviction-enabled")
ANNOTATION_EVICTION_POLICY: Final = AnnotationKey("koordinator.sh/eviction-policy")
ANNOTATION_EVICTION_PRIORITY: Final = AnnotationKey("koordinator.sh/eviction-priority")
LABEL_SKIP_HOOK_SERVER: Final = LabelKey("runtimeproxy.koordinator.sh/skip-hookserver")

# CPU and NUMA wishes of pods and reservations (U > S), and what they got (S > K).
ANNOTATION_RESOURCE_SPEC: Final = AnnotationKey("scheduling.koordinator.sh/resource-spec")
ANNOTATION_RESOURCE_STATUS: Final = AnnotationKey("scheduling.koordinator.sh/resource-status")
ANNOTATION_NUMA_TOPOLOGY_SPEC: Final = AnnotationKey("scheduling.koordinator.sh/numa-topology-spec")

# CPU and NUMA rules of nodes. Nodes; U > S, K, M.
LABEL_NUMA_TOPOLOGY_POLICY: Final = LabelKey("node.koordinator.sh/numa-topology-policy")
LABEL_CPU_BIND_POLICY: Final = LabelKey("node.koordinator.sh/cpu-bind-policy")
LABEL_NUMA_ALLOCATE_STRATEGY: Final = LabelKey("node.koordinator.sh/numa-allocate-strategy")
LABEL_ENABLE_NUMA_RESERVATION: Final = LabelKey("node.koordinator.sh/enable-numa-reservation")
ANNOTATION_SYSTEM_QOS_RESOURCE: Final = AnnotationKey("node.koordinator.sh/system-qos-resource")
ANNOTATION_NODE_RESERVATION: Final = AnnotationKey("node.koordinator.sh/reservation")

# CPU and NUMA facts of nodes. NodeResourceTopology; K > S, K, M.
ANNOTATION_CPU_TOPOLOGY: Final = AnnotationKey("node.koordinator.sh/cpu-topology")
ANNOTATION_POD_CPU_ALLOCS: Final = AnnotationKey("node.koordinator.sh/pod-cpu-allocs")
ANNOTATION_CPU_SHARED_POOLS: Final = AnnotationKey("node.koordinator.sh/cpu-shared-pools")
ANNOTATION_BE_CPU_SHARED_POOLS: Final = AnnotationKey("node.koordinator.sh/be-cpu-shared-pools")
ANNOTATION_CPU_MANAGER_POLICY: Final = AnnotationKey("kubelet.koordinator.sh/cpu-manager-policy")
ANNOTATION_CPU_BASIC_INFO: Final = AnnotationKey("node.koordinator.sh/cpu-basic-info")
LABEL_MANAGED_BY: Final = LabelKey("app.kubernetes.io/managed-by")
MANAGED_BY_KOORDINATOR: Final = "Koordinator"

# Co-location settings of nodes. Nodes; U > M.
ANNOTATION_COLOCATION_STRATEGY: Final = AnnotationKey("node.koordinator.sh/colocation-strategy")
LABEL_CPU_RECLAIM_RATIO: Final = LabelKey("node.koordinator.sh/cpu-reclaim-ratio")
LABEL_MEMORY_RECLAIM_RATIO: Final = LabelKey("node.koordinator.sh/memory-reclaim-ratio")
LABEL_MID_STATIC_CPU_RESERVED_RATIO: Final = LabelKey("node.koordinator.sh/mid-static-cpu-reserved-ratio")
LABEL_MID_STATIC_MEMORY_RESERVED_RATIO: Final = LabelKey("node.koordinator.sh/mid-static-memory-reserved-ratio")
LABEL_CPU_NORMALIZATION_ENABLED: Final = LabelKey("node.koordinator.sh/cpu-normalization-enabled")
ANNOTATION_NETWORK_BANDWIDTH: Final = AnnotationKey("node.koordinator.sh/network-bandwidth")

# Co-location figures of nodes. Nodes; M > X; X > M; M > K, M; M > W, S; W > S, M, in this order.
ANNOTATION_ORIGIN_EXTENDED_ALLOCATABLE: Final = AnnotationKey("node.koordinator.sh/originExtendedAllocatable")
ANNOTATION_THIRD_PARTY_ALLOCATIONS: Final = AnnotationKey("node.koordinator.sh/thirdPartyAllocations")
ANNOTATION_CPU_NORMALIZATION_RATIO: Final = AnnotationKey("node.koordinator.sh/cpu-normalization-ratio")
ANNOTATION_RESOURCE_AMPLIFICATION_RATIO: Final = AnnotationKey("node.koordinator.sh/resource-amplification-ratio")
ANNOTATION_RAW_ALLOCATABLE: Final = AnnotationKey("node.koordinator.sh/raw-allocatable")

# What koord adds to the protocol. Nodes; K > S.
OWN_ANNOTATION_LAST_EVICTIONS: Final = AnnotationKey("node.koordinator.sh/last-evictions")
"""When the node's agent last evicted pods, by priority class: `{"koord-batch": "2026-11-15T12:00:00Z"}`; and when the
descheduler last moved pods of an owner away: `{"owner/UID": ...}`."""

# What koord adds to the protocol. Nodes; S > S.
OWN_ANNOTATION_KEPT_FOR_RESERVATIONS: Final = AnnotationKey("scheduling.koord.sh/kept-for-reservations")
"""Which annotations for autoscalers the scheduler wrote on a node, since Reservations have room there."""

# What koord adds to the protocol. Pods; S > S.
OWN_ANNOTATION_SHARDS: Final = AnnotationKey("scheduling.koord.sh/shards")
"""Where several schedulers share a cluster: the shards that have had the pod, the present one last: `2,3`."""

# What koord adds to the protocol. The descheduler's lease; D > the command line.
OWN_ANNOTATION_SETTINGS_IN_FORCE: Final = AnnotationKey("scheduling.koord.sh/settings-in-force")
"""The configuration that the holder of the lease uses, as JSON: `{"holder": ..., "configuration": {...}}`."""

# What koord adds to the protocol. Its webhook configurations; people > M.
OWN_ANNOTATION_BREAK_GLASS: Final = AnnotationKey("koordinator.sh/break-glass")
"""Since when admission is off by hand, and why. The manager registers no webhooks where it stands."""

# What koord adds to the protocol, for objects that were there before koord was installed. The command line > itself;
# M > the command line.
OWN_ANNOTATION_FOUND: Final = AnnotationKey("install.koord.sh/found")
"""On a CustomResourceDefinition: its writer before koord. It stays when koord goes."""
OWN_ANNOTATION_WEBHOOKS_BEFORE: Final = AnnotationKey("install.koord.sh/webhooks-before")
"""On a webhook configuration of Koordinator's: its webhooks before koord's manager registered its own, as JSON."""
OWN_ANNOTATION_POLICIES_BEFORE: Final = AnnotationKey("install.koord.sh/failure-policies-before")
"""On a webhook configuration of Koordinator's: the policies of its webhooks before nothing was to wait for them while
managers change hands, by name, as JSON."""
OWN_ANNOTATION_REPLICAS_BEFORE: Final = AnnotationKey("install.koord.sh/replicas-before")
"""On a Deployment of Koordinator's that is paused: how many replicas it had."""

# What koord adds to the protocol. Nodes; M > M, and readers of slo-controller-config.
OWN_LABEL_PREFIX_ROLLOUT: Final = "rollout.koordinator.sh/"
"""With the name of a feature: the node is in the roll-out of that feature."""

# YARN's NodeManagers: pods, or nodes where they run beside Kubernetes. U > Y.
LABEL_COMPONENT: Final = LabelKey("app.kubernetes.io/component")
ANNOTATION_YARN_NODE_ID: Final = AnnotationKey("yarn.hadoop.apache.org/node-id")
ANNOTATION_YARN_CLUSTER_ID: Final = AnnotationKey("yarn.hadoop.apache.org/cluster-id")

# What koord adds to the protocol. Nodes; Y > Y.
OWN_ANNOTATION_YARN_NODE: Final = AnnotationKey("node.koordinator.sh/yarn-node")
"""Which NodeManager's claim the entry hadoop-yarn of thirdPartyAllocations is: `host:port`, or `cluster/host:port`."""
CONDITION_YARN: Final = "koordinator.sh/YARN"
"""The condition of a node that says whether YARN has its part, and if not, what to set."""

# What koord adds to the protocol, for pods that say how they are. U > K.
OWN_ANNOTATION_LATENCY_PROBE: Final = AnnotationKey("node.koord.sh/latency-probe")

# What koord adds to the protocol, for pods that lose work when they end. U > S, K, D, but the
# deadline and who asked: S, K, D > U.
OWN_ANNOTATION_RECOMMENDED_BY: Final = AnnotationKey("analysis.koord.sh/recommended-by")
OWN_ANNOTATION_CHECKPOINTED_AT: Final = AnnotationKey("scheduling.koord.sh/checkpointed-at")
OWN_ANNOTATION_EVICTION_NOTICE: Final = AnnotationKey("scheduling.koord.sh/eviction-notice")
OWN_ANNOTATION_EVICTION_DEADLINE: Final = AnnotationKey("scheduling.koord.sh/eviction-deadline")
OWN_ANNOTATION_EVICTION_ASKED_BY: Final = AnnotationKey("scheduling.koord.sh/eviction-asked-by")
OWN_ANNOTATION_EVICTION_READY: Final = AnnotationKey("scheduling.koord.sh/eviction-ready")

# The same for Deployments whose pods are replaced before they go. U > D; D > D.
OWN_ANNOTATION_SCALE_FIRST: Final = AnnotationKey("scheduling.koord.sh/scale-first")
OWN_ANNOTATION_SCALED_FIRST: Final = AnnotationKey("scheduling.koord.sh/scaled-first")

# The same for PodMigrationJobs: the profile, and the workload and node of the pod. D > D.
OWN_ANNOTATION_JOB_PROFILE: Final = AnnotationKey("scheduling.koord.sh/descheduler-profile")
OWN_ANNOTATION_JOB_WORKLOAD: Final = AnnotationKey("scheduling.koord.sh/workload-uid")
OWN_ANNOTATION_JOB_NODE: Final = AnnotationKey("scheduling.koord.sh/from-node")

# Gangs. Pods (name, or one of the labels) and PodGroups; U > S.
LABEL_POD_GROUP: Final = LabelKey("pod-group.scheduling.sigs.k8s.io")
LABEL_POD_GROUP_NAME: Final = LabelKey("pod-group.scheduling.sigs.k8s.io/name")
LABEL_POD_GROUP_MIN_AVAILABLE: Final = LabelKey("pod-group.scheduling.sigs.k8s.io/min-available")
ANNOTATION_POD_GROUP_MATCH_POLICY: Final = AnnotationKey("pod-group.scheduling.sigs.k8s.io/match-policy")
ANNOTATION_GANG_NAME: Final = AnnotationKey("gang.scheduling.koordinator.sh/name")
ANNOTATION_GANG_MIN_AVAILABLE: Final = AnnotationKey("gang.scheduling.koordinator.sh/min-available")
ANNOTATION_GANG_TOTAL_NUMBER: Final = AnnotationKey("gang.scheduling.koordinator.sh/total-number")
ANNOTATION_GANG_WAITING_TIME: Final = AnnotationKey("gang.scheduling.koordinator.sh/waiting-time")
ANNOTATION_GANG_MODE: Final = AnnotationKey("gang.scheduling.koordinator.sh/mode")
ANNOTATION_GANG_GROUPS: Final = AnnotationKey("gang.scheduling.koordinator.sh/groups")
ANNOTATION_GANG_MATCH_POLICY: Final = AnnotationKey("gang.scheduling.koordinator.sh/match-policy")
ANNOTATION_GANG_TIMEOUT: Final = AnnotationKey("gang.scheduling.koordinator.sh/timeout")
ANNOTATION_GANG_NETWORK_TOPOLOGY_SPEC: Final = AnnotationKey("gang.scheduling.koordinator.sh/network-topology-spec")
ANNOTATION_GANG_NETWORK_TOPOLOGY_INDEX: Final = AnnotationKey("gang.scheduling.koordinator.sh/network-topology-index")
ANNOTATION_NETWORK_TOPOLOGY_SELECTOR: Final = AnnotationKey("scheduling.koordinator.sh/network-topology-selector")

# What a gang's pods were bound with. Pods; S > X.
ANNOTATION_BIND_GANG_GROUP_ID: Final = AnnotationKey("internal.scheduling.koordinator.sh/bind-gang-group-id")
ANNOTATION_BIND_GANG_MEMBER_COUNT: Final = AnnotationKey("internal.scheduling.koordinator.sh/bind-gang-member-count")

# Elastic quotas: which one a pod counts in, and whether it may be preempted for others. Pods; U > S, W.
LABEL_QUOTA_NAME: Final = LabelKey("quota.scheduling.koordinator.sh/name")
LABEL_QUOTA_PREEMPTIBLE: Final = LabelKey("quota.scheduling.koordinator.sh/preemptible")

# The quota tree. ElasticQuotas (tree-id: profiles too); U, W, M > S, W.
LABEL_QUOTA_PARENT: Final = LabelKey("quota.scheduling.koordinator.sh/parent")
LABEL_QUOTA_IS_PARENT: Final = LabelKey("quota.scheduling.koordinator.sh/is-parent")
LABEL_QUOTA_IS_ROOT: Final = LabelKey("quota.scheduling.koordinator.sh/is-root")
LABEL_QUOTA_TREE_ID: Final = LabelKey("quota.scheduling.koordinator.sh/tree-id")
LABEL_QUOTA_PROFILE: Final = LabelKey("quota.scheduling.koordinator.sh/profile")
LABEL_QUOTA_IGNORE_DEFAULT_TREE: Final = LabelKey("quota.scheduling.koordinator.sh/ignore-default-tree")
LABEL_QUOTA_ALLOW_LENT_RESOURCE: Final = LabelKey("quota.scheduling.koordinator.sh/allow-lent-resource")
LABEL_QUOTA_ALLOW_FORCE_UPDATE: Final = LabelKey("quota.scheduling.koordinator.sh/allow-force-update")

# A quota's settings. ElasticQuotas (resource-keys: profiles); U, W, M > S, W, M.
ANNOTATION_QUOTA_SHARED_WEIGHT: Final = AnnotationKey("quota.scheduling.koordinator.sh/shared-weight")
ANNOTATION_QUOTA_NAMESPACES: Final = AnnotationKey("quota.scheduling.koordinator.sh/namespaces")
ANNOTATION_QUOTA_TOTAL_RESOURCE: Final = AnnotationKey("quota.scheduling.koordinator.sh/total-resource")
ANNOTATION_QUOTA_UNSCHEDULABLE_RESOURCE: Final = AnnotationKey("quota.scheduling.koordinator.sh/unschedulable-resource")
ANNOTATION_QUOTA_RESOURCE_KEYS: Final = AnnotationKey("quota.scheduling.koordinator.sh/resource-keys")
ANNOTATION_QUOTA_ADMISSION: Final = AnnotationKey("quota.scheduling.koordinator.sh/admission")
ANNOTATION_QUOTA_MAX_STRICT_CHECK_RESOURCE_KEYS: Final = AnnotationKey(
    "quota.scheduling.koordinator.sh/max-strict-check-resource-keys"
)

# A quota's state. ElasticQuotas; S > U, W.
ANNOTATION_QUOTA_RUNTIME: Final = AnnotationKey("quota.scheduling.koordinator.sh/runtime")
ANNOTATION_QUOTA_REQUEST: Final = AnnotationKey("quota.scheduling.koordinator.sh/request")
ANNOTATION_QUOTA_CHILD_REQUEST: Final = AnnotationKey("quota.scheduling.koordinator.sh/child-request")
ANNOTATION_QUOTA_GUARANTEED: Final = AnnotationKey("quota.scheduling.koordinator.sh/guaranteed")
ANNOTATION_QUOTA_ALLOCATED: Final = AnnotationKey("quota.scheduling.koordinator.sh/allocated")
ANNOTATION_QUOTA_NON_PREEMPTIBLE_REQUEST: Final = AnnotationKey(
    "quota.scheduling.koordinator.sh/non-preemptible-request"
)
ANNOTATION_QUOTA_NON_PREEMPTIBLE_USED: Final = AnnotationKey("quota.scheduling.koordinator.sh/non-preemptible-used")

# Reservations, as a pod wants them (U > S) and got one (S > all).
ANNOTATION_RESERVATION_AFFINITY: Final = AnnotationKey("scheduling.koordinator.sh/reservation-affinity")
ANNOTATION_EXACT_MATCH_RESERVATION: Final = AnnotationKey("scheduling.koordinator.sh/exact-match-reservation")
LABEL_RESERVATION_IGNORED: Final = LabelKey("scheduling.koordinator.sh/reservation-ignored")
ANNOTATION_RESERVATION_ALLOCATED: Final = AnnotationKey("scheduling.koordinator.sh/reservation-allocated")

# Reservations themselves; U, D, S > S.
ANNOTATION_RESERVATION_RESTRICTED_OPTIONS: Final = AnnotationKey(
    "scheduling.koordinator.sh/reservation-restricted-options"
)
ANNOTATION_RESERVATION_RESIZE_ALLOCATABLE: Final = AnnotationKey(
    "scheduling.koordinator.sh/reservation-resize-allocatable"
)
LABEL_RESERVATION_ORDER: Final = LabelKey("scheduling.koordinator.sh/reservation-order")
LABEL_PRE_ALLOCATION_REQUIRED: Final = LabelKey("scheduling.koordinator.sh/pre-allocation-required")
LABEL_CREATED_BY: Final = LabelKey("app.kubernetes.io/created-by")

# Pods that a reservation may take over. Pods; U > S.
LABEL_IS_PRE_ALLOCATABLE: Final = LabelKey("pod.koordinator.sh/is-pre-allocatable")
ANNOTATION_PRE_ALLOCATABLE_PRIORITY: Final = AnnotationKey("pod.koordinator.sh/pre-allocatable-priority")

# The pod that stands for a reservation inside the scheduler; never stored, and refused on real pods. S > S.
ANNOTATION_RESERVE_POD: Final = AnnotationKey("scheduling.koordinator.sh/reserve-pod")
ANNOTATION_RESERVATION_NAME: Final = AnnotationKey("scheduling.koordinator.sh/reservation-name")
ANNOTATION_RESERVATION_NODE: Final = AnnotationKey("scheduling.koordinator.sh/reservation-node")
ANNOTATION_IS_PRE_ALLOCATION: Final = AnnotationKey("scheduling.koordinator.sh/is-pre-allocation")

# Pods that act as reservations. Pods; U, U, S > S.
LABEL_OPERATING_MODE: Final = LabelKey("scheduling.koordinator.sh/operating-mode")
ANNOTATION_RESERVATION_OWNERS: Final = AnnotationKey("scheduling.koordinator.sh/reservation-owners")
ANNOTATION_RESERVATION_CURRENT_OWNER: Final = AnnotationKey("scheduling.koordinator.sh/reservation-current-owner")

# Preemption, several schedulers, questions to the scheduler. Pods; U > S, but for the hint: X > S.
LABEL_PREEMPTION_POLICY: Final = LabelKey("scheduling.koordinator.sh/preemption-policy")
LABEL_DISABLE_PREEMPTIBLE: Final = LabelKey("scheduling.koordinator.sh/disable-preemptible")
LABEL_SCHEDULER_NAME: Final = LabelKey("scheduling.koordinator.sh/scheduler-name")
ANNOTATION_ORIGINAL_SCHEDULER_NAME: Final = AnnotationKey("internal.scheduling.koordinator.sh/original-scheduler-name")
ANNOTATION_SCHEDULING_HINT: Final = AnnotationKey("internal.scheduling.koordinator.sh/scheduling-hint")
LABEL_QUESTIONED_OBJECT_KEY: Final = LabelKey("scheduling.koordinator.sh/questioned-object-key")
LABEL_TOPOLOGY_KEY_TO_EXPLAIN: Final = LabelKey("scheduling.koordinator.sh/topology-key-to-explain")

# Devices of pods and reservations: wishes (U > S) and what they got (S > K).
ANNOTATION_DEVICE_ALLOCATED: Final = AnnotationKey("scheduling.koordinator.sh/device-allocated")
ANNOTATION_DEVICE_ALLOCATE_HINT: Final = AnnotationKey("scheduling.koordinator.sh/device-allocate-hint")
ANNOTATION_DEVICE_JOINT_ALLOCATE: Final = AnnotationKey("scheduling.koordinator.sh/device-joint-allocate")
ANNOTATION_GPU_PARTITION_SPEC: Final = AnnotationKey("scheduling.koordinator.sh/gpu-partition-spec")
LABEL_GPU_ISOLATION_PROVIDER: Final = LabelKey("koordinator.sh/gpu-isolation-provider")

# Devices of nodes. Devices, copied to nodes; K, U, X > M > S.
ANNOTATION_GPU_PARTITIONS: Final = AnnotationKey("scheduling.koordinator.sh/gpu-partitions")
LABEL_GPU_PARTITION_POLICY: Final = LabelKey("node.koordinator.sh/gpu-partition-policy")
LABEL_GPU_VENDOR: Final = LabelKey("node.koordinator.sh/gpu-vendor")
LABEL_GPU_MODEL: Final = LabelKey("node.koordinator.sh/gpu-model")
LABEL_GPU_DRIVER_VERSION: Final = LabelKey("node.koordinator.sh/gpu-driver-version")
LABEL_SECONDARY_DEVICE_WELL_PLANNED: Final = LabelKey("node.koordinator.sh/secondary-device-well-planned")

# For the vendors' own device plugins. Pods, and the two locks on nodes; S > X.
LABEL_HAMI_VGPU_NODE: Final = LabelKey("hami.io/vgpu-node")
ANNOTATION_BIND_TIMESTAMP: Final = AnnotationKey("scheduling.koordinator.sh/bind-timestamp")
ANNOTATION_GPU_MINORS: Final = AnnotationKey("scheduling.koordinator.sh/gpu-minors")
ANNOTATION_PREDICATE_TIME: Final = AnnotationKey("predicate-time")
ANNOTATION_HUAWEI_NPU_CORE: Final = AnnotationKey("huawei.com/npu-core")
ANNOTATION_HUAWEI_ASCEND_310P: Final = AnnotationKey("huawei.com/Ascend310P")
ANNOTATION_CAMBRICON_DSMLU_ASSIGNED: Final = AnnotationKey("CAMBRICON_DSMLU_ASSIGHED")  # the plugin's own spelling
ANNOTATION_CAMBRICON_DSMLU_PROFILE: Final = AnnotationKey("CAMBRICON_DSMLU_PROFILE")
ANNOTATION_METAX_GPU_DEVICES_ALLOCATED: Final = AnnotationKey("metax-tech.com/gpu-devices-allocated")
ANNOTATION_HAMI_LOCK: Final = AnnotationKey("hami.io/mutex.lock")
ANNOTATION_CAMBRICON_DSMLU_LOCK: Final = AnnotationKey("cambricon.com/dsmlu.lock")

# Load-aware scheduling. The thresholds on nodes, the rest on pods; U > S.
ANNOTATION_USAGE_THRESHOLDS: Final = AnnotationKey("scheduling.koordinator.sh/usage-thresholds")
ANNOTATION_LOAD_ESTIMATED_SCALING_FACTORS: Final = AnnotationKey(
    "scheduling.koordinator.sh/load-estimated-scaling-factors"
)
ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED: Final = AnnotationKey(
    "scheduling.koordinator.sh/load-estimated-seconds-after-pod-scheduled"
)
ANNOTATION_LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED: Final = AnnotationKey(
    "scheduling.koordinator.sh/load-estimated-seconds-after-initialized"
)

# Descheduling, as pods take part in it. Pods (evict-policy: jobs too); U > D, but soft-eviction: D > X.
ANNOTATION_EVICTION_COST: Final = AnnotationKey("scheduling.koordinator.sh/eviction-cost")
ANNOTATION_SOFT_EVICTION: Final = AnnotationKey("scheduling.koordinator.sh/soft-eviction")
LABEL_EVICT_POLICY: Final = LabelKey("koordinator.sh/evict-policy")
ANNOTATION_DESCHEDULER_EVICT: Final = AnnotationKey("descheduler.alpha.kubernetes.io/evict")

# Descheduling, as the descheduler keeps book of it. PodMigrationJobs; D > D.
ANNOTATION_EVICT_REASON: Final = AnnotationKey("koordinator.sh/evict-reason")
ANNOTATION_EVICT_TRIGGER: Final = AnnotationKey("koordinator.sh/evict-trigger")
ANNOTATION_JOB_CREATED_BY: Final = AnnotationKey("koordinator.sh/job-created-by")
ANNOTATION_PASSED_ARBITRATION: Final = AnnotationKey("descheduler.koordinator.sh/passed-arbitration")
ANNOTATION_POD_ARBITRATING: Final = AnnotationKey("descheduler.koordinator.sh/pod-arbitrating")

# Profiles and ConfigMaps. ClusterColocationProfiles and slo-controller-config; U > W, M.
ANNOTATION_SKIP_UPDATE_RESOURCES: Final = AnnotationKey("config.koordinator.sh/skip-update-resources")
LABEL_CONTROLLER_MANAGED: Final = LabelKey("config.koordinator.sh/controller-managed")
LABEL_CONFIGMAP_TYPE: Final = LabelKey("koordinator.sh/configmap-type")

# Kubernetes' own keys that koord reads or writes.
LABEL_HOSTNAME: Final = LabelKey("kubernetes.io/hostname")
LABEL_ZONE: Final = LabelKey("topology.kubernetes.io/zone")
LABEL_REGION: Final = LabelKey("topology.kubernetes.io/region")
LABEL_CONTROL_PLANE_NAMESPACE: Final = LabelKey("control-plane")  # on a namespace: pods there are not admitted by koord
ANNOTATION_MIRROR_POD: Final = AnnotationKey("kubernetes.io/config.mirror")

# Older spellings, still read. To the left the old name, to the right the one koord writes.
OLD_RESOURCES: Final[Mapping[ResourceName, ResourceName]] = {
    ResourceName("koordinator.sh/batch-cpu"): RESOURCE_BATCH_CPU,
    ResourceName("koordinator.sh/batch-memory"): RESOURCE_BATCH_MEMORY,
    ResourceName("kubernetes.io/rdma"): RESOURCE_RDMA,
    ResourceName("kubernetes.io/fpga"): RESOURCE_FPGA,
    ResourceName("kubernetes.io/gpu"): RESOURCE_GPU,
    ResourceName("kubernetes.io/gpu-core"): RESOURCE_GPU_CORE,
    ResourceName("kubernetes.io/gpu-memory"): RESOURCE_GPU_MEMORY,
    ResourceName("kubernetes.io/gpu-memory-ratio"): RESOURCE_GPU_MEMORY_RATIO,
}
OLD_LABEL_GPU_DRIVER: Final = LabelKey("kubernetes.io/gpu-driver")
OLD_LABEL_GPU_MODEL: Final = LabelKey("kubernetes.io/gpu-model")
OLD_LABELS: Final[Mapping[LabelKey, LabelKey]] = {
    OLD_LABEL_GPU_DRIVER: LABEL_GPU_DRIVER_VERSION,
    OLD_LABEL_GPU_MODEL: LABEL_GPU_MODEL,
}
OLD_ANNOTATION_BIND_GANG_GROUP_ID: Final = AnnotationKey("scheduling.koordinator.sh/bind-gang-group-id")
OLD_ANNOTATION_BIND_GANG_MEMBER_COUNT: Final = AnnotationKey("scheduling.koordinator.sh/bind-gang-member-count")
OLD_ANNOTATION_SCHEDULING_HINT: Final = AnnotationKey("scheduling.koordinator.sh/scheduling-hint")
OLD_ANNOTATIONS: Final[Mapping[AnnotationKey, AnnotationKey]] = {
    OLD_ANNOTATION_BIND_GANG_GROUP_ID: ANNOTATION_BIND_GANG_GROUP_ID,
    OLD_ANNOTATION_BIND_GANG_MEMBER_COUNT: ANNOTATION_BIND_GANG_MEMBER_COUNT,
    OLD_ANNOTATION_SCHEDULING_HINT: ANNOTATION_SCHEDULING_HINT,
    ANNOTATION_POD_GROUP_MATCH_POLICY: ANNOTATION_GANG_MATCH_POLICY,
}

# Built-in objects.
PRIORITY_CLASS_PROD: Final = "koord-prod"
PRIORITY_CLASS_MID: Final = "koord-mid"
PRIORITY_CLASS_BATCH: Final = "koord-batch"
PRIORITY_CLASS_FREE: Final = "koord-free"

QUOTA_ROOT: Final = "koordinator-root-quota"
QUOTA_SYSTEM: Final = "koordinator-system-quota"
QUOTA_DEFAULT: Final = "koordinator-default-quota"
OLD_QUOTAS: Final[Mapping[str, str]] = {"root": QUOTA_ROOT, "system": QUOTA_SYSTEM, "default": QUOTA_DEFAULT}

NAMESPACE_KOORDINATOR: Final = "koordinator-system"
NAMESPACE_BESIDE_KOORDINATOR: Final = "koord-system"
"""Of koord's workloads beside Koordinator's, whose names are the same."""
NAMESPACE_KUBE_SYSTEM: Final = "kube-system"
CLUSTER_NAMESPACES: Final = frozenset({NAMESPACE_KUBE_SYSTEM, "kube-public", "kube-node-lease", NAMESPACE_KOORDINATOR})
"""Namespaces of the cluster itself and of koord: what runs there is no tenant's."""
CONFIGMAP_SLO_CONTROLLER: Final = "slo-controller-config"
CONFIGMAP_SLO_IN_FORCE: Final = "slo-controller-config-in-force"
CONFIGMAP_ROLLOUTS: Final = "koord-rollouts"
CONFIGMAP_CONSOLE_ACTS: Final = "koord-console-acts"
CONFIGMAP_KOORDLET: Final = "koordlet-config"
CONFIGMAP_POD_ENHANCED_VALIDATOR: Final = "pod-enhanced-validator-config"
CONFIGMAP_GPU_SHARED_RESOURCE_TEMPLATES: Final = "gpu-shared-resource-templates"

# Leases in NAMESPACE_KOORDINATOR. The names are Koordinator's, so that its components and koord's never both lead.
LEASE_SCHEDULER: Final = "koord-scheduler"
LEASE_MANAGER: Final = "koordinator-manager"
LEASE_DESCHEDULER: Final = "koord-descheduler"
LEASE_YARN_OPERATOR: Final = "koordinator-yarn-operator"

SCHEDULER_DEFAULT: Final = "default-scheduler"
SCHEDULER_KOORD: Final = "koord-scheduler"
CREATED_BY_DESCHEDULER: Final = "koord-descheduler"

# How API servers find the manager's webhooks.
WEBHOOK_MUTATING_CONFIGURATION: Final = "koordinator-mutating-webhook-configuration"
WEBHOOK_VALIDATING_CONFIGURATION: Final = "koordinator-validating-webhook-configuration"
SERVICE_WEBHOOKS: Final = "koordinator-webhook-service"
SECRET_WEBHOOK_CERTIFICATES: Final = "koordinator-webhook-certs"

# The manager's webhooks. Those of nodes and bindings fail open, the others closed.
WEBHOOK_MUTATE_POD: Final = "/mutate-pod"
WEBHOOK_VALIDATE_POD: Final = "/validate-pod"
WEBHOOK_VALIDATE_POD_BINDING: Final = "/validate-pod-binding"
WEBHOOK_MUTATE_ELASTIC_QUOTA: Final = "/mutate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"
WEBHOOK_VALIDATE_ELASTIC_QUOTA: Final = "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"
WEBHOOK_VALIDATE_CONFIGMAP: Final = "/validate-configmap"
WEBHOOK_MUTATE_RESERVATION: Final = "/mutate-reservation"
WEBHOOK_MUTATE_NODE_STATUS: Final = "/mutate-node-status"
WEBHOOK_VALIDATE_NODE: Final = "/validate-node"
WEBHOOK_VALIDATE_AGENT: Final = "/validate-agent"

# The ports of Koordinator's components, on which monitoring already finds them.
PORT_SCHEDULER: Final = 10251
PORT_DESCHEDULER: Final = 10251
PORT_KOORDLET: Final = 9316
PORT_MANAGER_METRICS: Final = 8080
PORT_MANAGER_HEALTH: Final = 8000
PORT_WEBHOOK: Final = 9876
