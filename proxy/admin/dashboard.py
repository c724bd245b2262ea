"""The files of the dashboard, read once from `static`. No path can name any other file."""

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
    """Serves the dashboard's files."""

    def __init__(self) -> None:
        self._files = {
            each.name: (each.read_bytes(), KINDS[suffix])
            for each in (files("proxy.admin") / "static").iterdir()
            for suffix in [f".{each.name.rpartition('.')[2]}"]
            if suffix in KINDS and each.is_file()
        }

    def routes(self) -> list[Route]:
        """Return the routes of the page and of the files that it loads."""
        return [Route("/", self.index), Route("/static/{name}", self.file)]

    async def index(self, request: Request) -> Response:
        """Return the page."""
        return self._file(INDEX)

    async def file(self, request: Request) -> Response:
        """Return one file; 404 for an unknown name."""
        return self._file(request.path_params["name"])

    def _file(self, name: str) -> Response:
        found = self._files.get(name)
        if found is None:
            raise AdminError(404, "there is no such file")
        body, kind = found
        return Response(body, headers={"content-type": kind, "cache-control": "no-cache"})
