"""Refusals of an API server as exceptions."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koord.kube import errors
from koord.kube.errors import Status, StatusCause, StatusDetails, error_for, status_from, unreachable


@pytest.mark.parametrize(
    ("code", "reason", "type_"),
    [
        (400, "BadRequest", errors.BadRequest),
        (401, "Unauthorized", errors.Unauthorized),
        (403, "Forbidden", errors.Forbidden),
        (404, "NotFound", errors.NotFound),
        (405, "MethodNotAllowed", errors.MethodNotAllowed),
        (409, "AlreadyExists", errors.AlreadyExists),
        (409, "Conflict", errors.Conflict),
        (409, "", errors.Conflict),
        (410, "Expired", errors.Gone),
        (410, "Gone", errors.Gone),
        (410, "", errors.Gone),
        (413, "RequestEntityTooLarge", errors.TooLarge),
        (415, "UnsupportedMediaType", errors.UnsupportedMediaType),
        (422, "Invalid", errors.Invalid),
        (429, "TooManyRequests", errors.TooManyRequests),
        (500, "InternalError", errors.ServerError),
        (500, "ServerTimeout", errors.ServerTimeout),
        (503, "ServiceUnavailable", errors.Unavailable),
        (504, "Timeout", errors.ServerTimeout),
        (507, "", errors.ServerError),
        (418, "", errors.ApiError),
        (418, "Teapot", errors.ApiError),
    ],
)
def test_the_class_says_what_happened(code: int, reason: str, type_: type[errors.ApiError]) -> None:
    assert type(error_for(Status(code=code, reason=reason))) is type_


def test_an_error_names_the_call_the_fault_and_the_code() -> None:
    status = Status("Failure", 404, "NotFound", 'pods "web" not found')
    error = error_for(status, verb="get", what="Pod shop/web")
    assert str(error) == 'get Pod shop/web: pods "web" not found (404 NotFound)'


def test_a_server_that_was_not_reached_has_no_code() -> None:
    error = unreachable("https://h: connection refused", verb="list", what="pods")
    assert str(error) == "list pods: https://h: connection refused"


def test_errors_survive_a_trip_between_processes() -> None:
    error = error_for(Status("Failure", 404, "NotFound", "gone"), verb="get", what="Pod a")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert (again.status, str(again)) == (error.status, str(error))


def test_causes_are_kept() -> None:
    body = (
        b'{"kind":"Status","status":"Failure","message":"bad","reason":"Invalid","code":422,'
        b'"details":{"name":"x","kind":"Pod","causes":[{"reason":"FieldValueRequired","message":"Required value",'
        b'"field":"spec.containers"}]}}'
    )
    status = status_from(422, body)
    assert status.details == StatusDetails(
        name="x", kind="Pod", causes=(StatusCause("FieldValueRequired", "Required value", "spec.containers"),)
    )


@given(st.integers(300, 599), st.binary(max_size=200))
def test_any_body_gives_a_status_with_the_code_and_a_message(code: int, body: bytes) -> None:
    status = status_from(code, body)
    assert status.code
    assert status.message or status.reason
