"""What a pod without a measurement is taken to use: what the scheduler estimates for new pods, by its defaults."""

from __future__ import annotations

from typing import Final

from koord.api.configuration.scheduler_args import LoadAwareSchedulingArgs
from koord.api.kubernetes.pod import Pod
from koord.scheduler.framework.ask import Ask
from koord.scheduler.plugins.load_basis import load_basis_of
from koord.scheduler.plugins.load_estimate import estimate_of

_FACTORS: Final = LoadAwareSchedulingArgs().completed().estimated_scaling_factors


def estimated(pod: Pod) -> dict[str, int]:
    basis = load_basis_of(pod, Ask(pod).template)
    return {name: estimate_of(basis, name, factor) for name, factor in _FACTORS.items()}
