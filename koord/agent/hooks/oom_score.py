"""Whom the kernel's out-of-memory killer takes first, where a pod says so: of its containers' processes."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from koord.agent.host.cgroups import Cgroups
from koord.agent.state import NodeState
from koord.api.protocol.annotations.pod_qos import oom_score_adj
from koord.api.protocol.annotations.value import AnnotationError

log = logging.getLogger(__name__)


def wanted(state: NodeState) -> Iterator[tuple[str, int]]:
    """Directories of containers, and the score that their processes shall have."""
    for pod in state.pods.values():
        if not pod.is_present:
            continue
        for container in pod.containers:
            if not container.directory:
                continue
            try:
                score = oom_score_adj(pod.meta, container.name)
            except AnnotationError:
                continue
            if score is not None:
                yield container.directory, score


def apply(state: NodeState, cgroups: Cgroups) -> int:
    """How many processes were changed. One that ends meanwhile needs no score; one that refuses it keeps its own."""
    changed = 0
    for directory, score in wanted(state):
        try:
            processes = cgroups.processes(directory)
        except FileNotFoundError:
            continue
        for pid in processes:
            file = f"proc/{pid}/oom_score_adj"
            try:
                if int(cgroups.files.once(file)) != score:
                    cgroups.files.write(file, str(score))
                    changed += 1
            except (FileNotFoundError, ProcessLookupError):
                continue
            except OSError as error:
                log.warning("the oom score of process %s in %s stays: %s", pid, directory, error.strerror)
    return changed
