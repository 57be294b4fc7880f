"""Paths that are not objects: health, version, discovery, keys."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from importlib.metadata import version as package_version

from koord_minicluster.apiserver import openapi
from koord_minicluster.apiserver.access.service_accounts import ServiceAccountTokens
from koord_minicluster.apiserver.discovery import Discovery, wants_aggregated
from koord_minicluster.apiserver.http import PathHandler, Request, json_answer, page_not_found
from koord_minicluster.apiserver.status import StatusError
from koord_minicluster.apiserver.telemetry import CONTENT_TYPE, Telemetry
from koord_minicluster.apiserver.wire.answers import JSON, TEXT, Answer, Response

SPEAKS = ("1", "35")
"""The version of Kubernetes whose API this is."""


class Paths:
    """Handlers by path, for `HttpApi`. `checks` are by name: None is well, a string is what is wrong."""

    def __init__(
        self,
        discovery: Discovery,
        documents: openapi.OpenApi,
        tokens: ServiceAccountTokens,
        checks: Mapping[str, Callable[[], str | None]],
        address: Callable[[], str],
    ) -> None:
        self._discovery, self._documents = discovery, documents
        self._tokens, self._checks, self._address = tokens, checks, address

    def handlers(self) -> dict[str, PathHandler]:
        return {
            "/": self.index,
            "/livez": self.health,
            "/readyz": self.health,
            "/healthz": self.health,
            "/livez/": self.health,
            "/readyz/": self.health,
            "/healthz/": self.health,
            "/version": self.version,
            "/api": self.core,
            "/apis": self.groups,
            "/.well-known/openid-configuration": self.issuer,
            "/openid/v1/jwks": self.keys,
            openapi.OLD_ROOT: self.old_openapi,
            openapi.ROOT: self.openapi_index,
            f"{openapi.ROOT}/": self.openapi_document,
        }

    async def index(self, _request: Request) -> Answer:
        return json_answer(
            {"paths": ["/api", "/api/v1", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]}
        )

    async def health(self, request: Request) -> Answer:
        """As Kubernetes answers: `ok`, or each check on a line when asked or when one fails."""
        which, _, only = request.info.path.strip("/").partition("/")
        excluded = request.http.query.getall("exclude", [])
        names = [only] if only else [name for name in self._checks if name not in excluded]
        if only and only not in self._checks:
            return page_not_found()
        results = {name: self._checks[name]() for name in names}
        failed = any(results.values())
        if not failed and "verbose" not in request.query:
            return Response(200, b"ok", TEXT)
        lines = [f"[-]{name} failed: {fault}" if fault else f"[+]{name} ok" for name, fault in results.items()]
        verdict = f"{which} check {'failed' if failed else 'passed'}"
        return Response(500 if failed else 200, "\n".join([*lines, verdict, ""]).encode(), TEXT)

    async def version(self, _request: Request) -> Answer:
        major, minor = SPEAKS
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        own = package_version("koord")
        return json_answer(
            {
                "major": major,
                "minor": minor,
                "emulationMajor": major,
                "emulationMinor": minor,
                "minCompatibilityMajor": major,
                "minCompatibilityMinor": minor,
                "gitVersion": f"v{major}.{minor}.0+koord.{own}",
                "gitCommit": "",
                "gitTreeState": "clean",
                "buildDate": "1970-01-01T00:00:00Z",
                "goVersion": f"python{platform.python_version()}",
                "compiler": platform.python_implementation().lower(),
                "platform": f"linux/{machine}",
            }
        )

    async def core(self, request: Request) -> Answer:
        return self._aggregated(request, core=True) or json_answer(self._discovery.core_versions(self._address()))

    async def groups(self, request: Request) -> Answer:
        return self._aggregated(request, core=False) or json_answer(self._discovery.group_list())

    async def group_document(self, request: Request) -> Answer | None:
        """/apis/GROUP, /apis/GROUP/VERSION, /api/v1; None where the path is none of them."""
        parts = request.info.path.strip("/").split("/")
        document = None
        if parts[0] == "api" and len(parts) == 2:
            document = self._discovery.resource_list("", parts[1])
        elif parts[0] == "apis" and len(parts) == 2:
            document = self._discovery.group(parts[1])
        elif parts[0] == "apis" and len(parts) == 3:
            document = self._discovery.resource_list(parts[1], parts[2])
        if document is not None:
            return json_answer(document)
        if len(parts) == (2 if parts[0] == "api" else 3) and self._discovery.has_group(
            parts[1] if parts[0] == "apis" else ""
        ):
            raise StatusError(404, "NotFound", "the server could not find the requested resource")
        return None

    async def old_openapi(self, request: Request) -> Answer:
        body, kind = openapi.old_document(request.http.headers.get("Accept", ""))
        return Response(200, body, kind, {"Vary": "Accept"})

    async def openapi_index(self, _request: Request) -> Answer:
        return json_answer(self._documents.index(), content_type="text/plain; charset=utf-8")

    async def openapi_document(self, request: Request) -> Answer:
        """Its address holds its hash, so that clients can keep it for good."""
        document = self._documents.document(request.info.path.removeprefix(openapi.ROOT).strip("/"))
        if document is None:
            return Response(404)
        headers = {"ETag": f'"{document.etag}"', "Vary": "Accept"}
        if request.query.get("hash") == document.etag:
            headers["Cache-Control"] = "public, immutable"
        if request.http.headers.get("If-None-Match") == headers["ETag"]:
            return Response(304, headers=headers)
        return Response(200, document.body, JSON, headers)

    async def issuer(self, _request: Request) -> Answer:
        return json_answer(self._tokens.discovery())

    async def keys(self, _request: Request) -> Answer:
        return json_answer(self._tokens.public_keys(), content_type="application/jwk-set+json")

    def _aggregated(self, request: Request, *, core: bool) -> Answer | None:
        wanted = wants_aggregated(request.http.headers.get("Accept", ""))
        if not wanted:
            return None
        body, etag = self._discovery.aggregated(core=core, version=wanted)
        headers = {"ETag": etag, "Vary": "Accept"}
        if request.http.headers.get("If-None-Match") == etag:
            return Response(304, headers=headers)
        kind = f"application/json;g=apidiscovery.k8s.io;v={wanted};as=APIGroupDiscoveryList"
        return Response(200, body, kind, headers)


def metrics_path(telemetry: Telemetry) -> PathHandler:
    async def answer(_request: Request) -> Answer:
        return Response(200, telemetry.text(), CONTENT_TYPE)

    return answer
