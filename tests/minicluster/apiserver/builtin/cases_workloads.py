"""Workloads, budgets and the small kinds around them: right and wrong."""

from __future__ import annotations

from typing import Any

from tests.minicluster.apiserver.builtin.case import Case, Obj

C = {"name": "c", "image": "nginx"}
LABELS = {"app": "web"}


def template(labels: Obj | None = None, **spec: Any) -> Obj:
    return {"metadata": {"labels": LABELS if labels is None else labels}, "spec": {"containers": [C], **spec}}


def workload(kind: str, meta: Obj | None = None, **spec: Any) -> Obj:
    whole = {"selector": {"matchLabels": LABELS}, "template": template(), **spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta or {}, "spec": without_none(whole)}


def without_none(spec: Obj) -> Obj:
    return {key: value for key, value in spec.items() if value is not None}


def deployment(**spec: Any) -> Obj:
    return workload("Deployment", **spec)


def job(meta: Obj | None = None, **spec: Any) -> Obj:
    whole = {"template": template(restartPolicy="Never"), **spec}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta or {}, "spec": without_none(whole)}


def cron(meta: Obj | None = None, **spec: Any) -> Obj:
    whole = {
        "schedule": "*/5 * * * *",
        "jobTemplate": {"spec": {"template": template(restartPolicy="OnFailure")}},
        **spec,
    }
    return {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta or {}, "spec": without_none(whole)}


def budget(**spec: Any) -> Obj:
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "spec": spec}


def lease(**spec: Any) -> Obj:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "spec": spec}


def priority(name: str | None = None, **rest: Any) -> Obj:
    meta = {} if name is None else {"name": name}
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": meta, **rest}


BAD_SELECTOR = {"matchExpressions": [{"key": "a b", "operator": "Like"}]}
DONE = {"type": "Complete", "status": "True"}
MET = {"type": "SuccessCriteriaMet", "status": "True"}
FAILED = {"type": "Failed", "status": "True"}
RULE = {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1]}}
FINISHED = {
    "startTime": "2026-01-01T00:00:00Z",
    "completionTime": "2026-01-01T00:01:00Z",
    "succeeded": 1,
    "conditions": [DONE, MET],
}

TWICE = {"env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]}

APPS = [
    Case("warned of", deployment(template=template(containers=[{**C, **TWICE}]))),
    Case(
        "labels are not worth a warning",
        deployment(template=template(containers=[{**C, **TWICE}])),
        {"metadata": {"labels": {"a": "b"}}},
    ),
    Case(
        "a change is worth a warning",
        deployment(template=template(containers=[{**C, **TWICE}])),
        {"spec": {"replicas": 2}},
    ),
    Case("a minimal one", deployment()),
    Case("recreate", deployment(strategy={"type": "Recreate"})),
    Case("partly given", deployment(replicas=0, strategy={"rollingUpdate": {"maxSurge": 1}}, revisionHistoryLimit=0)),
    Case("status is not the author's", {**deployment(), "status": {"replicas": 3}}),
    Case("no selector", deployment(selector=None)),
    Case("empty selector", deployment(selector={})),
    Case("selector does not match", deployment(selector={"matchLabels": {"app": "other"}})),
    Case(
        "selector by expression",
        deployment(selector={"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]}),
    ),
    Case("bad selector", deployment(selector=BAD_SELECTOR)),
    Case("no template", deployment(template=None)),
    Case(
        "bad template",
        deployment(template=template(containers=[{"name": "C"}], restartPolicy="Never", activeDeadlineSeconds=5)),
    ),
    Case(
        "bad template labels",
        deployment(
            template={
                "metadata": {"labels": {"app": "web", "a b": "c"}, "annotations": {"c d": ""}},
                "spec": {"containers": [C]},
            }
        ),
    ),
    Case(
        "negative everything",
        deployment(replicas=-1, minReadySeconds=-1, revisionHistoryLimit=-1, progressDeadlineSeconds=-5),
    ),
    Case("deadline below ready seconds", deployment(minReadySeconds=10, progressDeadlineSeconds=10)),
    Case("odd strategy", deployment(strategy={"type": "Odd"})),
    Case("recreate with rolling", deployment(strategy={"type": "Recreate", "rollingUpdate": {"maxSurge": 1}})),
    Case("nothing may move", deployment(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})),
    Case("bad percent", deployment(strategy={"rollingUpdate": {"maxSurge": "x", "maxUnavailable": "110%"}})),
    Case("negative surge", deployment(strategy={"rollingUpdate": {"maxSurge": -1}})),
    Case("ephemeral containers", deployment(template=template(ephemeralContainers=[{"name": "e", "image": "i"}]))),
    Case("scaled", deployment(), {"spec": {"replicas": 3}}),
    Case("annotated", deployment(), {"metadata": {"annotations": {"a": "b"}}}),
    Case("labelled", deployment(), {"metadata": {"labels": {"a": "b"}}}),
    Case(
        "another selector",
        deployment(),
        {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}}}},
    ),
    Case(
        "status",
        deployment(),
        {
            "status": {
                "replicas": 2,
                "readyReplicas": 1,
                "updatedReplicas": 2,
                "availableReplicas": 1,
                "observedGeneration": 1,
            }
        },
        "status",
    ),
    Case(
        "bad status",
        deployment(),
        {"status": {"replicas": 1, "readyReplicas": -1, "updatedReplicas": 2, "availableReplicas": 5}},
        "status",
    ),
    Case("a minimal one", workload("ReplicaSet")),
    Case("no selector", workload("ReplicaSet", selector=None)),
    Case("bad", workload("ReplicaSet", replicas=-1, selector={}, template=template(restartPolicy="Never"))),
    Case(
        "selector changes",
        workload("ReplicaSet"),
        {"spec": {"selector": {"matchLabels": {"x": "y"}}, "template": {"metadata": {"labels": {"x": "y"}}}}},
    ),
    Case("status", workload("ReplicaSet"), {"status": {"replicas": 1, "fullyLabeledReplicas": 2}}, "status"),
    Case("a minimal one", workload("DaemonSet")),
    Case("on delete", workload("DaemonSet", updateStrategy={"type": "OnDelete"})),
    Case("surge", workload("DaemonSet", updateStrategy={"rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}})),
    Case("both", workload("DaemonSet", updateStrategy={"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}})),
    Case("neither", workload("DaemonSet", updateStrategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}})),
    Case("odd strategy", workload("DaemonSet", updateStrategy={"type": "Odd"})),
    Case("no selector", workload("DaemonSet", selector=None)),
    Case("empty selector", workload("DaemonSet", selector={})),
    Case(
        "template changes",
        workload("DaemonSet"),
        {"spec": {"template": {"spec": {"containers": [{**C, "image": "nginx:2"}]}}}},
    ),
    Case(
        "selector changes",
        workload("DaemonSet"),
        {"spec": {"selector": {"matchLabels": {"x": "y"}}, "template": {"metadata": {"labels": {"x": "y"}}}}},
    ),
    Case("bad status", workload("DaemonSet"), {"status": {"numberReady": -1}}, "status"),
    Case("a minimal one", workload("StatefulSet", serviceName="s")),
    Case(
        "with claims",
        workload(
            "StatefulSet",
            template=template(containers=[{**C, "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]),
            volumeClaimTemplates=[
                {
                    "metadata": {"name": "data"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }
            ],
        ),
    ),
    Case(
        "with bad claims",
        workload(
            "StatefulSet", volumeClaimTemplates=[{"metadata": {"name": "data"}, "spec": {"accessModes": ["Odd"]}}]
        ),
    ),
    Case(
        "odd policies",
        workload(
            "StatefulSet",
            podManagementPolicy="Odd",
            updateStrategy={"type": "Odd"},
            persistentVolumeClaimRetentionPolicy={"whenDeleted": "Odd"},
        ),
    ),
    Case(
        "on delete with rolling",
        workload("StatefulSet", updateStrategy={"type": "OnDelete", "rollingUpdate": {"partition": 1}}),
    ),
    Case(
        "bad partition", workload("StatefulSet", updateStrategy={"rollingUpdate": {"partition": -1}}, serviceName="a.b")
    ),
    Case("bad name", workload("StatefulSet", meta={"name": "a.b"})),
    Case("no selector", workload("StatefulSet", selector=None)),
    Case("bad selector", workload("StatefulSet", selector=BAD_SELECTOR)),
    Case(
        "scaled",
        workload("StatefulSet"),
        {"spec": {"replicas": 5, "template": {"spec": {"containers": [{**C, "image": "nginx:2"}]}}}},
    ),
    Case("service changes", workload("StatefulSet", serviceName="a"), {"spec": {"serviceName": "b"}}),
    Case("status", workload("StatefulSet"), {"status": {"replicas": 1, "readyReplicas": 2}}, "status"),
    Case("a minimal one", {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {"a": "b"}}),
    Case("no data", {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": -1}),
    Case(
        "data changes",
        {"apiVersion": "apps/v1", "kind": "ControllerRevision", "revision": 1, "data": {"a": "b"}},
        {"data": {"a": "c"}},
    ),
]

BATCH = [
    Case("a minimal one", job()),
    Case("parallel", job(parallelism=3)),
    Case("indexed", job(completionMode="Indexed", completions=3, parallelism=2, backoffLimitPerIndex=1)),
    Case(
        "failure policy",
        job(
            podFailurePolicy={"rules": [RULE, {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
        ),
    ),
    Case("always", job(template=template())),
    Case("odd restart policy", job(template=template(restartPolicy="Odd"))),
    Case(
        "negative everything",
        job(parallelism=-1, completions=-1, activeDeadlineSeconds=-1, backoffLimit=-1, ttlSecondsAfterFinished=-1),
    ),
    Case("odd modes", job(completionMode="Odd", podReplacementPolicy="Odd", managedBy="x")),
    Case("indexed without completions", job(completionMode="Indexed", parallelism=1)),
    Case("per index without indexes", job(backoffLimitPerIndex=1, maxFailedIndexes=2)),
    Case("max failed without backoff", job(completionMode="Indexed", completions=2, maxFailedIndexes=3)),
    Case("a selector of its own", job(selector={"matchLabels": {"a": "b"}})),
    Case("a manual selector", job(manualSelector=True, selector={"matchLabels": LABELS})),
    Case("a manual selector that does not match", job(manualSelector=True, selector={"matchLabels": {"a": "b"}})),
    Case("manual without selector", job(manualSelector=True)),
    Case("labels of another job", job(template=template({"job-name": "other"}, restartPolicy="Never"))),
    Case(
        "bad failure policy",
        job(
            template=template(restartPolicy="OnFailure"),
            podFailurePolicy={
                "rules": [
                    {"action": "Odd"},
                    {
                        "action": "FailIndex",
                        "onExitCodes": {"operator": "Odd", "values": [2, 1, 1], "containerName": "z"},
                    },
                    {
                        "onExitCodes": {"operator": "In", "values": [0]},
                        "onPodConditions": [{"type": "a b", "status": "Odd"}],
                    },
                ]
            },
        ),
    ),
    Case(
        "success policy",
        job(completionMode="Indexed", completions=3, successPolicy={"rules": [{"succeededCount": 5}, {}]}),
    ),
    Case("success policy without indexes", job(successPolicy={"rules": [{"succeededCount": 1}]})),
    Case("suspended", job(), {"spec": {"suspend": True, "parallelism": 2}}),
    Case("template changes", job(), {"spec": {"template": {"spec": {"containers": [{**C, "image": "nginx:2"}]}}}}),
    Case(
        "scheduling of a suspended job changes",
        job(suspend=True),
        {"spec": {"template": {"spec": {"nodeSelector": {"a": "b"}}}}},
    ),
    Case("completions change", job(), {"spec": {"completions": 5, "completionMode": "Indexed"}}),
    Case("status", job(), {"status": FINISHED}, "status"),
    Case("status without start", job(), {"status": {"conditions": [DONE, FAILED], "active": 1, "ready": 2}}, "status"),
    Case(
        "status completed early",
        job(),
        {"status": {"completionTime": "2026-01-01T00:00:00Z", "startTime": "2026-01-01T00:01:00Z"}},
        "status",
    ),
    Case(
        "status goes back", job(), {"status": {"conditions": [], "succeeded": 0}}, "status", before={"status": FINISHED}
    ),
    Case("a minimal one", cron()),
    Case("no schedule", cron(schedule="")),
    Case("four fields", cron(schedule="* * * *")),
    Case("minute too high", cron(schedule="60 * * * *")),
    Case("a word", cron(schedule="@daily")),
    Case("an unknown word", cron(schedule="@never")),
    Case("no number", cron(schedule="a * * * *")),
    Case("backwards", cron(schedule="5-1 * * * *")),
    Case("no step", cron(schedule="*/0 * * * *")),
    Case("days by name", cron(schedule="0 0 * JAN-mar mon,TUE")),
    Case("a time zone in the schedule", cron(schedule="TZ=UTC 0 0 * * *")),
    Case("a time zone", cron(timeZone="Europe/Zurich")),
    Case("a bad time zone", cron(timeZone="Mars/Olympus")),
    Case("a local time zone", cron(timeZone="Local")),
    Case(
        "odd policy and negative limits",
        cron(
            concurrencyPolicy="Odd",
            successfulJobsHistoryLimit=-1,
            failedJobsHistoryLimit=-1,
            startingDeadlineSeconds=-1,
        ),
    ),
    Case(
        "bad job",
        cron(
            jobTemplate={
                "spec": {"template": template(), "selector": {"matchLabels": {"a": "b"}}, "manualSelector": True}
            }
        ),
    ),
    Case("name too long", cron({"name": "a" * 53})),
    Case("suspended", cron(), {"spec": {"suspend": True}}),
    Case("schedule breaks", cron(), {"spec": {"schedule": "x"}}),
]

OTHERS = [
    Case("min", budget(minAvailable=1, selector={"matchLabels": LABELS})),
    Case("max", budget(maxUnavailable="30%", selector={})),
    Case("nothing", budget()),
    Case("both", budget(minAvailable=1, maxUnavailable=1)),
    Case("too much", budget(minAvailable="150%")),
    Case("no percent", budget(maxUnavailable="x")),
    Case("negative", budget(minAvailable=-1)),
    Case("bad selector and policy", budget(selector=BAD_SELECTOR, unhealthyPodEvictionPolicy="Odd")),
    Case("changed", budget(minAvailable=1), {"spec": {"minAvailable": 2}}),
    Case("status", budget(minAvailable=1), {"status": {"disruptionsAllowed": 1, "observedGeneration": 1}}, "status"),
    Case(
        "bad status",
        budget(minAvailable=1),
        {"status": {"disruptionsAllowed": -1, "conditions": [{"type": "a b", "status": "Odd"}]}},
        "status",
    ),
    Case("a minimal one", lease()),
    Case(
        "held",
        lease(
            holderIdentity="a", leaseDurationSeconds=15, acquireTime="2026-01-01T00:00:00.123456Z", leaseTransitions=0
        ),
    ),
    Case("bad", lease(leaseDurationSeconds=0, leaseTransitions=-1, preferredHolder="x")),
    Case("renewed", lease(holderIdentity="a"), {"spec": {"holderIdentity": "b"}}),
    Case("a minimal one", priority(value=10)),
    Case("too high", priority(value=1000000001)),
    Case("reserved name", priority("system-mine", value=1)),
    Case("odd policy", priority(value=1, preemptionPolicy="Odd")),
    Case("never", priority(value=-5, preemptionPolicy="Never", description="x")),
    Case("value changes", priority(value=1), {"value": 2, "preemptionPolicy": "Never"}),
    Case("description changes", priority(value=1), {"description": "x"}),
    Case(
        "a minimal one",
        {
            "apiVersion": "node.k8s.io/v1",
            "kind": "RuntimeClass",
            "handler": "h",
            "overhead": {"podFixed": {"cpu": "0.1"}},
        },
    ),
    Case(
        "bad handler",
        {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "H", "overhead": {"podFixed": {"gpu": 1}}},
    ),
    Case("handler changes", {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "handler": "h"}, {"handler": "i"}),
]
