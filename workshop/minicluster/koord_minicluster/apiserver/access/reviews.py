"""Reviews: questions about access, posted like objects and answered instead of stored.

`kubectl auth can-i` posts a SelfSubjectAccessReview, `auth can-i --list` a SelfSubjectRulesReview, `auth whoami` a
SelfSubjectReview; components that delegate their authentication and authorisation post TokenReviews and
SubjectAccessReviews.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from koord.api.kubernetes.access import Access, UserInfo
from koord_minicluster.apiserver.access.authn import Authenticator
from koord_minicluster.apiserver.access.rbac import Authorizer, aggregate
from koord_minicluster.apiserver.access.rules import RbacRule
from koord_minicluster.apiserver.bodies import decoding
from koord_minicluster.apiserver.http import Request, json_answer, warning_headers
from koord_minicluster.apiserver.patch import managed_fields
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import Cause, bad_request, invalid, unprocessable
from koord_minicluster.apiserver.verbs import context_of
from koord_minicluster.apiserver.wire.answers import Answer

Handler = Callable[[Request, Resource], Awaitable[Answer]]

_EXACTLY_ONE: Final = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


class Reviews:
    """Handlers for the review resources. `now` gives the time as objects carry it."""

    def __init__(self, authenticator: Authenticator, authorizer: Authorizer, now: Callable[[], str]) -> None:
        self._authenticator, self._authorizer, self._now = authenticator, authorizer, now

    def handlers(self) -> dict[tuple[str, str], Handler]:
        """By (collection, ""): for `Verbs`, beside the subresources."""
        authorization, authentication = "authorization.k8s.io", "authentication.k8s.io"
        return {
            (f"selfsubjectaccessreviews.{authorization}", ""): self._posted(self.own_access),
            (f"subjectaccessreviews.{authorization}", ""): self._posted(self.access),
            (f"localsubjectaccessreviews.{authorization}", ""): self._posted(self.local_access),
            (f"selfsubjectrulesreviews.{authorization}", ""): self._posted(self.own_rules),
            (f"selfsubjectreviews.{authentication}", ""): self._posted(self.whoami),
            (f"tokenreviews.{authentication}", ""): self._posted(self.token),
        }

    def own_access(self, request: Request, resource: Resource, review: Obj) -> Obj:
        spec = review["spec"]
        _refuse(resource, [*_one_target(spec), *_bare_metadata(review["metadata"])])
        return self._answered(review, request.user, spec)

    def access(self, request: Request, resource: Resource, review: Obj) -> Obj:
        spec = review["spec"]
        _refuse(resource, [*_one_target(spec), *_a_subject(spec), *_bare_metadata(review["metadata"])])
        return self._answered(review, _subject(spec), spec)

    def local_access(self, request: Request, resource: Resource, review: Obj) -> Obj:
        namespace = request.info.namespace
        spec, meta = review["spec"], review["metadata"]
        if meta.setdefault("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        causes = [*_one_target(spec), *_a_subject(spec), *_bare_metadata(meta, but="namespace")]
        if (wanted := spec.get("resourceAttributes")) and wanted.get("namespace", "") != namespace:
            place = "spec.resourceAttributes.namespace"
            causes.append(invalid(place, wanted.get("namespace", ""), "must match metadata.namespace"))
        if plain := spec.get("nonResourceAttributes"):
            causes.append(invalid("spec.nonResourceAttributes", _shown(plain), "disallowed on this kind of request"))
        _refuse(resource, causes)
        return self._answered(review, _subject(spec), spec)

    def own_rules(self, request: Request, resource: Resource, review: Obj) -> Obj:
        namespace = review["spec"].get("namespace", "")
        if not namespace:
            raise bad_request("no namespace on request")
        rules, faults = self._authorizer.rules_for(request.user, namespace)
        status: dict[str, Any] = {
            "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
            "nonResourceRules": [
                {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)} for rule in rules if rule.urls
            ],
            "incomplete": bool(faults),
        }
        if faults:
            status["evaluationError"] = aggregate(faults)
        return {**_type(resource), "metadata": {}, "spec": {}, "status": status}

    def whoami(self, request: Request, resource: Resource, review: Obj) -> Obj:
        status = {"userInfo": request.user.as_json()}
        return {**_type(resource), "metadata": {"creationTimestamp": self._now()}, "status": status}

    def token(self, request: Request, resource: Resource, review: Obj) -> Obj:
        spec = review["spec"]
        if not spec.get("token"):
            raise bad_request("token is required for TokenReview in authentication")
        user, audiences, fault = self._authenticator.check_token(spec["token"], tuple(spec.get("audiences") or ()))
        status: dict[str, Any] = {"user": {}}
        if user is not None:
            status = {"authenticated": True, "user": user.as_json(), "audiences": list(audiences)}
        elif fault:
            status["error"] = fault
        return {**review, "status": status}

    def _answered(self, review: Obj, user: UserInfo, spec: Mapping[str, Any]) -> Obj:
        allowed, why = self._authorizer.allowed(user, _access(spec))
        status: dict[str, Any] = {"allowed": allowed}
        if why:
            status["reason"] = why
        return {**review, "status": status}

    def _posted(self, answered: Callable[[Request, Resource, Obj], Obj]) -> Handler:
        async def handle(request: Request, resource: Resource) -> Answer:
            review, warnings = await self._read(request, resource)
            answer = json_answer(answered(request, resource, review), status=201)
            answer.more = warning_headers(warnings)
            return answer

        return handle

    async def _read(self, request: Request, resource: Resource) -> tuple[Obj, list[str]]:
        """The review that the client sent, and warnings. Adds an empty spec if it has none, and tracks its fields."""
        obj, warnings = decoding.decode(
            resource, await request.body(), request.content_type, request.query.get("fieldValidation", "Warn")
        )
        review: Obj = {**_type(resource), "metadata": dict(obj.get("metadata") or {}), "spec": obj.get("spec") or {}}
        managed_fields.track(
            None,
            review,
            manager=context_of(request).manager,
            operation_api_version=resource.api_version,
            schema=resource.schema,
            now=self._now(),
        )
        return review, warnings


def _type(resource: Resource) -> dict[str, Any]:
    return {"kind": resource.kind, "apiVersion": resource.api_version}


def _access(spec: Mapping[str, Any]) -> Access:
    if wanted := spec.get("resourceAttributes"):
        keys = ("verb", "group", "resource", "subresource", "name", "namespace")
        return Access(**{key: wanted.get(key) or "" for key in keys})
    plain = spec.get("nonResourceAttributes") or {}
    return Access(plain.get("verb") or "", path=plain.get("path") or "")


def _subject(spec: Mapping[str, Any]) -> UserInfo:
    extra = {key.lower(): tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
    return UserInfo(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), extra)


def _one_target(spec: Mapping[str, Any]) -> list[Cause]:
    wanted, plain = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if wanted is not None and plain is not None:
        detail = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", _shown(plain), detail)]
    return [invalid("spec.resourceAttributes", None, _EXACTLY_ONE)] if wanted is None and plain is None else []


def _a_subject(spec: Mapping[str, Any]) -> list[Cause]:
    if spec.get("user") or spec.get("groups"):
        return []
    return [invalid("spec.user", "", "at least one of user or group must be specified")]


def _bare_metadata(meta: Mapping[str, Any], but: str = "") -> list[Cause]:
    if not [key for key in meta if key not in (but, "managedFields")]:
        return []
    return [invalid("metadata", dict(meta), f"must be empty except for {but}" if but else "must be empty")]


def _shown(plain: Mapping[str, Any]) -> dict[str, Any]:
    return {"Path": plain.get("path", ""), "Verb": plain.get("verb", "")}


def _refuse(resource: Resource, causes: list[Cause]) -> None:
    if causes:
        raise unprocessable("", resource.group, "", causes)


def _resource_rule(rule: RbacRule) -> dict[str, Any]:
    shown = {"verbs": list(rule.verbs), "apiGroups": list(rule.groups), "resources": list(rule.resources)}
    return {**shown, "resourceNames": list(rule.names)} if rule.names else shown
