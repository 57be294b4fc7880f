"""Admission webhooks: how they are registered, and what passes over the wire when one is called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.machinery.struct import EMPTY, Struct
from koord.api.text.selector import LabelSelector


class ServiceReference(Struct):
    namespace: str
    name: str
    path: str = ""
    port: int = 443


class WebhookClientConfig(Struct):
    """Where a webhook answers: a URL, or a service."""

    url: str | None = None
    service: ServiceReference | None = None
    ca_bundle: str = ""
    "PEM certificates of the authorities to trust, in base64."


class RuleWithOperations(Struct):
    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str = "*"


class MatchCondition(Struct):
    name: str
    expression: str


class Webhook(Struct):
    """One webhook, of either kind; `reinvocation_policy` counts for mutating ones."""

    name: str
    client_config: WebhookClientConfig = WebhookClientConfig()
    rules: tuple[RuleWithOperations, ...] = ()
    failure_policy: str = "Fail"
    match_policy: str = "Equivalent"
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    side_effects: str = ""
    timeout_seconds: int = 10
    admission_review_versions: tuple[str, ...] = ()
    reinvocation_policy: str = "Never"
    match_conditions: tuple[MatchCondition, ...] = ()


class MutatingWebhookConfiguration(Struct):
    metadata: ObjectMeta = ObjectMeta()
    webhooks: tuple[Webhook, ...] = ()


class ValidatingWebhookConfiguration(Struct):
    metadata: ObjectMeta = ObjectMeta()
    webhooks: tuple[Webhook, ...] = ()


class GroupVersionKind(Struct):
    group: str = ""
    version: str = ""
    kind: str = ""


class GroupVersionResource(Struct):
    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(Struct):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = EMPTY


Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


class AdmissionRequest(Struct):
    """A request that waits for an answer. The objects are plain data: an answer is a patch of just these bytes."""

    uid: str
    operation: Operation
    kind: GroupVersionKind = GroupVersionKind()
    resource: GroupVersionResource = GroupVersionResource()
    sub_resource: str = ""
    request_kind: GroupVersionKind | None = None
    request_resource: GroupVersionResource | None = None
    request_sub_resource: str = ""
    name: str = ""
    namespace: str = ""
    user_info: UserInfo = UserInfo()
    object: dict[str, Any] | None = None
    old_object: dict[str, Any] | None = None
    dry_run: bool = False
    options: dict[str, Any] | None = None


class AdmissionStatus(Struct):
    """Why a request was refused."""

    message: str = ""
    reason: str = ""
    code: int = 0


class AdmissionResponse(Struct):
    uid: str
    allowed: bool
    status: AdmissionStatus | None = None
    patch: bytes | None = None
    "A JSON patch; base64 on the wire."
    patch_type: Literal["JSONPatch"] | None = None
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = EMPTY


class AdmissionReview(Struct):
    """The envelope of a request on its way in, and of the response on its way back."""

    api_version: str = ""
    kind: str = ""
    request: AdmissionRequest | None = None
    response: AdmissionResponse | None = None
