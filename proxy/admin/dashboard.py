"""The dashboard's files, read once, as they lie in `static`. Nothing else in the world can be named by a path here."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route

from proxy.admin.errors import AdminError

if TYPE_CHECKING:
    from starlette.requests import Request

KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
INDEX = "index.html"


class DashboardFiles:
    """See the module."""

    def __init__(self) -> None:
        self._files = {
            each.name: (each.read_bytes(), KINDS[suffix])
            for each in (files("proxy.admin") / "static").iterdir()
            for suffix in [f".{each.name.rpartition('.')[2]}"]
            if suffix in KINDS and each.is_file()
        }

    def routes(self) -> list[Route]:
        """The page, and what it loads."""
        return [Route("/", self.index), Route("/static/{name}", self.file)]

    async def index(self, request: Request) -> Response:
        """The page."""
        return self._file(INDEX)

    async def file(self, request: Request) -> Response:
        """One file."""
        return self._file(request.path_params["name"])

    def _file(self, name: str) -> Response:
        found = self._files.get(name)
        if found is None:
            raise AdminError(404, "there is no such file")
        body, kind = found
        return Response(body, headers={"content-type": kind, "cache-control": "no-cache"})
