"""Plugins that koord does not come with: `module:Class` or `file.py:Class`, and a weight: `quiet.py:QuietNodes=5`.

They take part in every profile, after koord's own filters and beside its scores. A file is code: it is run.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from koord.api.machinery.faults import BadInput
from koord.scheduler import registry
from koord.scheduler.framework.plugin import Plugin

P = TypeVar("P")


class PluginError(BadInput):
    """A plugin that cannot be loaded."""


@dataclass(frozen=True, slots=True)
class OwnPlugin:
    kind: type[Plugin]
    weight: int = 1

    def make(self) -> Plugin:
        """A new one: every profile has its own."""
        return self.kind()


def load(text: str) -> OwnPlugin:
    """The plugin that a command line names."""
    plugin, equals, number = text.rpartition("=") if "=" in text.rpartition(":")[2] else (text, "", "")
    if equals and not (number.isascii() and number.isdigit() and len(number) < 6):
        raise PluginError(f"{text}: the weight must be a number from 0 to 99999")
    kind = named_class(plugin, Plugin, "module:Class or file.py:Class, and =WEIGHT if need be")
    if registry.is_built(kind.name):
        raise PluginError(f"{text}: koord has a plugin {kind.name} already; another name is needed")
    return OwnPlugin(kind, int(number) if equals else 1)


def named_class(text: str, base: type[P], form: str = "module:Class or file.py:Class") -> type[P]:
    """The class of plugins that `text` names, in its module or file."""
    where, colon, class_name = text.rpartition(":")
    if not colon or not where or not class_name:
        raise PluginError(f"{text!r} is not a plugin; it must be {form}")
    kind = getattr(_module(where, text), class_name, None)
    if not isinstance(kind, type) or not issubclass(kind, base):
        raise PluginError(f"{text}: {where} has no Plugin of the name {class_name}")
    if not getattr(kind, "name", ""):
        raise PluginError(f"{text}: the plugin must have a name")
    return kind


def _module(where: str, text: str) -> ModuleType:
    try:
        if not where.endswith(".py"):
            return import_module(where)
        path = Path(where)
        spec = spec_from_file_location(path.stem, path)
        # So it is for every name that ends like this.
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        sys.modules.setdefault(path.stem, module)
        spec.loader.exec_module(module)
    except (ImportError, OSError, SyntaxError) as error:
        raise PluginError(f"{text}: it cannot be loaded: {error}") from None
    return module
