"""Plugins of the descheduler that koord does not come with: `module:Class` or `file.py:Class`. They take part in every
profile. A file is code: it is run."""

from __future__ import annotations

from koord.descheduler.plugin import Plugin
from koord.descheduler.registry import PLUGINS
from koord.scheduler.own_plugins import PluginError, named_class


def load(text: str) -> type[Plugin]:
    """The plugin that a command line names."""
    kind = named_class(text, Plugin)
    if kind.name in PLUGINS:
        raise PluginError(f"{text}: koord has a plugin {kind.name} already; another name is needed")
    if kind.propose is None and kind.keeps is None and kind.rank is None:
        raise PluginError(f"{text}: the plugin must have propose, keeps or rank")
    return kind
