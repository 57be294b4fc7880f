"""Jobs: pods that run to completion. Their selector is made by the server, unless the author insists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from koord.api.kubernetes.workload_defaults import JOB_NAME_LABELS, JOB_UID_LABELS, default_job, give_selector
from koord.api.text import formats
from koord.api.text.timestamp import parse_timestamp
from koord_minicluster.apiserver.builtin.apps import new_generation
from koord_minicluster.apiserver.builtin.batch_policies import (
    shown_failure_policy,
    shown_success_policy,
    validate_failure_policy,
    validate_job_status,
    validate_success_policy,
)
from koord_minicluster.apiserver.builtin.checks import (
    IMMUTABLE,
    Faults,
    Part,
    immutable,
    label_selector,
    labels_value,
    not_negative,
    selector_value,
    selects,
)
from koord_minicluster.apiserver.builtin.pod_spec import validate_template
from koord_minicluster.apiserver.builtin.pod_warnings import template_warnings
from koord_minicluster.apiserver.builtin.statuses import blank_status
from koord_minicluster.apiserver.printing import AGE, NAME, human_duration, of, selector_text, template_columns, text
from koord_minicluster.apiserver.resource import Obj, Strategy
from koord_minicluster.apiserver.status import Cause, invalid, not_supported, required, too_long

_MOST_INDEXED: Final = 100_000
_ORPHANING: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)
_BLANK: Final = blank_status("batch", "v1", "Job")


def when_read(job: Obj) -> bool:
    """Stored jobs get their labels like sent ones, and by then their templates have some."""
    labels = (job["spec"]["template"].get("metadata") or {}).get("labels")
    if not labels or job["metadata"].get("labels"):
        return False
    job["metadata"]["labels"] = dict(labels)
    return True


def prepare_create(job: Obj) -> None:
    _BLANK(job)
    give_selector(job)


def validate(job: Obj) -> Sequence[Cause]:
    faults: Faults = []
    meta, spec = job["metadata"], job["spec"]
    if not spec.get("manualSelector") and spec.get("selector") is not None:
        _generated(faults, meta, spec)
    _validate_spec(faults, spec)
    if spec.get("completionMode") == "Indexed" and (spec.get("completions") or 0) > 0:
        hostname = f"{meta.get('name', '')}-{spec['completions'] - 1}"
        if formats.dns_label(hostname):
            text_ = f"will not able to create pod with invalid DNS label: {hostname}"
            faults.append(invalid("metadata.name", meta.get("name", ""), text_))
    return faults


def _validate_spec(faults: Faults, spec: Part) -> None:
    validate_job_spec(faults, spec, "spec")
    selector = spec.get("selector")
    before = len(faults)
    if selector is None:
        faults.append(required("spec.selector"))
    else:
        label_selector(faults, selector, "spec.selector")
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    if selector is None or (len(faults) == before and not selects(selector, labels)):
        text_ = "`selector` does not match template `labels`"
        faults.append(invalid("spec.template.metadata.labels", labels_value(labels), text_))


def _generated(faults: Faults, meta: Part, spec: Part) -> None:
    """Checks that the labels that select the job's pods are the ones that the server generated."""
    path = "spec.template.metadata.labels"
    labels: Mapping[str, str] = (spec["template"].get("metadata") or {}).get("labels") or {}
    wanted = {key: meta.get("uid", "") for key in JOB_UID_LABELS} | {
        key: meta.get("name", "") for key in JOB_NAME_LABELS
    }
    for key in (JOB_UID_LABELS[0], JOB_NAME_LABELS[0], JOB_UID_LABELS[1], JOB_NAME_LABELS[1]):
        if key not in labels:
            faults.append(required(f"{path}[{key}]", f"must be '{wanted[key]}'"))
        elif labels[key] != wanted[key]:
            faults.append(invalid(f"{path}[{key}]", labels_value(labels), f"must be '{wanted[key]}'"))
    wrong: Faults = []
    label_selector(wrong, spec["selector"], "")
    if not wrong and not selects(spec["selector"], wanted):
        faults.append(invalid("spec.selector", selector_value(spec["selector"]), "`selector` not auto-generated"))


def validate_job_spec(faults: Faults, spec: Part, path: str) -> None:
    keys = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
    not_negative(faults, spec, (*keys, "backoffLimitPerIndex", "maxFailedIndexes"), path)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        faults.append(required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified"))
    if (manager := spec.get("managedBy")) is not None:
        _managed_by(faults, manager, f"{path}.managedBy")
    _completion_mode(faults, spec, path)
    if spec.get("podFailurePolicy") is not None:
        validate_failure_policy(faults, spec, f"{path}.podFailurePolicy")
    if spec.get("successPolicy") is not None:
        validate_success_policy(faults, spec, f"{path}.successPolicy")
    _replacement(faults, spec, f"{path}.podReplacementPolicy")
    validate_template(faults, spec.get("template") or {}, f"{path}.template")
    _restart_policy(faults, spec, f"{path}.template.spec.restartPolicy")


def _managed_by(faults: Faults, manager: str, path: str) -> None:
    domain, slash, rest = manager.partition("/")
    if not manager:
        faults.append(required(path))
    elif not slash or not domain or not rest:
        faults.append(invalid(path, manager, 'must be a domain-prefixed path (such as "acme.io/foo")'))
    else:
        faults += [invalid(path, domain, text_) for text_ in formats.dns_subdomain(domain)]
    if len(manager) > 63:
        faults.append(too_long(path, 63))


def _completion_mode(faults: Faults, spec: Part, path: str) -> None:
    mode = spec.get("completionMode")
    if mode not in ("NonIndexed", "Indexed"):
        faults.append(not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed")))
    if mode == "Indexed":
        completions, failed = spec.get("completions"), spec.get("maxFailedIndexes")
        if completions is None:
            faults.append(required(f"{path}.completions", "when completion mode is Indexed"))
        if (spec.get("parallelism") or 0) > _MOST_INDEXED:
            text_ = f"must be less than or equal to {_MOST_INDEXED} when completion mode is Indexed"
            faults.append(invalid(f"{path}.parallelism", spec["parallelism"], text_))
        if failed is not None and completions is not None and failed > completions:
            faults.append(invalid(f"{path}.maxFailedIndexes", failed, "must be less than or equal to completions"))
    elif mode == "NonIndexed":
        for key in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(key) is not None:
                faults.append(invalid(f"{path}.{key}", spec[key], "requires indexed completion mode"))


def _replacement(faults: Faults, spec: Part, path: str) -> None:
    policy = spec.get("podReplacementPolicy")
    if policy is None:
        return
    allowed = ("Failed", "TerminatingOrFailed") if spec.get("podFailurePolicy") is None else ("Failed",)
    if policy not in allowed:
        faults.append(not_supported(path, policy, allowed))


def _restart_policy(faults: Faults, spec: Part, path: str) -> None:
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy", "")
    if policy in ("Always", ""):
        faults.append(required(path, 'valid values: "OnFailure", "Never"'))
    elif policy not in ("OnFailure", "Never"):
        faults.append(not_supported(path, policy, ("OnFailure", "Never")))
    elif spec.get("podFailurePolicy") is not None and policy != "Never":
        faults.append(invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified'))


def validate_update(new: Obj, old: Obj) -> Sequence[Cause]:
    faults: Faults = []
    spec, was = new["spec"], old["spec"]
    # The real server checks the spec a second time here, and says so twice.
    _validate_spec(faults, spec)
    if spec.get("completionMode") != "Indexed":
        immutable(faults, spec, was, ("completions",), "spec")
    elif spec.get("completions") not in (was.get("completions"), spec.get("parallelism"), None):
        text_ = "can only be modified in tandem with spec.parallelism"
        faults.append(invalid("spec.completions", spec["completions"], text_))
    if spec.get("selector") != was.get("selector"):
        faults.append(invalid("spec.selector", selector_value(spec.get("selector")), IMMUTABLE))
    if _fixed_template(spec, was) != _fixed_template(was, was):
        faults.append(invalid("spec.template", spec.get("template"), IMMUTABLE))
    immutable(faults, spec, was, ("completionMode",), "spec")
    if spec.get("podFailurePolicy") != was.get("podFailurePolicy"):
        shown = shown_failure_policy(spec.get("podFailurePolicy"))
        faults.append(invalid("spec.podFailurePolicy", shown, IMMUTABLE))
    immutable(faults, spec, was, ("backoffLimitPerIndex", "managedBy"), "spec")
    if spec.get("successPolicy") != was.get("successPolicy"):
        faults.append(invalid("spec.successPolicy", shown_success_policy(spec.get("successPolicy")), IMMUTABLE))
    return faults


def _fixed_template(spec: Part, was: Part) -> dict[str, Any]:
    """The template without what may change: where to schedule, while the job is suspended and has not started."""
    template = dict(spec.get("template") or {})
    if not was.get("suspend"):
        return template
    meta = {k: v for k, v in (template.get("metadata") or {}).items() if k not in ("labels", "annotations")}
    pod_spec = {
        k: v
        for k, v in (template.get("spec") or {}).items()
        if k not in ("nodeSelector", "tolerations", "schedulingGates", "affinity")
    }
    affinity = {k: v for k, v in ((template.get("spec") or {}).get("affinity") or {}).items() if k != "nodeAffinity"}
    return {**template, "metadata": meta, "spec": {**pod_spec, "affinity": affinity}}


def _status(job: Obj) -> str:
    conditions = (job.get("status") or {}).get("conditions") or ()
    true = {condition.get("type") for condition in conditions if condition.get("status") == "True"}
    if "Complete" in true:
        return "Complete"
    if "Failed" in true:
        return "Failed"
    if job["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next((kind for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if kind in true), "Running")


def _completions(job: Obj) -> str:
    succeeded, completions = (job.get("status") or {}).get("succeeded", 0), job["spec"].get("completions")
    if completions is not None:
        return f"{succeeded}/{completions}"
    parallelism = job["spec"].get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: Obj, now_s: float) -> str:
    status = job.get("status") or {}
    if not status.get("startTime"):
        return ""
    end_s = parse_timestamp(status["completionTime"]) if status.get("completionTime") else now_s
    return human_duration(end_s - parse_timestamp(status["startTime"]))


JOB: Final = Strategy(
    orphans_by_default=True,
    orphaning_warning=_ORPHANING,
    default=default_job,
    prepare_create=prepare_create,
    when_read=when_read,
    validate=validate,
    validate_update=validate_update,
    validate_status=validate_job_status,
    fields=lambda job: {"status.successful": str((job.get("status") or {}).get("succeeded", 0))},
    warnings=lambda job: template_warnings(job["spec"].get("template"), "spec.template"),
    warns_again=new_generation,
    columns=(
        NAME,
        text("Status", of(_status)),
        text("Completions", of(_completions)),
        text("Duration", _duration),
        AGE,
        *template_columns("spec", "template"),
        text("Selector", of(lambda job: selector_text(job["spec"].get("selector"))), 1),
    ),
)
