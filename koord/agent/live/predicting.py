"""Peak prediction, carried out: trained once a minute, kept in one small file for each model.

A file is written whole and moved into place: an agent that is killed leaves the old one or the new one. Where files
cannot be written, predictions go on without: they start again with the next agent.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from koord.agent.predict import checkpoint
from koord.agent.predict.checkpoint import CheckpointError
from koord.agent.predict.forecast import Predictor
from koord.agent.predict.model import SHARED
from koord.agent.predict.training import to_save
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from koord.kube.clock import Clock

log = logging.getLogger(__name__)

DIRECTORY: Final = "predictions"
SUFFIX: Final = ".json"
PODS_S: Final = 1.0
"""How often it is asked whether the node's pods are known yet."""


class Keeper:
    """The files of one predictor."""

    def __init__(self, directory: Path, predictor: Predictor) -> None:
        self._directory, self._predictor = directory, predictor
        self._trouble = ""
        "Why a file could not be written, in the last log message."

    def load(self, pods: frozenset[str], now_s: float) -> None:
        """Reads the models of pods on this node, and removes all others. `now_s` is in the time of samples."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            files = sorted(self._directory.iterdir())
        except OSError as error:
            log.warning("all predictions start again, checkpoints in %s cannot be read: %s", self._directory, error)
            return
        for file in files:
            name = file.name.removesuffix(SUFFIX)
            if file.suffix != SUFFIX or name not in pods | SHARED | {checkpoint.MISSES}:
                self._remove(file)
                continue
            try:
                self._take(name, file.read_bytes(), now_s)
            except (CheckpointError, OSError) as error:
                log.warning("%s starts again, its checkpoint %s cannot be used: %s", name, file, error)
                self._remove(file)

    def _take(self, name: str, data: bytes, now_s: float) -> None:
        if name == checkpoint.MISSES:
            self._predictor.misses = checkpoint.misses_in(data)
        else:
            self._predictor.models[name] = checkpoint.model_in(data, name, self._predictor.settings, now_s)

    def save(self, now_s: float) -> None:
        predictor = self._predictor
        faults = []
        for name in to_save(predictor.models, predictor.settings, now_s):
            model = predictor.models[name]
            faults.append(self._write(name, checkpoint.of_model(name, model)))
            # Also one that could not be written waits its turn: it must not keep the others from theirs.
            model.saved_s = now_s
        faults.append(self._write(checkpoint.MISSES, checkpoint.of_misses(predictor.misses)))
        self._tell(next(filter(None, faults), ""))

    def _tell(self, fault: str) -> None:
        if fault and not self._trouble:
            log.warning("%s; predictions go on, but what is not written is lost when this agent ends", fault)
        elif self._trouble and not fault:
            log.info("checkpoints of predictions are written again to %s", self._directory)
        self._trouble = fault

    def drop(self, names: list[str]) -> None:
        for name in names:
            self._remove(self._file(name))

    def _file(self, name: str) -> Path:
        return self._directory / f"{name}{SUFFIX}"

    def _write(self, name: str, data: bytes) -> str:
        """Says what went wrong; empty if nothing did."""
        file = self._file(name)
        new = file.with_suffix(".new")
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            new.write_bytes(data)
            os.replace(new, file)
        except OSError as error:
            with suppress(OSError):
                new.unlink(missing_ok=True)
            return f"checkpoint {file} cannot be written: {error}"
        return ""

    def _remove(self, file: Path) -> None:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s stays, although it is of no pod of this node: %s", file, error)


async def predicting(
    predictor: Predictor,
    directory: Path,
    samples: Samples,
    state: Callable[[], NodeState | None],
    clock: Clock,
) -> None:
    """Until it is cancelled. `state` is None while the node's pods are not known: their models would look forgotten."""
    keeper = Keeper(directory / DIRECTORY, predictor)
    while (node_state := state()) is None:
        await clock.sleep(PODS_S)
    if not predictor.models:
        keeper.load(frozenset(node_state.pods), clock.monotonic())
        predictor.look_ahead(node_state, clock.monotonic(), clock.now())
    while True:
        await clock.sleep(predictor.settings.train_every_s)
        node_state = state()
        if node_state is not None:
            now_s = clock.monotonic()
            keeper.drop(predictor.train(node_state, samples, now_s, clock.now()))
            keeper.save(now_s)
