from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kube.logs import JsonFormatter, TextFormatter, parse_levels, redact, setup_logging


@pytest.fixture
def logging_restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    named = {name: logging.getLogger(name).level for name in ("koord.kube", "koord.quiet")}
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for name, number in named.items():
        logging.getLogger(name).setLevel(number)
    logging.captureWarnings(False)


def record(message: str, level: int = logging.INFO, **extra: object) -> logging.LogRecord:
    made = logging.makeLogRecord({"name": "koord.test", "levelno": level, "levelname": logging.getLevelName(level)})
    made.msg, made.created = message, 1_793_000_000.25
    vars(made).update(extra)
    return made


def test_a_text_line_has_time_level_source_message_and_fields() -> None:
    line = TextFormatter(colour=False).format(record("placed", pod="shop/web", score=7, note="two words"))
    assert line == '2026-10-26T07:33:20.250Z INFO    koord.test: placed pod=shop/web score=7 note="two words"'


def test_a_json_line_is_one_object_with_the_fields() -> None:
    line = JsonFormatter().format(record("placed", pod="shop/web", score=7, ok=True, none=None, msg_="kept"))
    assert json.loads(line) == {
        "ts": "2026-10-26T07:33:20.250000Z",
        "level": "info",
        "logger": "koord.test",
        "msg": "placed",
        "pod": "shop/web",
        "score": 7,
        "ok": True,
        "none": None,
        "msg_": "kept",
    }


def test_an_exception_comes_with_its_traceback() -> None:
    try:
        raise ValueError("token=abcdefghij")
    except ValueError:
        failed = record("failed", logging.ERROR, exc_info=sys.exc_info())
    error = json.loads(JsonFormatter().format(failed))["error"]
    assert "Traceback" in error
    assert "abcdefghij" not in error


@pytest.mark.parametrize(
    "secret",
    [
        "Bearer sometoken123",
        "authorization: Basic dXNlcjpwYXNz",
        "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJrdWJlIn0.c2lnbmF0dXJl",
        "https://host/path?access_token=s3cr3t0000&x=1",
        '{"password": "hunter2222"}',
    ],
)
def test_what_looks_like_a_token_is_not_printed(secret: str) -> None:
    for text in (redact(f"sent {secret} to server"), TextFormatter(colour=False).format(record(secret, header=secret))):
        assert "<redacted>" in text
        for part in ("sometoken123", "dXNlcjpwYXNz", "c2lnbmF0dXJl", "s3cr3t0000", "hunter2222"):
            assert part not in text


def test_fields_named_for_secrets_are_not_printed() -> None:
    line = JsonFormatter().format(record("x", bootstrap_token="abc", Password="def", privateKey="ghi", key="shop/web"))
    assert "abc" not in line
    assert "def" not in line
    assert "ghi" not in line
    assert json.loads(line)["key"] == "shop/web"


@pytest.mark.parametrize("text", ["tokens were renewed", "basic operations went well", "a secret was mounted"])
def test_ordinary_sentences_stay_whole(text: str) -> None:
    assert redact(text) == text


def test_a_message_of_many_lines_cannot_pass_for_several() -> None:
    line = TextFormatter(colour=False).format(record("first\n2026-01-01T00:00:00.000Z INFO forged"))
    assert "\n  2026-01-01" in line


@given(st.text(), st.text())
def test_any_text_makes_one_valid_json_line(message: str, value: str) -> None:
    line = JsonFormatter().format(record(message.replace("%", ""), field=value))
    assert "\n" not in line
    json.loads(line)


def test_file_names_that_are_not_utf8_can_be_logged() -> None:
    broken = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert json.loads(JsonFormatter().format(record("read", file=broken)))["file"] == "caf?"
    assert "caf?" in TextFormatter(colour=False).format(record("read", file=broken + " x"))


def test_colour_is_for_terminals_only(logging_restored: None) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, environ, coloured in (
        (io.StringIO(), {}, False),
        (Terminal(), {}, True),
        (Terminal(), {"NO_COLOR": "1"}, False),
    ):
        setup_logging(stream=stream, environ=environ)
        logging.getLogger("koord.test").warning("careful")
        assert ("\x1b[" in stream.getvalue()) is coloured


def test_levels_come_from_the_environment_first(logging_restored: None) -> None:
    stream = io.StringIO()
    setup_logging("error", "json", stream=stream, environ={"KOORD_LOG": "koord.kube=debug,warning"})
    logging.getLogger("koord.kube.client").debug("shown")
    logging.getLogger("koord.scheduler").info("hidden")
    logging.getLogger("koord.scheduler").warning("shown too")
    assert [json.loads(line)["msg"] for line in stream.getvalue().splitlines()] == ["shown", "shown too"]


def test_levels_parse() -> None:
    assert parse_levels("koord.kube=debug, INFO") == {"koord.kube": logging.DEBUG, "": logging.INFO}
    for bad in ("loud", "koord.kube=", "=debug", "koord=verbose"):
        with pytest.raises(ValueError, match="must be one of debug, info, warning, error"):
            parse_levels(bad)


def test_a_line_that_the_disk_refuses_is_lost_without_a_traceback(
    logging_restored: None, capsys: pytest.CaptureFixture[str]
) -> None:
    full = io.TextIOWrapper(io.FileIO("/dev/full", "w"), line_buffering=True)
    setup_logging(stream=full)
    logging.getLogger("koord.test").warning("careful")
    assert capsys.readouterr().err == ""
