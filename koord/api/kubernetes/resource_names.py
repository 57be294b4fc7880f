"""Names of resources: whose they are, and whether more of them may be promised than there is.

A name without a prefix is one of Kubernetes' own; one with a prefix is an extended resource.
"""

from __future__ import annotations

from typing import Final

HUGE_PAGES: Final = "hugepages-"
"""How the names of all huge pages begin; what follows is the size of a page."""


def is_huge_pages(name: str) -> bool:
    return name.startswith(HUGE_PAGES)


def is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def may_overcommit(name: str) -> bool:
    return is_native(name) and not is_huge_pages(name)
