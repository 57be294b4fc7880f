"""Admission webhooks: other programs' say in a write.

Mutating hooks run one after another, each seeing what the one before it made of the object; if one changed it, hooks
that asked for it (`reinvocationPolicy: IfNeeded`) and ran before are asked once more. Validating hooks run together.
What happens when a hook cannot be asked is its `failurePolicy`; a hook with side effects takes no rehearsals.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from koord_minicluster.apiserver.admission.attributes import Attributes, refusal
from koord_minicluster.apiserver.admission.match_conditions import ConditionsFailed, Decide, conditions_hold
from koord_minicluster.apiserver.admission.webhook_client import CallFailed, WebhookClient
from koord_minicluster.apiserver.admission.webhook_review import (
    InvalidReview,
    Unconvertible,
    Verdict,
    denied,
    review,
    verdict,
)
from koord_minicluster.apiserver.admission.webhook_rules import Hook
from koord_minicluster.apiserver.bodies import decoding, json_text
from koord_minicluster.apiserver.patch import json_patch, new_fields
from koord_minicluster.apiserver.resource import Obj, Resource
from koord_minicluster.apiserver.status import StatusError, bad_request, internal_error

log = logging.getLogger(__name__)

T = TypeVar("T")


@dataclass(slots=True)
class Reinvocation:
    """Hooks that must be called again, over the two rounds of one write."""

    second_round: bool = False
    asked_for: bool = False
    "A hook changed the object, so there will be a second round."
    due: set[str] = field(default_factory=set)
    ran: set[str] = field(default_factory=set)

    def object_changed(self) -> None:
        self.due |= self.ran
        self.ran = set()


class Webhooks:
    """Calls the hooks that concern a write."""

    def __init__(
        self,
        client: WebhookClient,
        namespace_of: Callable[[str], Obj | None],
        equivalents: Callable[[Resource], Iterable[Resource]],
        default: Callable[[Resource, Obj], None],
        decide: Decide,
    ) -> None:
        self._client, self._namespace_of, self._equivalents, self._default = client, namespace_of, equivalents, default
        self._decide = decide

    async def mutate(self, hooks: Iterable[Hook], attributes: Attributes, again: Reinvocation) -> Obj | None:
        """The object after all hooks; the same one if no hook changed it."""
        for hook in hooks:
            resource = self._concerned(hook, attributes)
            if resource is None or (again.second_round and hook.uid not in again.due):
                continue
            changed = await _by_policy(hook, self._mutate_by(hook, attributes, resource))
            if changed is not None:
                attributes = replace(attributes, obj=changed)
                again.object_changed()
                again.asked_for = True
            if hook.reinvoke:
                again.ran.add(hook.uid)
        return attributes.obj

    async def validate(self, hooks: Iterable[Hook], attributes: Attributes) -> None:
        """Raises the first hook's refusal, by order of the hooks."""
        concerned = [(hook, resource) for hook in hooks if (resource := self._concerned(hook, attributes)) is not None]
        if not concerned:
            return
        answers = await asyncio.gather(
            *(_by_policy(hook, self._ask(hook, attributes, resource, mutating=False)) for hook, resource in concerned),
            return_exceptions=True,
        )
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer

    def _concerned(self, hook: Hook, attributes: Attributes) -> Resource | None:
        resource = hook.matching(attributes, self._equivalents)
        if resource is None or not hook.selects(attributes, self._namespace_of):
            return None
        if attributes.obj is not None:
            new_fields.expand(attributes.obj)
        if hook.conditions:
            try:
                if not conditions_hold(hook.conditions, attributes, resource, self._decide):
                    return None
            except ConditionsFailed as error:
                if hook.ignore_failure:
                    return None
                raise refusal(attributes, str(error)) from error
        return resource

    async def _mutate_by(self, hook: Hook, attributes: Attributes, resource: Resource) -> Obj | None:
        """The changed object, or None if the hook did not change it."""
        said = await self._ask(hook, attributes, resource, mutating=True)
        if not said.patch:
            return None
        try:
            operations, _ = json_text.loads(said.patch)
        except json_text.JsonFault as error:
            raise CallFailed(f"received undecodable patch in webhook response: {error}") from error
        if not operations:
            return None
        if attributes.obj is None:
            raise internal_error(
                f'admission webhook "{hook.name}" attempted to modify the object, which is not supported for this '
                "operation"
            )
        if said.patch_type != "JSONPatch":
            raise CallFailed(f'unsupported patch type "{said.patch_type}"')
        try:
            patched = json_patch.apply(attributes.obj, operations)
        except StatusError as error:
            raise internal_error(str(error.__cause__ or error)) from error
        if patched == attributes.obj:
            return None
        # Patches share what they leave alone, and defaulting writes in place.
        changed: Obj = msgspec.json.decode(msgspec.json.encode(patched))
        if attributes.kind is not None:
            return changed
        try:
            changed, _ = decoding.retype(attributes.resource, changed, "Ignore")
        except StatusError as error:
            raise internal_error(error.message) from error
        self._default(attributes.resource, changed)
        return changed

    async def _ask(self, hook: Hook, attributes: Attributes, resource: Resource, *, mutating: bool) -> Verdict:
        """The verdict of a hook that allows. Raises its refusal, or CallFailed where it could not be asked."""
        if attributes.dry_run and hook.side_effects not in ("None", "NoneOnDryRun"):
            raise bad_request(f'admission webhook "{hook.name}" does not support dry run')
        try:
            sent = review(attributes, resource, hook.versions)
        except InvalidReview as error:
            raise CallFailed(f"could not create admission objects: {error}") from error
        try:
            said = verdict(sent, await self._client.post(hook, sent.body), mutating=mutating)
        except InvalidReview as error:
            raise CallFailed(f"received invalid webhook response: {error}") from error
        except Unconvertible as error:
            raise CallFailed(f"failed to call webhook: {error}") from error
        attributes.warnings.extend(said.warnings)
        if not said.allowed:
            raise denied(hook.name, said.status)
        return said


async def _by_policy(hook: Hook, call: Awaitable[T]) -> T | None:
    """The hook's answer; None if the call failed and the hook's failure policy is Ignore."""
    try:
        return await call
    except CallFailed as error:
        if not hook.ignore_failure:
            raise internal_error(f'failed calling webhook "{hook.name}": {error}') from error
        log.warning("webhook failed, and its policy is to go on", extra={"webhook": hook.name, "error": str(error)})
        return None
