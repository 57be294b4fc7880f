"""Which ClusterColocationProfiles a new object gets: those whose selectors match, by name, each by its chance.

Profiles are compiled once and asked for every pod. An invalid selector counts as matching, and so does an
unknown namespace, as users of the protocol expect; the answer then has a warning. Chance is derived from the object's
name, or from the request's uid if it has no name yet: the same request gets the same answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from koord.admission.request import FAILED, Request, refused
from koord.api.protocol import names
from koord.api.protocol.crd.colocation_profile import ClusterColocationProfile, ClusterColocationProfileSpec
from koord.api.text.selector import EVERYTHING, LabelMatcher, LabelSelector, SelectorError, compile_labels, match_labels
from koord.api.text.whole_number import whole_number

ALWAYS: Final = 100


@dataclass(frozen=True, slots=True)
class CompiledProfile:
    """A profile, ready to be asked."""

    name: str
    spec: ClusterColocationProfileSpec
    namespaces: LabelMatcher
    pods: LabelMatcher
    percent: int | None
    "Chance of an object that matches; None where the profile's own makes no sense."
    keeps_resources: bool
    faults: tuple[str, ...] = ()
    "Selectors that make no sense, and count as matching."

    def matches(self, labels: Mapping[str, str], namespace: Mapping[str, str] | None) -> bool:
        """Whether an object with these labels gets it. `namespace`: the labels of its namespace; None if unknown."""
        if self.namespaces.requirements and namespace is not None and not self.namespaces.matches(namespace):
            return False
        return self.pods.matches(labels)

    def drawn(self, key: str, seed: int) -> bool:
        """Whether chance selects this profile for an object. `key` identifies the object."""
        if self.percent is None:
            written = self.spec.probability
            raise refused(
                f"ClusterColocationProfile {self.name} spec.probability",
                f"must be a percentage like 30 or '30%', not {written!r}",
                FAILED,
            )
        if self.percent >= ALWAYS:
            return True
        digest = hashlib.blake2b(f"{seed}\x1f{self.name}\x1f{key}".encode(), digest_size=7).digest()
        return int.from_bytes(digest, "big") % 100 < self.percent


def compile_profiles(profiles: Iterable[ClusterColocationProfile]) -> tuple[CompiledProfile, ...]:
    """In the order in which they are applied."""
    return tuple(sorted(map(_compiled, profiles), key=lambda profile: profile.name))


def drawn(matched: Iterable[CompiledProfile], request: Request, seed: int) -> list[CompiledProfile]:
    """The profiles of these that chance selects for an object."""
    key = _chance_key(request)
    return [profile for profile in matched if profile.drawn(key, seed)]


def _chance_key(request: Request) -> str:
    """The text that the chance of an object is derived from."""
    metadata = (request.object or {}).get("metadata") or {}
    name = metadata.get("name") or request.name
    return f"{request.namespace or metadata.get('namespace') or ''}/{name}" if name else request.uid


def _compiled(profile: ClusterColocationProfile) -> CompiledProfile:
    spec = profile.spec
    namespaces, of_namespaces = _matcher(profile, spec.namespace_selector, "namespaceSelector")
    pods, of_pods = _matcher(profile, spec.selector, "selector")
    return CompiledProfile(
        name=profile.metadata.name,
        spec=spec,
        namespaces=namespaces,
        pods=pods,
        percent=_percent(spec.probability),
        keeps_resources=names.ANNOTATION_SKIP_UPDATE_RESOURCES in profile.metadata.annotations,
        faults=(*of_namespaces, *of_pods),
    )


def _matcher(
    profile: ClusterColocationProfile, selector: LabelSelector | None, field: str
) -> tuple[LabelMatcher, tuple[str, ...]]:
    if selector is not None and selector.match_labels and not selector.match_expressions:
        return match_labels(selector.match_labels), ()
    try:
        return compile_labels(selector, absent=EVERYTHING), ()
    except SelectorError as error:
        who = f"ClusterColocationProfile {profile.metadata.name} spec.{field}"
        return EVERYTHING, (f"{who} makes no sense, and counts as matching everything: {error}",)


def _percent(written: int | str | None) -> int | None:
    if written is None:
        return ALWAYS
    if isinstance(written, int):
        return written
    digits = written.removesuffix("%")
    is_number = digits != written and digits.removeprefix("-").isdecimal() and digits.isascii()
    return whole_number(digits) if is_number else None
