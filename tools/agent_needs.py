"""docs/what-the-agent-needs.md, from the agent's own table of features.

`python -m tools.agent_needs docs/what-the-agent-needs.md` writes it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from koord.agent.host.features import TABLE, KernelFeature
from koord.agent.host.knobs import Knob

_PAGE: Final = """\
# What the agent needs from the kernel

The agent works on every kernel that kubelet works on, with cgroup v1 or v2. Where a kernel lacks a
feature, the agent uses a fallback or leaves the setting out. This command lists the features of the
machine it runs on, and the fallbacks in use:

    koord agent --features

A version is that of the mainline kernel that first had the feature. Anolis stands for kernels with
Alibaba's additions (Anolis OS, Alibaba Cloud Linux). Distributions choose what they build in, so
the agent probes the kernel instead of comparing versions.

| feature | kernels | what is used (cgroup v1 / v2) | without it |
| --- | --- | --- | --- |
{rows}

[What the agent does to a node](what-the-agent-does-to-a-node.md) lists what the agent writes with
these features, and how to undo it.
"""


def page() -> str:
    return _PAGE.format(rows="\n".join(map(_row, TABLE)))


def _row(feature: KernelFeature) -> str:
    cells = (feature.name, feature.since, f"{feature.own}{_files(feature)}", feature.instead)
    return "| " + " | ".join(cells).replace("*", "\\*") + " |"


def _files(feature: KernelFeature) -> str:
    """Where both cgroup versions call it alike, the name is said once, and not at all if the text has it."""
    if not isinstance(feature.asked, Knob):
        return ""
    names = [place.file if place is not None else "none" for place in (feature.asked.v1, feature.asked.v2)]
    if names[0] == names[1]:
        return "" if names[0] in feature.own else f": `{names[0]}`"
    return ": " + " / ".join(f"`{name}`" if name != "none" else name for name in names)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page())
