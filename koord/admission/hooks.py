"""Which webhooks are on, and which of them are registered with API servers. Each resource lists its own hooks."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

from koord.admission.hook import WAITS_S, Hook
from koord.admission.pods import MUTATE_POD
from koord.admission.profiles import CompiledProfile
from koord.admission.request import Gates
from koord.admission.resources import RESOURCES
from koord.api.configuration.features import ManagerGate
from koord.api.protocol import names
from koord.api.text.selector import LabelSelector, selector_faults

LONGEST_NAME: Final = 253


def hooks(gates: Gates, namespace: str = names.NAMESPACE_KOORDINATOR) -> Iterator[Hook]:
    """The webhooks that are on. `namespace` is the one that koord runs in."""
    if gates[ManagerGate.WEBHOOK_FRAMEWORK]:
        for resource in RESOURCES:
            yield from (hook for hook in resource.hooks(namespace) if gates[hook.gate])


def registered(
    gates: Gates, namespace: str = names.NAMESPACE_KOORDINATOR, profiles: Iterable[CompiledProfile] = ()
) -> Iterator[Hook]:
    """The webhooks that are registered with API servers, with an entry for each profile."""
    for hook in hooks(gates, namespace):
        if hook.asked_with is not None and not gates[hook.asked_with]:
            continue
        if hook.per_profile:
            yield from (_of_profile(hook, profile) for profile in profiles if _is_registrable(profile))
        yield hook


def _is_registrable(profile: CompiledProfile) -> bool:
    """API servers accept all entries or none. An invalid selector gets no entry, although its profile counts as
    matching: the author cannot have wanted all pods to wait for it. Invalid labels match no pod."""
    selectors = (profile.spec.selector, profile.spec.namespace_selector)
    return not any(selector_faults(selector) for selector in selectors if selector is not None)


def _name_of(profile: CompiledProfile) -> str:
    name = f"{profile.name}.{MUTATE_POD}"
    if len(name) <= LONGEST_NAME:
        return name
    digest = hashlib.sha256(profile.name.encode()).hexdigest()[:16]
    return f"{profile.name[: LONGEST_NAME - len(MUTATE_POD) - 18].rstrip('-.')}-{digest}.{MUTATE_POD}"


def _of_profile(hook: Hook, profile: CompiledProfile) -> Hook:
    """The entry for pods that a profile matches and that do not use koord. Pods that use koord wait anyway."""
    return replace(
        hook,
        name=_name_of(profile),
        fails_closed=True,
        timeout_s=WAITS_S,
        namespace_selector=(*hook.namespace_selector, *_expressions(profile.spec.namespace_selector)),
        object_selector=_expressions(profile.spec.selector),
    )


def _expressions(selector: LabelSelector | None) -> tuple[dict[str, Any], ...]:
    if selector is None:
        return ()
    equal = [{"key": key, "operator": "In", "values": [value]} for key, value in sorted(selector.match_labels.items())]
    others = [
        {
            "key": expression.key,
            "operator": str(expression.operator),
            **({"values": list(expression.values)} if expression.values else {}),
        }
        for expression in selector.match_expressions
    ]
    return (*equal, *others)
