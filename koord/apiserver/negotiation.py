"""In which form an answer is wanted: plain objects, a table for people, or metadata alone; as JSON or YAML.

Read from the Accept header as kubectl and client-go send it. Protobuf is not spoken: a client that also takes JSON
gets JSON, one that does not gets 406.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from koord.apiserver.status import StatusError

Shape = Literal["object", "table", "partial"]

SERVED_TYPES = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")
_STREAMS = ("application/json;stream=watch", "application/vnd.kubernetes.protobuf;stream=watch")


@dataclass(frozen=True, slots=True)
class Form:
    """The form of an answer. `meta_version` is the version of the Table or PartialObjectMetadata kinds."""

    shape: Shape = "object"
    yaml: bool = False
    meta_version: str = "v1"

    @property
    def content_type(self) -> str:
        # Without the shape: that is in the body, and the real server names the encoding alone.
        return "application/yaml" if self.yaml else "application/json"


@lru_cache(maxsize=256)
def negotiate(accept: str, *, pretty: bool = False) -> Form:
    """The first form in the header that can be given."""
    for _, kind, parameters in sorted(_ranges(accept), key=lambda each: -each[0]):
        if kind in ("*/*", "application/*", "application/json"):
            yaml = False
        elif kind in ("application/yaml", "text/yaml"):
            yaml = True
        else:
            continue
        wanted = parameters.get("as", "")
        if not wanted:
            return Form("object", yaml)
        if parameters.get("g", "meta.k8s.io") != "meta.k8s.io" or parameters.get("v") not in ("v1", "v1beta1"):
            continue
        if wanted == "Table":
            return Form("table", yaml, parameters["v"])
        if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
            return Form("partial", yaml, parameters["v"])
    listed = ", ".join(SERVED_TYPES)
    raise StatusError(406, "NotAcceptable", f"only the following media types are accepted: {listed}", details=False)


def _ranges(accept: str) -> list[tuple[float, str, dict[str, str]]]:
    ranges = []
    for part in (accept or "*/*").split(","):
        kind, *rest = (piece.strip() for piece in part.split(";"))
        parameters = dict(piece.split("=", 1) for piece in rest if "=" in piece)
        try:
            quality = float(parameters.pop("q", "1"))
        except ValueError:
            quality = 0.0
        ranges.append((quality, kind.lower(), parameters))
    return ranges
