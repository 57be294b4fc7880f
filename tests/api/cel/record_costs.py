"""Asks a real server what rules cost: `python -m tests.api.cel.record_costs`; see `costs`."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

from tests.api.cel import costs
from tests.control_plane import ControlPlane
from tests.minicluster.apiserver.plain_client import PlainClient
from tests.minicluster.apiserver.record_access import CRDS, definition

PATH = Path(__file__).parent / "data" / "cel_costs.json"
LIMIT = 10_000_000
_FACTOR = re.compile(r"estimated rule cost exceeds budget by factor of (\S+?)x? \(|factor of (more than 100x)")


def factor_of(server: PlainClient, rule: str, length: int) -> str:
    """By how much a rule passes the limit, in the server's words; empty if it does not."""
    body = definition("costs.example.com", costs.under_list(rule, length), {})
    code, answer = server.post(f"{CRDS}?dryRun=All", body)
    if code == 201:
        return ""
    for cause in answer["details"]["causes"]:
        match = _FACTOR.search(cause["message"])
        assert match is not None, (rule, cause)
        return match[1] or match[2]
    raise AssertionError(answer)


def limit_of(server: PlainClient, rule: str) -> list[Any] | None:
    """The shortest list on whose items a rule passes the limit, and by how much; None if there is none."""
    low, high = 0, 1
    while not factor_of(server, rule, high):
        low, high = high, high * 2
        if high > LIMIT * 4:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if factor_of(server, rule, middle):
            high = middle
        else:
            low = middle
    return [high, factor_of(server, rule, high)]


def real_answers() -> dict[str, Any]:
    with ControlPlane() as plane:
        server = PlainClient(plane.url, plane.dir / "ca.crt", {"admin": "admin-token"})
        about = {"server": server.get("/version")[1]["gitVersion"], "recorded": dt.date.today().isoformat()}
        return {"about": about, "limits": {rule: limit_of(server, rule) for rule in costs.RULES}}


def written(answers: dict[str, Any]) -> str:
    """JSON with a rule a line."""
    rows = ",\n".join(f"  {json.dumps(rule)}: {json.dumps(limit)}" for rule, limit in answers["limits"].items())
    return f'{{"about": {json.dumps(answers["about"])}, "limits": {{\n{rows}\n}}}}\n'


if __name__ == "__main__":
    PATH.write_text(written(real_answers()))
