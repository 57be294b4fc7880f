"""Checkpoints of a run: its state as bytes, and back.

A checkpoint is an archive of arrays with a description, never code, so an untrusted one is safe to read. It
belongs to one scenario, its traces, manifests, policies and seed: `digest` says which. It holds the world and what
policies remember; the scheduler starts again after it, as it does at the same moment of every run.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from collections import deque
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from koord.api.machinery.faults import BadInput
from koord.api.text.manifest import Manifests
from koord.sim.cluster import Cluster
from koord.sim.latency import LatencyModel
from koord.sim.policies.policy import Policy
from koord.sim.publishing import Change, Figures, Report
from koord.sim.recording import PoolSums
from koord.sim.scenario import Scenario

if TYPE_CHECKING:
    from koord.sim.stage import Stage

FORMAT: Final = "koord.sim.checkpoint/v1"
_TREE: Final = "state.json"
_WHEN: Final = (1980, 1, 1, 0, 0, 0)
"""The time of all entries: equal states are equal bytes."""
_TYPES: Final = {type_.__name__: type_ for type_ in (Report, Change, Figures, PoolSums)}
"""What lists and maps of the world hold."""


class CheckpointError(BadInput):
    """A checkpoint that cannot be used."""


def digest(
    scenario: Scenario,
    cluster: Cluster,
    policies: Mapping[str, Policy[Any]],
    seed: int,
    latency: LatencyModel | None,
    manifests: Manifests | None,
) -> str:
    """Of everything that decides about a run."""
    made = hashlib.blake2b(digest_size=16)
    made.update(msgspec.json.encode(scenario))
    made.update(msgspec.json.encode(latency))
    if manifests is not None:
        objects = [item.data for item in manifests.items], [data for _, data in manifests.configurations]
        made.update(json.dumps(objects, sort_keys=True, default=str).encode())
    chosen = {pool: policy.name for pool, policy in sorted(policies.items())}
    made.update(json.dumps([seed, chosen]).encode())
    parts = (cluster.nodes, cluster.services, cluster.tasks)
    for part in parts:
        for field in fields(part):
            value = getattr(part, field.name)
            made.update(
                np.ascontiguousarray(value).tobytes() if isinstance(value, np.ndarray) else repr(value).encode()
            )
    made.update(cluster.service_node.tobytes())
    made.update(repr(sorted(cluster.gpus.items())).encode())
    return made.hexdigest()


def snapshot(stage: Stage, digest: str) -> bytes:
    arrays: list[np.ndarray[Any, Any]] = []
    state = {
        "format": FORMAT,
        "digest": digest,
        "world": _packed(stage.world, arrays),
        "policies": {lender.pool: _packed(lender.memory, arrays) for lender in stage.lenders},
    }
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(zipfile.ZipInfo(_TREE, _WHEN), json.dumps(state).encode())
        for number, array in enumerate(arrays):
            text = io.BytesIO()
            np.save(text, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{number}.npy", _WHEN), text.getvalue())
    return target.getvalue()


def restore(data: bytes, stage: Stage, digest: str) -> None:
    """Put a new run in the state of a checkpoint."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            state = json.loads(archive.read(_TREE))
            if not isinstance(state, dict) or state.get("format") != FORMAT:
                raise CheckpointError(f"the checkpoint is not of the format {FORMAT}")
            if state["digest"] != digest:
                raise CheckpointError(
                    "the checkpoint is of another run: scenario, traces, manifests, policies or seed differ;"
                    " run without it"
                )
            count = len(archive.namelist()) - 1
            arrays = [np.load(io.BytesIO(archive.read(f"{number}.npy")), allow_pickle=False) for number in range(count)]
        world = _filled(stage.world, state["world"], arrays)
        memories = {
            lender.pool: _filled(lender.memory, state["policies"][lender.pool], arrays) for lender in stage.lenders
        }
    except (zipfile.BadZipFile, KeyError, IndexError, ValueError, TypeError, EOFError, OSError) as error:
        if isinstance(error, CheckpointError):
            raise
        raise CheckpointError(f"the checkpoint is damaged ({type(error).__name__}: {error}); run without it") from error
    stage.world = world
    for lender in stage.lenders:
        lender.memory = memories[lender.pool]


def _packed(value: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    """As JSON, with arrays put aside. Infinity and NaN are JSON here, since only this module reads it."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if is_dataclass(value):
        # What is not given to a dataclass follows from its other fields.
        content = {field.name: _packed(getattr(value, field.name), arrays) for field in fields(value) if field.init}
        return {"type": type(value).__name__, "fields": content}
    if isinstance(value, Mapping):
        return {"map": [[key, _packed(item, arrays)] for key, item in value.items()]}
    if isinstance(value, deque | list):
        return {"list": [_packed(item, arrays) for item in value]}
    if isinstance(value, tuple):
        return {"tuple": [_packed(item, arrays) for item in value]}
    if isinstance(value, msgspec.Struct):
        # A setting, which the scenario says and no minute changes.
        return {"setting": type(value).__name__}
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a {type(value).__name__} cannot be kept in a checkpoint")


def _filled(like: Any, packed: Any, arrays: list[np.ndarray[Any, Any]]) -> Any:
    """What was packed, of the type of `like`."""
    if not isinstance(packed, dict):
        return packed
    if "setting" in packed:
        return like
    if "array" in packed:
        return arrays[packed["array"]]
    if "fields" in packed:
        if not is_dataclass(like):
            made = _TYPES[packed["type"]]
            return made(**{name: _filled(None, item, arrays) for name, item in packed["fields"].items()})
        if packed["type"] != type(like).__name__:
            raise CheckpointError(f"the checkpoint has a {packed['type']} in place of a {type(like).__name__}")
        values = {name: _filled(getattr(like, name), item, arrays) for name, item in packed["fields"].items()}
        return replace(like, **values)  # type: ignore[type-var]
    if "map" in packed:
        given = like if isinstance(like, Mapping) else {}
        return {key: _filled(given.get(key), item, arrays) for key, item in packed["map"]}
    if "list" in packed:
        items = [_filled(None, item, arrays) for item in packed["list"]]
        return deque(items) if isinstance(like, deque) else items
    return tuple(_filled(None, item, arrays) for item in packed["tuple"])
