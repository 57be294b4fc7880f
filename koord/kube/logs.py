"""Logs: one line an event, with fields, for people (text) or machines (JSON). Called once, when a process starts.

    log.info("placed", extra={"pod": "shop/web", "node": "n1"})
    2026-11-01T12:00:00.123Z INFO  koord.scheduler: placed pod=shop/web node=n1

$KOORD_LOG overrides the level: `debug`, or `info,koord.kube=debug` for parts. Tokens never appear: fields whose name
says that they hold a secret, and whatever looks like a token in a message, are replaced.
"""

from __future__ import annotations

import logging
import os
import re
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final, Literal, TextIO

import msgspec

Format = Literal["text", "json"]

LEVELS: Final[Mapping[str, int]] = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

REDACTED: Final = "<redacted>"
_SECRET_FIELD: Final = re.compile(r"token|password|passwd|secret|authorization|credential|private_?key", re.IGNORECASE)
_SECRET_TEXT: Final = re.compile(
    r"\bbearer\s+[\w.~+/=-]{8,}"
    r"|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*"
    r"|\bauthorization['\"]?\s*[:=]\s*['\"]?(?:\w+\s+)?[^\s'\"]+"
    r"|(?:token|password|secret)['\"]?\s*[:=]\s*['\"]?[^\s&'\"]+",
    re.IGNORECASE,
)
_SECRET_HINT: Final = re.compile(r"eyJ|bear|auth|tok|pass|sec", re.IGNORECASE)
# What every record has anyway; the rest came by `extra`.
_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_COLOURS: Final[Mapping[int, str]] = {
    logging.DEBUG: "\x1b[2m",
    logging.INFO: "\x1b[32m",
    logging.WARNING: "\x1b[33m",
    logging.ERROR: "\x1b[31m",
    logging.CRITICAL: "\x1b[31;1m",
}
_DIM: Final = "\x1b[2m"
_PLAIN: Final = "\x1b[0m"
_BARE: Final = re.compile(r"[^\s\"=\x00-\x1f\x7f]+")


class _Handler(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's name
        """A line that the disk refuses is lost, quietly: a traceback about it would go to the screen of a view."""
        if not isinstance(sys.exception(), OSError):
            super().handleError(record)


def setup_logging(
    level: str = "info",
    format: Format = "text",
    *,
    stream: TextIO | None = None,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Sends all logs of the process to `stream` (standard error). $KOORD_LOG goes before `level`."""
    levels = parse_levels(environ.get("KOORD_LOG") or level)
    stream = stream or sys.stderr
    handler = _Handler(stream)
    if format == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(TextFormatter(colour=stream.isatty() and "NO_COLOR" not in environ))
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(levels.pop("", logging.INFO))
    for name, number in levels.items():
        logging.getLogger(name).setLevel(number)
    logging.captureWarnings(True)


def parse_levels(text: str) -> dict[str, int]:
    """`koord.kube=debug,info` as levels by logger; the one without a name is for all others."""
    levels: dict[str, int] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, level = part.rpartition("=")
        number = LEVELS.get(level.strip().lower())
        if number is None or (equals and not name.strip()):
            raise ValueError(f"log level {part!r}: must be one of {', '.join(LEVELS)}, or LOGGER=LEVEL")
        levels[name.strip()] = number
    return levels


def redact(text: str) -> str:
    """`text` without what looks like a token."""
    # The full search costs more than the rest of a line, and secrets are rare.
    return _SECRET_TEXT.sub(REDACTED, text) if _SECRET_HINT.search(text) else text


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """What was passed as `extra`, without secrets."""
    fields: dict[str, object] = {}
    for name, value in vars(record).items():
        if name in _STANDARD:
            continue
        if _is_secret(name):
            fields[name] = REDACTED
        elif isinstance(value, str):
            fields[name] = redact(value)
        else:
            fields[name] = value if value is None or isinstance(value, (int, float)) else redact(str(value))
    return fields


@lru_cache(maxsize=1024)
def _is_secret(field_name: str) -> bool:
    return _SECRET_FIELD.search(field_name) is not None


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ts, level, logger, msg, the fields, and error with a traceback where there is one."""

    def __init__(self) -> None:
        super().__init__()
        self._encoder = msgspec.json.Encoder()

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "ts": _stamp(record.created, "microseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": redact(record.getMessage()),
        }
        for name, value in fields_of(record).items():
            line[f"{name}_" if name in line else name] = value
        trace = _trace(self, record)
        if trace:
            line["error"] = trace
        try:
            return self._encoder.encode(line).decode()
        except (ValueError, UnicodeEncodeError):  # lone surrogates, as from file names that are not UTF-8
            clean = {key: v.encode("utf-8", "replace").decode() if isinstance(v, str) else v for key, v in line.items()}
            return self._encoder.encode(clean).decode()


class TextFormatter(logging.Formatter):
    """A line for people. Further lines of a message are indented, so that none can pass for a line of its own."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        stamp = _stamp(record.created, "milliseconds")
        level = f"{record.levelname:<7}"
        message = redact(record.getMessage()).replace("\n", "\n  ")
        fields = " ".join(f"{name}={_shown(value)}" for name, value in fields_of(record).items())
        source = f"{record.name}:"
        if self._colour:
            stamp, source = f"{_DIM}{stamp}{_PLAIN}", f"{_DIM}{source}{_PLAIN}"
            level = f"{_COLOURS.get(record.levelno, '')}{level}{_PLAIN}"
            fields = f"{_DIM}{fields}{_PLAIN}" if fields else ""
        line = " ".join(part for part in (stamp, level, source, message, fields) if part)
        trace = _trace(self, record)
        return f"{line}\n  {trace.replace(chr(10), chr(10) + '  ')}" if trace else line


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if record.exc_info and not record.exc_text:
        record.exc_text = formatter.formatException(record.exc_info)
    return redact(record.exc_text) if record.exc_text else ""


def _stamp(created: float, precision: str) -> str:
    return datetime.fromtimestamp(created, UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else "null" if value is None else str(value)
    if _BARE.fullmatch(text):
        return text
    return msgspec.json.encode(text.encode("utf-8", "replace").decode()).decode()
