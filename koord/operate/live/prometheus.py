"""Reads koord's metrics from Prometheus, for `koord report` and `koord sim record`."""

from __future__ import annotations

import json
import ssl
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError

from koord.api.text.timestamp import from_seconds as timestamp
from koord.operate.since import said
from koord.operate.worth import Recorded, ReportError, Series

POINTS: Final = 600
"""In a window."""
TIMEOUT_S: Final = 60.0
MISSING: Final = 0.1
"""Of a window may be without figures."""

PUBLISHED: Final = (
    "sum by (resource) (max by (node, resource) (slo_controller_node_extended_resource_allocatable_internal"
    '{resource=~"kubernetes.io/(batch|mid)-(cpu|memory)"}))'
)
PODS: Final = "sum by (pod_namespace, quota, workload, resource, what) (koordlet_lent_to_pod)"
EVICTIONS: Final = "koordlet_evictions_total"


class Prometheus:
    def __init__(self, url: str, *, token: str = "", ca: str | None = None, insecure: bool = False) -> None:
        self._url, self._token = url.rstrip("/"), token
        parsed = urllib.parse.urlsplit(self._url)
        if parsed.scheme not in ("http", "https") or not parsed.netloc:
            raise ReportError(f"--prometheus {url}: must be a URL, as in http://prometheus.monitoring:9090")
        self._context: ssl.SSLContext | None = None
        if parsed.scheme == "https":
            self._context = ssl.create_default_context(cafile=ca)
            if insecure:
                self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    def recorded(self, from_s: float, until_s: float) -> Recorded:
        step_s = max(1.0, (until_s - from_s) / POINTS)
        published, pods, evictions = (
            self._range(query, from_s, until_s, step_s) for query in (PUBLISHED, PODS, EVICTIONS)
        )
        self._require_history(published, from_s, until_s)
        source = f"Prometheus {self._url}"
        return Recorded(from_s, until_s, step_s, published, pods, evictions, source)

    @property
    def url(self) -> str:
        return self._url

    def series(
        self, query: str, from_s: float, until_s: float, step_s: float
    ) -> list[tuple[Mapping[str, str], Sequence[tuple[float, float]]]]:
        """Labels and points of each series of a query."""
        return [(series.labels, series.points) for series in self._range(query, from_s, until_s, step_s)]

    def _require_history(self, published: Sequence[Series], from_s: float, until_s: float) -> None:
        first_s = min((series.points[0][0] for series in published if series.points), default=None)
        if first_s is None:
            raise ReportError(
                f"Prometheus {self._url} has no figures of koord in this time: is koord-manager scraped?"
                " koord install --with monitoring says how"
            )
        if first_s - from_s > MISSING * (until_s - from_s):
            has_s = until_s - first_s
            raise ReportError(
                f"Prometheus {self._url} has figures of koord only since {timestamp(first_s)}, {said(has_s)} ago:"
                f" use --since {said(has_s)}, or a Prometheus that keeps more"
            )

    def _range(self, query: str, from_s: float, until_s: float, step_s: float) -> list[Series]:
        times = {"start": f"{from_s:.3f}", "end": f"{until_s:.3f}", "step": f"{step_s:.3f}"}
        data = self._ask("/api/v1/query_range", query=query, **times)
        return [
            Series(series["metric"], [(float(time_s), float(value)) for time_s, value in series["values"]])
            for series in data["result"]
        ]

    def _ask(self, path: str, **parameters: str) -> Any:
        asked = urllib.request.Request(f"{self._url}{path}?{urllib.parse.urlencode(parameters)}")
        if self._token:
            asked.add_header("Authorization", f"Bearer {self._token}")
        try:
            with urllib.request.urlopen(asked, timeout=TIMEOUT_S, context=self._context) as answer:
                response = json.load(answer)
        except HTTPError as error:
            raise ReportError(self._refusal(error)) from None
        except (URLError, OSError, HTTPException) as error:
            why = error.reason if isinstance(error, URLError) else error
            raise ReportError(
                f"Prometheus {self._url} cannot be reached: {why}; without --prometheus the API alone is asked"
            ) from None
        except ValueError:
            raise ReportError(f"{self._url} does not answer as Prometheus does: is the URL right?") from None
        if not isinstance(response, dict) or response.get("status") != "success":
            raise ReportError(f"{self._url} does not answer as Prometheus does: is the URL right?")
        return response["data"]

    def _refusal(self, error: HTTPError) -> str:
        if error.code in (401, 403):
            return (
                f"Prometheus {self._url} refuses ({error.code} {error.reason}): you have no right to read it;"
                " --prometheus-token-file gives a token"
            )
        try:
            reason = json.load(error).get("error", "")
        except (ValueError, AttributeError):
            return f"{self._url} does not answer as Prometheus does ({error.code} {error.reason}): is the URL right?"
        return f"Prometheus {self._url}: {reason or error.reason}"
