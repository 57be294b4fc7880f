"""The name under which the manager writes: API servers keep it beside every field, and readers find it there."""

from __future__ import annotations

from typing import Final

FIELD_MANAGER: Final = "koord-manager"
