"""The hooks, in the order in which they are asked; of two that disagree on a file, the later one counts."""

from __future__ import annotations

from typing import Final

from koord.agent.hooks import batch_resource, cpu_normalization, cpu_set, group_identity
from koord.agent.hooks.hook import Hook

HOOKS: Final[tuple[Hook, ...]] = (
    group_identity.HOOK,
    batch_resource.HOOK,
    cpu_normalization.HOOK,
    cpu_set.HOOK,
)
