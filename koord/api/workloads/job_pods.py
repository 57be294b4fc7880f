"""New pods of a Job: with an index and its hostname, and the finalizer for counting ends."""

from __future__ import annotations

from typing import Any, Final

from koord.api.kinds import JOBS
from koord.api.kubernetes.workloads import Job
from koord.api.workloads.new_pods import managing, name_prefix, pod_from

TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
INDEX_FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"


def is_indexed(job: Job) -> bool:
    return job.spec.completion_mode == "Indexed"


def first_pods(job: Job) -> list[dict[str, Any]]:
    """What a new Job starts with: as many pods as may run together, of the lowest indexes where it has indexes."""
    spec = job.spec
    if spec.suspend:
        return []
    number = spec.parallelism if spec.completions is None else min(spec.parallelism, spec.completions)
    return [new_pod(job, index if is_indexed(job) else None) for index in range(number)]


def new_pod(job: Job, index: int | None, failures: int = 0, ignored: int = 0) -> dict[str, Any]:
    """A pod of the Job; of one index where the Job has indexes, then with how often that has failed so far."""
    meta = job.metadata
    if index is None:
        body = pod_from(job.spec.template, name_prefix(meta), managing(JOBS, meta))
    else:
        suffix = f"-{index}-"
        body = pod_from(job.spec.template, f"{meta.name[: 58 - len(suffix)]}{suffix}", managing(JOBS, meta))
        _set_index(job, body, index, failures, ignored)
    finalizers = [*body["metadata"].get("finalizers", ())]
    body["metadata"]["finalizers"] = [*finalizers, TRACKING] if TRACKING not in finalizers else finalizers
    return body


def _set_index(job: Job, body: dict[str, Any], index: int, failures: int, ignored: int) -> None:
    metadata = body["metadata"]
    metadata["labels"] = {**metadata.get("labels", {}), INDEX: str(index)}
    notes = {**metadata.get("annotations", {}), INDEX: str(index)}
    if job.spec.backoff_limit_per_index is not None:
        notes[INDEX_FAILURES] = str(failures)
        if ignored:
            notes[INDEX_IGNORED] = str(ignored)
    metadata["annotations"] = notes
    spec = {**body["spec"], "hostname": f"{job.metadata.name}-{index}"}
    for group in ("initContainers", "containers"):
        if spec.get(group):
            spec[group] = [_with_index_variable(container) for container in spec[group]]
    body["spec"] = spec


def _with_index_variable(container: dict[str, Any]) -> dict[str, Any]:
    variables = container.get("env") or []
    if any(variable.get("name") == INDEX_VARIABLE for variable in variables):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}}
    return {**container, "env": [*variables, {"name": INDEX_VARIABLE, "valueFrom": source}]}
