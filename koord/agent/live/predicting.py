"""Peak prediction, carried out: trained once a minute, kept in one small file for each model.

A file is written whole and moved into place: an agent that is killed leaves the old one or the new one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
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

    def load(self, pods: frozenset[str], at_s: float) -> None:
        """Reads the models of pods that are here, and removes what is of nobody."""
        self._directory.mkdir(parents=True, exist_ok=True)
        for file in sorted(self._directory.iterdir()):
            name = file.name.removesuffix(SUFFIX)
            if file.suffix != SUFFIX or name not in pods | SHARED | {checkpoint.MISSES}:
                self._remove(file)
                continue
            try:
                self._take(name, file.read_bytes(), at_s)
            except (CheckpointError, OSError) as error:
                log.warning("%s starts anew, its checkpoint %s cannot be used: %s", name, file, error)
                self._remove(file)

    def _take(self, name: str, data: bytes, at_s: float) -> None:
        if name == checkpoint.MISSES:
            self._predictor.misses = checkpoint.misses_in(data)
        else:
            self._predictor.models[name] = checkpoint.model_in(data, name, self._predictor.settings, at_s)

    def save(self, at_s: float) -> None:
        predictor = self._predictor
        for name in to_save(predictor.models, predictor.settings, at_s):
            model = predictor.models[name]
            self._write(name, checkpoint.of_model(name, model))
            model.saved_s = at_s
        self._write(checkpoint.MISSES, checkpoint.of_misses(predictor.misses))

    def drop(self, names: list[str]) -> None:
        for name in names:
            self._remove(self._file(name))

    def _file(self, name: str) -> Path:
        return self._directory / f"{name}{SUFFIX}"

    def _write(self, name: str, data: bytes) -> None:
        file = self._file(name)
        new = file.with_suffix(".new")
        new.write_bytes(data)
        os.replace(new, file)

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
    while (known := state()) is None:
        await clock.sleep(PODS_S)
    if not predictor.models:
        keeper.load(frozenset(known.pods), clock.now())
        predictor.look_ahead(known, clock.monotonic(), clock.now())
    while True:
        await clock.sleep(predictor.settings.train_every_s)
        known = state()
        if known is not None:
            keeper.drop(predictor.train(known, samples, clock.monotonic(), clock.now()))
            keeper.save(clock.now())
