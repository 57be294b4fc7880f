"""A story as a list, which can be kept in a file, played again and shortened."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

from koord.api.machinery.faults import BadInput
from koord_chaos.stories.actions import KINDS, Action, Change, Drop, Put, Rest, Restart

BY_NAME: Final = {kind.kind: kind for kind in KINDS}


@dataclass(frozen=True)
class Judgement:
    """The scheduler decides, unless it is slow, and everything is judged."""

    settles: bool = True


Line: TypeAlias = Action | Judgement


@dataclass(frozen=True)
class Story:
    """`seed`: of what goes wrong on the way, like bindings that come late."""

    seed: int
    checks_parents: bool
    lines: Sequence[Line]

    def shortened(self, lines: Sequence[Line]) -> Story:
        return replace(self, lines=lines)


def write(story: Story) -> str:
    """JSON with a line for each thing that happens."""
    lines = ",\n".join(f"  {json.dumps(_encoded(line))}" for line in story.lines)
    head = f'"seed": {story.seed}, "checksParents": {json.dumps(story.checks_parents)}'
    return f'{{{head}, "lines": [\n{lines}\n]}}\n'


def read(text: str, name: str) -> Story:
    """Raises BadInput if the text is not a story as `write` makes it."""
    try:
        document = json.loads(text)
        lines = [_decoded(line) for line in document["lines"]]
        return Story(int(document["seed"]), bool(document["checksParents"]), lines)
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{name}: not a story as koord chaos stories writes it: {error!r}") from None


def _encoded(line: Line) -> dict[str, Any]:
    match line:
        case Put(kind, manifest, lessens):
            return {"put": kind.kind, "manifest": manifest, "lessens": lessens}
        case Change(kind, key, body, subresource, lessens):
            return {"change": kind.kind, "key": key, "body": body, "subresource": subresource, "lessens": lessens}
        case Drop(kind, key, lessens):
            return {"drop": kind.kind, "key": key, "lessens": lessens}
        case Restart():
            return {"restart": True}
        case Rest():
            return {"rest": True}
        case Judgement(settles):
            return {"judge": True, "settles": settles}


def _decoded(line: Mapping[str, Any]) -> Line:
    if "put" in line:
        return Put(BY_NAME[line["put"]], line["manifest"], line["lessens"])
    if "change" in line:
        return Change(BY_NAME[line["change"]], line["key"], line["body"], line["subresource"], line["lessens"])
    if "drop" in line:
        return Drop(BY_NAME[line["drop"]], line["key"], line["lessens"])
    if "judge" in line:
        return Judgement(line["settles"])
    return Restart() if "restart" in line else Rest()
