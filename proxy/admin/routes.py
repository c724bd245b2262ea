"""HTTP handlers of the authenticated /v1 API; `service` does the work.

The OpenAPI document (`openapi`) lists exactly these routes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from starlette.background import BackgroundTask
from starlette.responses import Response
from starlette.routing import Route

from proxy.admin import openapi
from proxy.admin.change_log import add_details
from proxy.admin.errors import AdminError
from proxy.admin.json_http import JSON, answer, query_parameters, read, whole_number
from proxy.admin.schemas import (
    MAX_NAME_CHARS,
    DecisionList,
    Draining,
    LogLevel,
    PoolList,
    QuotaLimits,
)
from proxy.admin.sse import EventEndpoint
from proxy.telemetry.escaping import printable

if TYPE_CHECKING:
    from starlette.requests import Request

    from proxy.admin.live_state import LiveState
    from proxy.admin.schemas import QuotaList
    from proxy.admin.service import AdminService
    from proxy.admin.sse import EventStreams

LISTED = 200
MAX_LISTED = 1000
DECISIONS = 100
MAX_DECISIONS = 500
MAX_IDS = 2**63 - 1


class Routes:
    """The handlers of the /v1 API."""

    def __init__(self, service: AdminService, live: LiveState, streams: EventStreams) -> None:
        self._service = service
        self._live = live
        self._streams = streams

    def routes(self) -> list[Route]:
        """Return the routes."""
        get, put, post, delete = (["GET"], ["PUT"], ["POST"], ["DELETE"])
        return [
            Route("/v1/state", self.state, methods=get),
            Route("/v1/events", EventEndpoint(self._streams), methods=get),
            Route("/v1/connections", self.connections, methods=get),
            Route("/v1/connections/{id}", self.close_connection, methods=delete),
            Route("/v1/pool", self.pool, methods=get),
            Route("/v1/decisions", self.decisions, methods=get),
            Route("/v1/quotas", self.quotas, methods=[*get, *put, *delete]),
            Route("/v1/policies/{name}", self.policy, methods=[*get, *put]),
            Route("/v1/drain", self.drain, methods=post),
            Route("/v1/reload", self.reload, methods=post),
            Route("/v1/log-level", self.log_level, methods=[*get, *put]),
            Route("/v1/config", self.config, methods=get),
            Route("/openapi.json", self.openapi, methods=get),
        ]

    async def state(self, request: Request) -> Response:
        """Return the whole state, with its history."""
        query_parameters(request, ())
        return Response(await self._live.state(), media_type=JSON)

    async def connections(self, request: Request) -> Response:
        """Return at most `limit` connections."""
        limit = query_parameters(request, {"limit"}).get("limit", str(LISTED))
        return answer(await self._live.connections(whole_number(limit, "limit", 1, MAX_LISTED)))

    async def pool(self, request: Request) -> Response:
        """Return the memory pools."""
        query_parameters(request, ())
        return answer(PoolList(self._live.pools()))

    async def decisions(self, request: Request) -> Response:
        """Return at most `limit` decisions, the newest first."""
        limit = query_parameters(request, {"limit"}).get("limit", str(DECISIONS))
        count = whole_number(limit, "limit", 1, MAX_DECISIONS)
        return answer(DecisionList(self._service.decisions.latest(count)))

    async def config(self, request: Request) -> Response:
        """Return the configuration in force."""
        query_parameters(request, ())
        return answer(self._service.running_config())

    async def openapi(self, request: Request) -> Response:
        """Return the OpenAPI document."""
        query_parameters(request, ())
        return Response(openapi.encoded(), media_type=JSON)

    # -- control ---------------------------------------------------------------------------------

    async def quotas(self, request: Request) -> Response:
        """List the quotas, or set or remove live quotas of one entity. Raises AdminError (400)."""
        if request.method in {"GET", "HEAD"}:
            query_parameters(request, ())
            return _tagged(self._service.live_quotas.listed())
        names = {"user", "client_id"} | ({"quota"} if request.method == "DELETE" else set())
        query = query_parameters(request, names)
        user, client_id = _name(query, "user"), _name(query, "client_id")
        if user is None and client_id is None:
            raise AdminError(
                400, "found neither user nor client_id in the query, expected one or both"
            )
        limits: dict[str, float | None]
        if request.method == "PUT":
            asked = msgspec.structs.asdict(await read(request, QuotaLimits))
            limits = {key: value for key, value in asked.items() if value is not None}
            if not limits:
                raise AdminError(400, "found no quota in the body, expected one or more")
        else:
            _expect_nothing(await request.body())
            keys = list(QuotaLimits.__struct_fields__)
            key = query.get("quota")
            if key is not None and key not in keys:
                raise AdminError(
                    400, f"quota: found {printable(key)!r}, expected one of {', '.join(keys)}"
                )
            limits = {} if key is None else {key: None}
        changed = limits or dict.fromkeys(
            QuotaLimits.__struct_fields__
        )  # without a name all are removed
        add_details(request.scope, user=_shown(user), client_id=_shown(client_id), quotas=changed)
        service, rev = self._service, _revision(request)
        return _tagged(service.live_quotas.change(user, client_id, limits, rev, service.now_ms()))

    async def policy(self, request: Request) -> Response:
        """Return what a policy shows to operators, or change it. Raises AdminError."""
        query_parameters(request, ())
        name, policies = request.path_params["name"], self._service.live_policies
        if request.method in {"GET", "HEAD"}:
            return answer(policies.state(name))
        change = await read(request, dict[str, object])
        add_details(request.scope, policy=printable(name), keys=[printable(key) for key in change])
        return answer(policies.change(name, change, self._service.now_ms()))

    async def close_connection(self, request: Request) -> Response:
        """Close one client's connection. Raises AdminError (404)."""
        query_parameters(request, ())
        session = whole_number(request.path_params["id"], "the id", 0, MAX_IDS)
        add_details(request.scope, session=session)
        _expect_nothing(await request.body())
        if not self._service.close_connection(session):
            raise AdminError(404, f"no connection has the id {session}")
        return Response(status_code=204)

    async def drain(self, request: Request) -> Response:
        """Start a drain, as SIGTERM does, once the answer is sent: without clients the process ends at once."""
        query_parameters(request, ())
        _expect_nothing(await request.body())
        draining = answer(Draining(draining=True), 202)
        draining.background = BackgroundTask(self._drain)
        return draining

    async def _drain(self) -> None:
        self._service.drain()

    async def reload(self, request: Request) -> Response:
        """Reload the configuration; 422 if it is invalid."""
        query_parameters(request, ())
        _expect_nothing(await request.body())
        reloaded = await self._service.reload()
        add_details(request.scope, changed=reloaded.changed, problems=len(reloaded.problems))
        return answer(reloaded, 200 if reloaded.ok else 422)

    async def log_level(self, request: Request) -> Response:
        """Return the log level, or set it."""
        query_parameters(request, ())
        if request.method == "PUT":
            level = (await read(request, LogLevel)).level
            add_details(request.scope, level=level, before=self._service.log_level())
            self._service.set_log_level(level)
        return answer(LogLevel(self._service.log_level()))


def _name(query: dict[str, str], kind: str) -> str | None:
    name = query.get(kind)
    if name is not None and not 0 < len(name) <= MAX_NAME_CHARS:
        raise AdminError(400, f"{kind}: found {len(name)} characters, expected 1..{MAX_NAME_CHARS}")
    return name


def _revision(request: Request) -> str | None:
    """Return the revision that the quotas must have; None: any."""
    rev = request.headers.get("if-match")
    return None if rev in {None, "*"} else rev.strip('"')


def _shown(name: str | None) -> str | None:
    return None if name is None else printable(name)


def _expect_nothing(body: bytes) -> None:
    if body.strip() not in {b"", b"{}"}:
        raise AdminError(400, f"found a body of {len(body)} bytes, expected none")


def _tagged(quotas: QuotaList) -> Response:
    response = answer(quotas)
    response.headers["etag"] = f'"{quotas.rev}"'
    return response
