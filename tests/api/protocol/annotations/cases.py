"""What the protocol's labels and annotations look like when well written, and what they then mean."""

from __future__ import annotations

from typing import Any

from koord.api.configuration.slo_config_types import ColocationStrategy
from koord.api.kubernetes.meta import ObjectMeta, ObjectReference
from koord.api.kubernetes.pod import Toleration
from koord.api.kubernetes.words import TaintKey
from koord.api.protocol.annotations import colocation, cpu, device, gang, load, notice, pod_qos, quota, reservation
from koord.api.protocol.annotations.value import Label, Value
from koord.api.protocol.crd.node_slo import CPUBurstConfig
from koord.api.protocol.crd.pod_migration_job import DeleteOptions
from koord.api.protocol.crd.reservation import ReservationOwner
from koord.api.protocol.crd.resource_qos import BlkIOQOS, BlockCfg, CPUQOSCfg, IOCfg
from koord.api.text.selector import LabelSelector, NodeSelectorRequirement, NodeSelectorTerm

RESOURCES = ('{"cpu":"4","memory":"8Gi"}', {"cpu": "4", "memory": "8Gi"})
QUOTA_RESOURCES = (
    *(quota.SHARED_WEIGHT, quota.TOTAL_RESOURCE, quota.UNSCHEDULABLE_RESOURCE, quota.ADMISSION, quota.RUNTIME),
    *(quota.REQUEST, quota.CHILD_REQUEST, quota.GUARANTEED, quota.ALLOCATED, quota.NON_PREEMPTIBLE_REQUEST),
    quota.NON_PREEMPTIBLE_USED,
)
SWITCHES = (
    *(pod_qos.EVICTION_ENABLED, pod_qos.MUTATING_UPDATE, pod_qos.SKIP_ENHANCED_VALIDATION, pod_qos.SKIP_HOOK_SERVER),
    *(cpu.ENABLE_NUMA_RESERVATION, quota.PREEMPTIBLE, quota.IS_PARENT, quota.IS_ROOT, quota.IGNORE_DEFAULT_TREE),
    *(quota.ALLOW_LENT_RESOURCE, quota.ALLOW_FORCE_UPDATE, reservation.RESERVATION_IGNORED),
    *(reservation.PRE_ALLOCATION_REQUIRED, reservation.IS_PRE_ALLOCATABLE, reservation.DISABLE_PREEMPTIBLE),
    *(device.SECONDARY_DEVICE_WELL_PLANNED, load.PASSED_ARBITRATION, load.POD_ARBITRATING, load.CONTROLLER_MANAGED),
)
TEXTS = (
    *(pod_qos.CORE_SCHED_GROUP_ID, gang.POD_GROUP, gang.POD_GROUP_NAME, gang.NAME, gang.NETWORK_TOPOLOGY_SELECTOR),
    *(gang.BIND_GROUP_ID, quota.NAME, quota.PARENT, quota.TREE_ID, quota.PROFILE_NAME, reservation.SCHEDULER_NAME),
    *(reservation.ORIGINAL_SCHEDULER_NAME, device.GPU_ISOLATION_PROVIDER, device.GPU_VENDOR, device.GPU_MODEL),
    *(device.GPU_DRIVER_VERSION, device.HAMI_VGPU_NODE, load.EVICT_REASON, load.EVICT_TRIGGER, load.JOB_CREATED_BY),
    *(load.JOB_PROFILE, load.JOB_WORKLOAD, load.JOB_NODE),
)

# (which, as written, as meant)
VALID: list[tuple[Value[Any, Any], str, object]] = [
    *((value, *RESOURCES) for value in QUOTA_RESOURCES),
    *((value, "true", True) for value in SWITCHES),
    *((value, "false", False) for value in SWITCHES),
    *((value, "some-thing", "some-thing") for value in TEXTS),
    (
        pod_qos.EXTENDED_RESOURCE_SPEC,
        '{"containers":{"app":{"limits":{"kubernetes.io/batch-cpu":"1k"},"requests":{"kubernetes.io/batch-cpu":"500"}}}}',
        pod_qos.ExtendedResourceSpec(
            {
                "app": pod_qos.ExtendedResources(
                    limits={"kubernetes.io/batch-cpu": "1k"}, requests={"kubernetes.io/batch-cpu": "500"}
                )
            }
        ),
    ),
    (pod_qos.REPLACE_RESOURCES, "a:b,c:d,e:", {"a": "b", "c": "d", "e": None}),
    (pod_qos.REPLACE_RESOURCES, " x.io/a : y.io/b ", {"x.io/a": "y.io/b"}),
    (
        pod_qos.LATENCY_PROBE,
        '{"port":8080,"path":"/p99","reads":"number"}',
        pod_qos.LatencyProbe(port=8080, path="/p99", reads="number"),
    ),
    (
        pod_qos.CPU_BURST,
        '{"policy":"auto","cpuBurstPercent":200}',
        CPUBurstConfig(policy="auto", cpu_burst_percent=200),
    ),
    (pod_qos.CPU_QOS, '{"enable":true,"groupIdentity":-1}', CPUQOSCfg(enable=True, group_identity=-1)),
    (pod_qos.MEMORY_QOS, '{"policy":"auto","wmarkRatio":90}', pod_qos.PodMemoryQOS(policy="auto", wmark_ratio=90)),
    (
        pod_qos.BLKIO_QOS,
        '{"blocks":[{"name":"ssd","type":"podvolume","ioCfg":{"readIOPS":100}}]}',
        BlkIOQOS(blocks=(BlockCfg(name="ssd", type="podvolume", io_cfg=IOCfg(read_iops=100)),)),
    ),
    (
        pod_qos.NETWORK_QOS,
        '{"ingressLimit":"10M","egressLimit":"20M"}',
        pod_qos.PodNetworkQOS(ingress_limit="10M", egress_limit="20M"),
    ),
    (
        pod_qos.RESCTRL,
        '{"llc":{"schemata":{"range":[0,30]}},"mb":{"schemataPerCache":[{"cacheID":1,"percent":20}]}}',
        pod_qos.PodResctrl(
            llc=pod_qos.ResctrlShare(schemata=pod_qos.Schemata(range=(0, 30))),
            mb=pod_qos.ResctrlShare(schemata_per_cache=(pod_qos.CacheSchemata(cache_id=1, percent=20),)),
        ),
    ),
    (pod_qos.CORE_SCHED_POLICY, "exclusive", "exclusive"),
    (pod_qos.OOM_SCORE_ADJ, "-1000", -1000),
    (pod_qos.OOM_SCORE_ADJ_SPEC, '{"a":-500,"b":200}', {"a": -500, "b": 200}),
    (pod_qos.EVICTION_POLICY, '["BECPUEvict","MemoryEvict"]', ("BECPUEvict", "MemoryEvict")),
    (pod_qos.EVICTION_POLICY, "[]", ()),
    (pod_qos.EVICTION_PRIORITY, "-7", -7),
    (notice.EVICTION_NOTICE, "1m30s", 90.0),
    (notice.EVICTION_DEADLINE, "2026-11-15T04:25:02.000000Z", 1794716702.0),
    (
        notice.EVICTION_ASKED_BY,
        '[{"by":"koord-scheduler","reason":"PreemptionByScheduler","since":"2026-11-15T04:20:02Z",'
        '"deadline":"2026-11-15T04:25:02Z","about":"shop/web"}]',
        (
            notice.AskedBy(
                "koord-scheduler",
                "PreemptionByScheduler",
                "2026-11-15T04:20:02Z",
                "2026-11-15T04:25:02Z",
                about="shop/web",
            ),
        ),
    ),
    (notice.EVICTION_READY, "true", "true"),
    (notice.SCALE_FIRST, "true", True),
    (
        notice.SCALED_FIRST,
        '{"job":"j1","pod":"p1","replicas":1,"to":2,"since":"2026-11-15T04:20:02Z"}',
        notice.ScaledFirst("j1", "p1", 1, 2, "2026-11-15T04:20:02Z"),
    ),
    (notice.CHECKPOINTED_AT, "2026-11-15T04:25:02.000000Z", 1794716702.0),
    (
        cpu.RESOURCE_SPEC,
        '{"requiredCPUBindPolicy":"FullPCPUs","preferredCPUExclusivePolicy":"NUMANodeLevel"}',
        cpu.ResourceSpec(required_cpu_bind_policy="FullPCPUs", preferred_cpu_exclusive_policy="NUMANodeLevel"),
    ),
    (
        cpu.RESOURCE_STATUS,
        '{"cpuset":"0-3,8","numaNodeResources":[{"node":0,"resources":{"cpu":"4","memory":"8Gi"}}]}',
        cpu.ResourceStatus(
            cpuset="0-3,8",
            numa_node_resources=(cpu.NUMANodeResource(node=0, resources={"cpu": "4", "memory": "8Gi"}),),
        ),
    ),
    (
        cpu.NUMA_TOPOLOGY_SPEC,
        '{"numaTopologyPolicy":"SingleNUMANode","singleNUMANodeExclusive":"Required"}',
        cpu.NUMATopologySpec(numa_topology_policy="SingleNUMANode", single_numa_node_exclusive="Required"),
    ),
    (cpu.NUMA_TOPOLOGY_POLICY, "Restricted", "Restricted"),
    (cpu.CPU_BIND_POLICY, "FullPCPUsOnly", "FullPCPUsOnly"),
    (cpu.NUMA_ALLOCATE_STRATEGY, "DistributeEvenly", "DistributeEvenly"),
    (
        cpu.SYSTEM_QOS_RESOURCE,
        '{"cpuset":"0-1","cpusetExclusive":false}',
        cpu.SystemQOSResource(cpuset="0-1", cpuset_exclusive=False),
    ),
    (
        cpu.NODE_RESERVATION,
        '{"resources":{"cpu":"1500m"},"reservedCPUs":"0-5","applyPolicy":"ReservedCPUsOnly"}',
        cpu.NodeReservation(resources={"cpu": "1500m"}, reserved_cpus="0-5", apply_policy="ReservedCPUsOnly"),
    ),
    (
        cpu.CPU_TOPOLOGY,
        '{"detail":[{"id":0,"core":0,"socket":0,"node":0},{"id":1,"core":0,"socket":0,"node":0}]}',
        cpu.CPUTopology((cpu.CPUInfo(id=0, core=0, socket=0, node=0), cpu.CPUInfo(id=1, core=0, socket=0, node=0))),
    ),
    (
        cpu.POD_CPU_ALLOCS,
        '[{"namespace":"shop","name":"web","uid":"u1","cpuset":"4-7","managedByKubelet":true}]',
        (cpu.PodCPUAlloc(namespace="shop", name="web", uid="u1", cpuset="4-7", managed_by_kubelet=True),),
    ),
    (
        cpu.CPU_SHARED_POOLS,
        '[{"socket":0,"node":0,"cpuset":"0-7"}]',
        (cpu.CPUSharedPool(socket=0, node=0, cpuset="0-7"),),
    ),
    (cpu.BE_CPU_SHARED_POOLS, '[{"socket":0,"node":1}]', (cpu.CPUSharedPool(socket=0, node=1),)),
    (
        cpu.CPU_MANAGER_POLICY,
        '{"policy":"static","options":{"full-pcpus-only":"true"},"reservedCPUs":"0,1"}',
        cpu.KubeletCPUManagerPolicy(policy="static", options={"full-pcpus-only": "true"}, reserved_cpus="0,1"),
    ),
    (
        cpu.CPU_BASIC_INFO,
        '{"cpuModel":"X","hyperThreadEnabled":true,"turboEnabled":true,"catL3CbmMask":"7ff","vendorID":"Y"}',
        cpu.CPUBasicInfo(
            cpu_model="X", hyper_thread_enabled=True, turbo_enabled=True, cat_l3_cbm_mask="7ff", vendor_id="Y"
        ),
    ),
    (
        colocation.COLOCATION_STRATEGY,
        '{"enable":true,"cpuReclaimThresholdPercent":70}',
        ColocationStrategy(enable=True, cpu_reclaim_threshold_percent=70),
    ),
    (colocation.CPU_RECLAIM_RATIO, "0.75", 0.75),
    (colocation.MEMORY_RECLAIM_RATIO, "1.5", 1.5),
    (colocation.MID_STATIC_CPU_RESERVED_RATIO, "0", 0.0),
    (colocation.MID_STATIC_MEMORY_RESERVED_RATIO, ".255", 0.255),
    (colocation.CPU_NORMALIZATION_ENABLED, "True", True),
    (colocation.NETWORK_BANDWIDTH, "10G", 10_000_000_000),
    (
        colocation.ORIGIN_EXTENDED_ALLOCATABLE,
        '{"resources":{"kubernetes.io/batch-cpu":"20k"}}',
        colocation.OriginExtendedAllocatable({"kubernetes.io/batch-cpu": "20k"}),
    ),
    (
        colocation.THIRD_PARTY_ALLOCATIONS,
        '{"allocations":[{"name":"yarn","priority":"koord-batch","resources":{"kubernetes.io/batch-cpu":1000}}]}',
        colocation.ThirdPartyAllocations(
            (
                colocation.ThirdPartyAllocation(
                    name="yarn", priority="koord-batch", resources={"kubernetes.io/batch-cpu": 1000}
                ),
            )
        ),
    ),
    (colocation.CPU_NORMALIZATION_RATIO, "1.20", 1.2),
    (colocation.RESOURCE_AMPLIFICATION_RATIO, '{"cpu":1.50,"memory":2.00}', {"cpu": 1.5, "memory": 2.0}),
    (colocation.RAW_ALLOCATABLE, *RESOURCES),
    (colocation.RECOMMENDED_BY, "web", "web"),
    (gang.POD_GROUP_MIN_AVAILABLE, "3", 3),
    (gang.MIN_AVAILABLE, "4", 4),
    (gang.TOTAL_NUMBER, "5", 5),
    (gang.MODE, "NonStrict", "NonStrict"),
    (gang.MATCH_POLICY, "only-waiting", "only-waiting"),
    (gang.WAITING_TIME_NS, "1m30s", 90_000_000_000),
    (gang.GROUPS, '["a/x","b/y"]', ("a/x", "b/y")),
    (
        gang.NETWORK_TOPOLOGY_SPEC,
        '{"gatherStrategy":[{"layer":"spine","strategy":"MustGather","podCountMultiple":2}]}',
        gang.NetworkTopologySpec((gang.GatherRule(layer="spine", strategy="MustGather", pod_count_multiple=2),)),
    ),
    (gang.NETWORK_TOPOLOGY_INDEX, "12", 12),
    (gang.BIND_MEMBER_COUNT, "8", 8),
    (quota.NAMESPACES, '["a","b"]', ("a", "b")),
    (quota.RESOURCE_KEYS, '["cpu","nvidia.com/gpu"]', ("cpu", "nvidia.com/gpu")),
    (quota.MAX_STRICT_CHECK_RESOURCE_KEYS, '["cpu"]', ("cpu",)),
    (reservation.RESERVATION_AFFINITY, "{}", reservation.ReservationAffinity()),
    (
        reservation.RESERVATION_AFFINITY,
        '{"requiredDuringSchedulingIgnoredDuringExecution":{"reservationSelectorTerms":[{"matchExpressions":'
        '[{"key":"type","operator":"In","values":["a"]}]}]},"reservationSelector":{"x":"y"},'
        '"tolerations":[{"key":"k","operator":"Exists"}]}',
        reservation.ReservationAffinity(
            required_during_scheduling_ignored_during_execution=reservation.ReservationAffinitySelector(
                (NodeSelectorTerm((NodeSelectorRequirement(key="type", operator="In", values=("a",)),)),)
            ),
            reservation_selector={"x": "y"},
            tolerations=(Toleration(key=TaintKey("k"), operator=Toleration().operator.EXISTS),),
        ),
    ),
    (
        reservation.RESERVATION_ALLOCATED,
        '{"name":"r","uid":"u"}',
        reservation.ReservationAllocated(name="r", uid="u"),
    ),
    (reservation.EXACT_MATCH_RESERVATION, '{"resourceNames":["cpu"]}', reservation.ExactMatch(("cpu",))),
    (reservation.RESERVATION_RESTRICTED_OPTIONS, '{"resources":["cpu"]}', reservation.RestrictedOptions(("cpu",))),
    (
        reservation.RESERVATION_RESIZE_ALLOCATABLE,
        '{"resources":{"cpu":"2"}}',
        reservation.ResizeAllocatable({"cpu": "2"}),
    ),
    (reservation.RESERVATION_ORDER, "1763180000000", 1763180000000),
    (reservation.PRE_ALLOCATABLE_PRIORITY, "-3", -3),
    (reservation.OPERATING_MODE, "Reservation", "Reservation"),
    (
        reservation.RESERVATION_OWNERS,
        '[{"object":{"namespace":"shop","name":"web"}},{"labelSelector":{"matchLabels":{"app":"web"}}}]',
        (
            ReservationOwner(object=ObjectReference(namespace="shop", name="web")),
            ReservationOwner(label_selector=LabelSelector(match_labels={"app": "web"})),
        ),
    ),
    (
        reservation.RESERVATION_CURRENT_OWNER,
        '{"namespace":"shop","name":"web","uid":"u"}',
        ObjectReference(namespace="shop", name="web", uid="u"),
    ),
    (reservation.PREEMPTION_POLICY, "PreemptLowerPriority", "PreemptLowerPriority"),
    (
        reservation.SCHEDULING_HINT,
        '{"nodeNames":["n1"],"preferredNodeNames":["n2"],"extensions":{"NodeNUMAResource":{"x":1}}}',
        reservation.SchedulingHint(
            node_names=("n1",), preferred_node_names=("n2",), extensions={"NodeNUMAResource": {"x": 1}}
        ),
    ),
    (
        device.DEVICE_ALLOCATED,
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"100"}}],"rdma":[{"minor":1,"resources":'
        '{"koordinator.sh/rdma":"1"},"id":"0000:09:00.0","extension":{"vfs":[{"busID":"0000:09:00.2"}]}}]}',
        {
            "gpu": (device.AllocatedDevice(minor=0, resources={"koordinator.sh/gpu-core": "100"}),),
            "rdma": (
                device.AllocatedDevice(
                    minor=1,
                    resources={"koordinator.sh/rdma": "1"},
                    id="0000:09:00.0",
                    extension=device.AllocationExtension(vfs=(device.AllocatedVF(minor=0, bus_id="0000:09:00.2"),)),
                ),
            ),
        },
    ),
    (
        device.DEVICE_ALLOCATE_HINT,
        '{"rdma":{"selector":{"matchLabels":{"type":"fast"}},"allocateStrategy":"ApplyForAll",'
        '"requiredTopologyScope":"PCIe","exclusivePolicy":"PCIeLevel"}}',
        {
            "rdma": device.DeviceHint(
                selector=LabelSelector(match_labels={"type": "fast"}),
                allocate_strategy="ApplyForAll",
                required_topology_scope="PCIe",
                exclusive_policy="PCIeLevel",
            )
        },
    ),
    (
        device.DEVICE_JOINT_ALLOCATE,
        '{"deviceTypes":["gpu","rdma"],"requiredScope":"SamePCIe"}',
        device.JointAllocate(device_types=("gpu", "rdma"), required_scope="SamePCIe"),
    ),
    (
        device.GPU_PARTITION_SPEC,
        '{"allocatePolicy":"Restricted","ringBusBandwidth":"200Gi"}',
        device.GPUPartitionSpec(allocate_policy="Restricted", ring_bus_bandwidth="200Gi"),
    ),
    (
        device.GPU_PARTITIONS,
        '{"2":[{"minors":[0,1],"gpuLinkType":"NVLink","ringBusBandwidth":"400Gi","allocationScore":1}]}',
        {
            2: (
                device.GPUPartition(
                    minors=(0, 1), gpu_link_type="NVLink", ring_bus_bandwidth="400Gi", allocation_score=1
                ),
            )
        },
    ),
    (device.GPU_PARTITION_POLICY, "Honor", "Honor"),
    (device.BIND_TIMESTAMP_NS, "1763180000000000000", 1763180000000000000),
    (device.PREDICATE_TIME_NS, "1763180000000000000", 1763180000000000000),
    (device.GPU_MINORS, "0,1,7", (0, 1, 7)),
    (device.HAMI_LOCK, "1970-01-01T00:01:40Z,default,train", device.NodeLock(100.0, "default", "train")),
    (device.CAMBRICON_DSMLU_LOCK, "1970-01-01T00:01:40Z,default,train", device.NodeLock(100.0, "default", "train")),
    (
        load.LAST_EVICTIONS,
        '{"koord-batch":"2026-11-15T12:00:00Z"}',
        {"koord-batch": "2026-11-15T12:00:00Z"},
    ),
    (
        load.USAGE_THRESHOLDS,
        '{"usageThresholds":{"cpu":70},"prodUsageThresholds":{"cpu":50},"aggregatedUsage":'
        '{"usageThresholds":{"cpu":80},"usageAggregationType":"p95","usageAggregatedDuration":"5m0s"}}',
        load.UsageThresholds(
            usage_thresholds={"cpu": 70},
            prod_usage_thresholds={"cpu": 50},
            aggregated_usage=load.AggregatedThresholds(
                usage_thresholds={"cpu": 80}, usage_aggregation_type="p95", usage_aggregated_duration="5m0s"
            ),
        ),
    ),
    (load.LOAD_ESTIMATED_SCALING_FACTORS, '{"cpu":120}', {"cpu": 120}),
    (load.LOAD_ESTIMATED_SECONDS_AFTER_POD_SCHEDULED, "60", 60),
    (load.LOAD_ESTIMATED_SECONDS_AFTER_INITIALIZED, "30", 30),
    (load.EVICTION_COST, "2147483647", load.NEVER_EVICT),
    (load.EVICTION_COST, "-10", -10),
    (
        load.SOFT_EVICTION,
        '{"timestamp":"2026-11-15T04:25:02Z","deleteOptions":{"gracePeriodSeconds":10},"initiator":"d","reason":"hot"}',
        load.SoftEviction(
            timestamp="2026-11-15T04:25:02Z",
            delete_options=DeleteOptions(grace_period_seconds=10),
            initiator="d",
            reason="hot",
        ),
    ),
    (load.EVICT_POLICY, "SoftEviction", "SoftEviction"),
]


def carrying(value: Value[Any, Any], text: str) -> ObjectMeta:
    """The metadata of an object shop/web with one label or annotation."""
    texts = {value.key: text}
    if isinstance(value, Label):
        return ObjectMeta(name="web", namespace="shop", labels=texts)
    return ObjectMeta(name="web", namespace="shop", annotations=texts)
