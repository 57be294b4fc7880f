"""Which pods a plugin looks at: those that one of its selectors takes, or all."""

from __future__ import annotations

from collections.abc import Sequence

from koord.api.configuration.descheduler_args import PodSelector
from koord.api.kubernetes.pod import Pod
from koord.descheduler.evictable import matcher_of


def is_selected(pod: Pod, selectors: Sequence[PodSelector]) -> bool:
    return not selectors or any(matcher_of(each.selector).matches(pod.metadata.labels) for each in selectors)
