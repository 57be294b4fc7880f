"""Who may bind pods to nodes, while one scheduler takes over from another.

Only callers whose name contains one of the allowed names may. Everybody may where no names are set, in namespaces that
are excluded or not listed, and for pods that carry a bypass label or annotation, or that cannot be looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from koord.api.kubernetes.meta import ObjectMeta
from koord.api.protocol import names

ALL_NAMESPACES: Final = "*"


class BindingDecision(StrEnum):
    """What was decided and why, in the words of the metric that counts it."""

    NOT_ASKED = ""
    "The rule applies to no pod, or the pod could not be read."
    USER = "allowed_username"
    EXCLUDED = "excluded_ns"
    ELSEWHERE = "out_of_scope"
    LABEL = "bypass_label"
    ANNOTATION = "bypass_annotation"
    REHEARSED = "dry_run"
    "It would have been denied."
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class BindingSettings:
    user_names: tuple[str, ...] = ()
    "Parts of user names; none: everybody may bind."
    namespaces: tuple[str, ...] = ()
    "Where it holds; `*` is everywhere."
    excluded_namespaces: tuple[str, ...] = (names.NAMESPACE_KUBE_SYSTEM,)
    bypass_labels: tuple[str, ...] = (names.LABEL_BINDING_ADMISSION_BYPASS,)
    bypass_annotations: tuple[str, ...] = ()
    dry_run: bool = False
    "Let everybody bind, and only tell."

    def early(self, user: str, namespace: str) -> BindingDecision | None:
        """The decision, where the pod need not be looked at."""
        if not self.user_names:
            return BindingDecision.NOT_ASKED
        if any(name in user for name in self.user_names):
            return BindingDecision.USER
        if namespace in self.excluded_namespaces:
            return BindingDecision.EXCLUDED
        if not self.namespaces:
            return BindingDecision.NOT_ASKED
        if ALL_NAMESPACES not in self.namespaces and namespace not in self.namespaces:
            return BindingDecision.ELSEWHERE
        return None

    def decide(self, user: str, namespace: str, pod: ObjectMeta | None) -> BindingDecision:
        """Whether a user may bind a pod. An unknown pod is let through."""
        early = self.early(user, namespace)
        if early is not None:
            return early
        if pod is None:
            return BindingDecision.NOT_ASKED
        if any(key in pod.labels for key in self.bypass_labels):
            return BindingDecision.LABEL
        if any(key in pod.annotations for key in self.bypass_annotations):
            return BindingDecision.ANNOTATION
        return BindingDecision.REHEARSED if self.dry_run else BindingDecision.DENIED

    def denial(self, user: str, namespace: str) -> str:
        """What to tell someone who may not."""
        allowed = ", ".join(self.user_names)
        return f"user {user!r} may not bind pods in namespace {namespace}: the name must contain one of {allowed}"


def listed(text: str) -> tuple[str, ...]:
    """The parts of a comma-separated option."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
