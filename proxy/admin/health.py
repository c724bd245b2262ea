"""Probes, metrics and version: without authentication, on every listener.

Rules:
- /startup and /live succeed when the event loop answers.
- /ready fails while the proxy drains or has reached its connection limit. Brokers are not checked: another replica
  could not reach them either. For the same reason a broker outside `listen.nodes` makes it `degraded` and no more:
  what works must not be taken out of service.
- The metrics page is rendered at most once in PAGE_KEPT_S for each format.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import trio
from starlette.responses import Response
from starlette.routing import Route

from proxy.admin.json_http import answer
from proxy.admin.schemas import Health, HealthCheck, Version
from proxy.telemetry.metrics.exposition import OPENMETRICS, TEXT, wants_openmetrics

if TYPE_CHECKING:
    from starlette.requests import Request

    from proxy.admin.service import AdminService

PAGE_KEPT_S = 1.0


class Probes:
    """The handlers of the open paths."""

    def __init__(self, service: AdminService) -> None:
        self._service = service
        self._pages: dict[bool, tuple[float, bytes]] = {}
        self._rendering = trio.Lock()

    def routes(self) -> list[Route]:
        """Return the routes."""
        return [
            Route("/startup", self.alive),
            Route("/live", self.alive),
            Route("/ready", self.ready),
            Route("/metrics", self.metrics),
            Route("/version", self.version),
        ]

    async def alive(self, request: Request) -> Response:
        """Return ok: the event loop answers."""
        return answer(
            Health(ok=True, degraded=False, checks=[HealthCheck("loop", ok=True, detail="answers")])
        )

    async def ready(self, request: Request) -> Response:
        """Return whether new clients are accepted, 503 if not; and whether all brokers can be reached."""
        checks, routes = list(self._service.readiness()), self._service.routes()
        ok = all(each.ok for each in checks)
        health = Health(ok, degraded=not routes.ok, checks=[*checks, routes])
        return answer(health, 200 if ok else 503)

    async def metrics(self, request: Request) -> Response:
        """Return the metrics for Prometheus, with exemplars in OpenMetrics format."""
        openmetrics = wants_openmetrics(request.headers.get("accept", ""))
        async with self._rendering:
            made_at, page = self._pages.get(openmetrics, (float("-inf"), b""))
            if trio.current_time() - made_at >= PAGE_KEPT_S:
                page = await self._service.metrics_page(openmetrics=openmetrics)
                self._pages[openmetrics] = (trio.current_time(), page)
        kind = OPENMETRICS if openmetrics else TEXT
        return Response(page, headers={"content-type": kind, "vary": "accept"})

    async def version(self, request: Request) -> Response:
        """Return the version of Sluice and of Python, and the configuration's hash."""
        python = ".".join(map(str, sys.version_info[:3]))
        service = self._service
        return answer(Version(service.facts().version, python, service.config_hash))
