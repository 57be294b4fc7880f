"""Who may bind pods to nodes, while one scheduler takes over from another.

Only callers whose name contains one of the allowed names may. Everybody may where no names are set, in namespaces that
are excluded or not listed, and for pods that carry a bypass label or annotation, or that cannot be looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from koord.api import names
from koord.api.meta import ObjectMeta

ALL_NAMESPACES: Final = "*"


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

    def concerns(self, user: str, namespace: str) -> bool:
        """Whether a binding is one to look at more closely."""
        if not self.user_names or any(name in user for name in self.user_names):
            return False
        if namespace in self.excluded_namespaces:
            return False
        return ALL_NAMESPACES in self.namespaces or namespace in self.namespaces

    def bypassed(self, pod: ObjectMeta) -> bool:
        return any(key in pod.labels for key in self.bypass_labels) or any(
            key in pod.annotations for key in self.bypass_annotations
        )


def denial(settings: BindingSettings, user: str, namespace: str, pod: ObjectMeta | None) -> str:
    """Why a user may not bind a pod; empty where it may. A pod that nobody knows is let through."""
    if not settings.concerns(user, namespace) or pod is None or settings.bypassed(pod):
        return ""
    allowed = ", ".join(settings.user_names)
    return f"user {user!r} may not bind pods in namespace {namespace}: the name must contain one of {allowed}"


def listed(text: str) -> tuple[str, ...]:
    """The parts of a comma-separated option."""
    return tuple(part.strip() for part in text.split(",") if part.strip())
