"""The moments at which hook servers are asked, by the names that their files give."""

from __future__ import annotations

from enum import StrEnum


class Stage(StrEnum):
    PRE_RUN_POD_SANDBOX = "PreRunPodSandbox"
    POST_STOP_POD_SANDBOX = "PostStopPodSandbox"
    PRE_CREATE_CONTAINER = "PreCreateContainer"
    PRE_START_CONTAINER = "PreStartContainer"
    POST_START_CONTAINER = "PostStartContainer"
    POST_STOP_CONTAINER = "PostStopContainer"
    PRE_UPDATE_CONTAINER_RESOURCES = "PreUpdateContainerResources"

    @property
    def is_of_sandbox(self) -> bool:
        return "Sandbox" in self

    @property
    def is_before(self) -> bool:
        """Whether the answer can still change what the runtime is asked for."""
        return self.startswith("Pre")

    @property
    def method(self) -> str:
        """Of the RuntimeHookService."""
        return f"{self}Hook"
