"""What the author of a workload left out: the defaults of all kinds that make pods.

The API server fills them in when a workload comes; offline commands fill them in first. Names of
ReplicaSets and revisions are made from templates with their defaults.
"""

from __future__ import annotations

from typing import Final

from koord.api.kubernetes.pod_defaults import Obj, default_claim_spec, default_template

TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
JOB_NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
JOB_UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
_INT32_MAX: Final = 2**31 - 1


def default_deployment(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec.get("template"))
    for key, value in (("replicas", 1), ("revisionHistoryLimit", 10), ("progressDeadlineSeconds", 600)):
        if spec.get(key) is None:
            spec[key] = value
    strategy = spec.get("strategy")
    if strategy is None:
        strategy = spec["strategy"] = {}
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        _default_rolling(strategy, maxUnavailable="25%", maxSurge="25%")


def _default_rolling(strategy: Obj, **values: str | int) -> None:
    if strategy.get("rollingUpdate") is None:
        strategy["rollingUpdate"] = {}
    for key, value in values.items():
        if strategy["rollingUpdate"].get(key) is None:
            strategy["rollingUpdate"][key] = value


def default_replica_set(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec.get("template"))
    if spec.get("replicas") is None:
        spec["replicas"] = 1


def default_daemon_set(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec.get("template"))
    if spec.get("revisionHistoryLimit") is None:
        spec["revisionHistoryLimit"] = 10
    strategy = spec.get("updateStrategy")
    if strategy is None:
        strategy = spec["updateStrategy"] = {}
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        _default_rolling(strategy, maxUnavailable=1, maxSurge=0)
    # A counter of template changes from an older API, which that API's clients still read.
    annotations = obj["metadata"].get("annotations")
    if annotations is None:
        annotations = obj["metadata"]["annotations"] = {}
    annotations.setdefault(TEMPLATE_GENERATION, "0")


def default_stateful_set(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec.get("template"))
    for key, value in (("replicas", 1), ("revisionHistoryLimit", 10)):
        if spec.get(key) is None:
            spec[key] = value
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = spec.get("updateStrategy")
    if strategy is None:
        strategy = spec["updateStrategy"] = {}
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
        if strategy.get("rollingUpdate") is None:
            strategy["rollingUpdate"] = {}
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] == "RollingUpdate" and rolling is not None and rolling.get("partition") is None:
        rolling["partition"] = 0
    policy = spec.get("persistentVolumeClaimRetentionPolicy")
    if policy is None:
        policy = spec["persistentVolumeClaimRetentionPolicy"] = {}
    for key in ("whenDeleted", "whenScaled"):
        if not policy.get(key):
            policy[key] = "Retain"
    for claim in spec.get("volumeClaimTemplates") or ():
        claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
        default_claim_spec(claim.setdefault("spec", {}))
        if not claim.setdefault("status", {}).get("phase"):
            claim["status"]["phase"] = "Pending"


def default_controller(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    template = spec.get("template")
    default_template(template)
    labels = ((template or {}).get("metadata") or {}).get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        if not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)
    if spec.get("replicas") is None:
        spec["replicas"] = 1


def default_job(job: Obj) -> None:
    spec = job.setdefault("spec", {})
    default_job_spec(spec)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not job["metadata"].get("labels"):
        # One map for both, as in the real server: labels that the server adds to the template show on the job as well.
        job["metadata"]["labels"] = labels


def default_job_spec(spec: Obj) -> None:
    default_template(spec.get("template"))
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    if spec.get("parallelism") is None:
        spec["parallelism"] = 1
    if spec.get("backoffLimit") is None:
        spec["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else _INT32_MAX
    policy = spec.get("podFailurePolicy")
    for key, value in (
        ("completionMode", "NonIndexed"),
        ("suspend", False),
        ("podReplacementPolicy", "Failed" if policy is not None else "TerminatingOrFailed"),
        ("manualSelector", False),
    ):
        if spec.get(key) is None:
            spec[key] = value
    default_failure_policy(spec)


def default_failure_policy(spec: Obj) -> None:
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        for pattern in rule.get("onPodConditions") or ():
            if not pattern.get("status"):
                pattern["status"] = "True"


def give_selector(job: Obj) -> None:
    """A new Job selects its pods by its own uid, unless its author insists on a selector."""
    spec, meta = job["spec"], job["metadata"]
    if spec.get("manualSelector"):
        return
    template_meta = spec["template"].setdefault("metadata", {})
    labels = template_meta.get("labels") or {}
    for key in JOB_NAME_LABELS:
        labels.setdefault(key, meta.get("name", ""))
    for key in JOB_UID_LABELS:
        labels.setdefault(key, meta.get("uid", ""))
    template_meta["labels"] = labels
    selector = spec.get("selector") or {}
    selector["matchLabels"] = {JOB_UID_LABELS[1]: meta.get("uid", ""), **(selector.get("matchLabels") or {})}
    spec["selector"] = selector


def default_cron_job(obj: Obj) -> None:
    spec = obj.setdefault("spec", {})
    for key, value in (
        ("concurrencyPolicy", "Allow"),
        ("suspend", False),
        ("successfulJobsHistoryLimit", 3),
        ("failedJobsHistoryLimit", 1),
    ):
        if spec.get(key) is None or spec[key] == "":
            spec[key] = value
    job_spec = (spec.get("jobTemplate") or {}).get("spec") or {}
    default_template(job_spec.get("template"))
    default_failure_policy(job_spec)
