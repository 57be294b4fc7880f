"""Learning about lending, carried out: once a minute, kept in one small file that is replaced as a whole.

An agent that is killed leaves the old file or the new one. Where the file cannot be written, learning goes on without:
it starts again with the next agent.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from koord.agent.lending import checkpoint
from koord.agent.lending.checkpoint import CheckpointError
from koord.agent.lending.learner import Learner
from koord.agent.lending.minute import MINUTE_S
from koord.agent.lending.peers import checkpoint as peer_checkpoint
from koord.agent.series.samples import Samples
from koord.agent.state import NodeState
from koord.kube.clock import Clock

log = logging.getLogger(__name__)

FILE: Final = "lending.json"
PEER_FILE: Final = "lending-policy.json"


class LendingFile:
    """The checkpoint of one learner."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / FILE
        self._peer_file = directory / PEER_FILE
        self._trouble = ""
        "Why the file could not be written, in the last log message."

    def load(self, learner: Learner) -> None:
        try:
            learner.memory = checkpoint.memory_in(self._file.read_bytes())
        except FileNotFoundError:
            pass
        except (CheckpointError, OSError) as error:
            log.warning("learning about lending starts again, %s cannot be used: %s", self._file, error)
        try:
            learner.peer = peer_checkpoint.learned_in(self._peer_file.read_bytes())
        except FileNotFoundError:
            pass
        except (CheckpointError, OSError) as error:
            log.warning("the lending policy's history starts again, %s cannot be used: %s", self._peer_file, error)

    def save(self, learner: Learner) -> None:
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            _replace(self._file, checkpoint.of_memory(learner.memory))
            if learner.peer is None:
                self._peer_file.unlink(missing_ok=True)
            else:
                _replace(self._peer_file, peer_checkpoint.of_learned(learner.peer))
        except OSError as error:
            self._tell(f"{self._file} cannot be written: {error}")
            return
        self._tell("")

    def _tell(self, fault: str) -> None:
        if fault and not self._trouble:
            log.warning("%s; learning about lending goes on, but is lost when this agent ends", fault)
        elif self._trouble and not fault:
            log.info("%s is written again", self._file)
        self._trouble = fault


def _replace(file: Path, content: bytes) -> None:
    new = file.with_suffix(".new")
    try:
        new.write_bytes(content)
        os.replace(new, file)
    except OSError:
        with suppress(OSError):
            new.unlink(missing_ok=True)
        raise


async def learning(
    learner: Learner, directory: Path, samples: Samples, state: Callable[[], NodeState | None], clock: Clock
) -> None:
    """Until it is cancelled."""
    file = LendingFile(directory)
    if not learner.memory.minutes:
        file.load(learner)
    while True:
        await clock.sleep(MINUTE_S)
        present = state()
        if present is not None and learner.learn(present, samples, clock.monotonic(), clock.now()):
            file.save(learner)
