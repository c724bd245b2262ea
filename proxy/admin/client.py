"""One HTTP request at a time to an admin server, over its Unix socket or with its token.

Answers are JSON objects, which the OpenAPI document of the server describes.
"""

from __future__ import annotations

import http.client
import json
import socket
from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.admin.errors import NO_PATH, RefusedError, UnreachableError

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT_S = 70.0
"""A reload may take a minute."""
EVENT_S = 10.0
"""A server without an event for so long has ended."""
_EVENT = b"data: "
_WORDS = {
    401: "the token is not the one in the file of admin.token_file",
    404: "not found",
    409: "not possible now",
    412: "the quotas changed since the revision in If-Match: list them again",
    422: "the configuration is invalid, so nothing was changed",
    429: "too many changes in one second: wait and try again",
    503: "the admin server is busy: wait and try again",
}
"""Messages for answers without an error text."""


class AdminAddress(NamedTuple):
    """The address of an admin server: a path, or HOST:PORT and a token."""

    path: str = ""
    address: str = ""
    token: str = ""

    def __str__(self) -> str:
        return self.path or self.address


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class AdminClient:
    """Asks the admin server at `place`."""

    def __init__(self, place: AdminAddress) -> None:
        self.place = place

    def get(self, path: str) -> dict[str, Any]:
        """See `ask`."""
        return self.ask("GET", path)

    def ask(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Return the answer to a request; {} without a body. Raises RefusedError or UnreachableError."""
        connection = self._connect(TIMEOUT_S)
        try:
            response = self._send(connection, method, path, body)
            said = _decoded(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()
        if response.status >= 400:
            raise self._refusal(response.status, said)
        return said

    def events(self) -> Iterator[dict[str, Any]]:
        """Yield the state each second until the server ends. Raises RefusedError or UnreachableError."""
        connection = self._connect(EVENT_S)
        try:
            response = self._send(connection, "GET", "/v1/events", None)
            if response.status >= 400:
                raise self._refusal(response.status, _decoded(response.read()))
            while line := response.readline():
                if line.startswith(_EVENT):
                    yield _decoded(line[len(_EVENT) :])
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._unreachable(error) from error
        finally:
            connection.close()

    def _send(
        self, connection: http.client.HTTPConnection, method: str, path: str, body: object
    ) -> http.client.HTTPResponse:
        headers = {"Content-Type": "application/json"}
        if self.place.token:
            headers["Authorization"] = f"Bearer {self.place.token}"
        data = None if body is None else json.dumps(body).encode()
        connection.request(method, path, data, headers)
        return connection.getresponse()

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        if self.place.path:
            return _UnixConnection(self.place.path, timeout_s)
        return http.client.HTTPConnection(self.place.address, timeout=timeout_s)

    def _refusal(self, status: int, said: dict[str, Any]) -> RefusedError:
        if status == 404 and said.get("error") == NO_PATH:
            words = "has probes and metrics only (admin.listen): ask admin.socket or admin.control"
            said = {"error": f"{self.place} {words}"}
        problems = said.get("problems")
        return RefusedError(
            status,
            said.get("error") or _WORDS.get(status) or _unknown(status),
            list(map(str, problems)) if isinstance(problems, list) else (),
        )

    def _unreachable(self, error: Exception) -> UnreachableError:
        return UnreachableError(f"No Sluice answers at {self.place}: {self._reason(error)}.")

    def _reason(self, error: Exception) -> str:
        """Return the reason, and what to do."""
        setting = "admin.socket" if self.place.path else "admin.control"
        match error:
            case FileNotFoundError():
                return f"the socket does not exist. Start `sluice run`, or give the path of its {setting}"
            case PermissionError():
                return "you may not open this socket. Ask as the user that runs Sluice, or as root"
            case ConnectionRefusedError():
                return f"the connection was refused. Start `sluice run`, and check that its {setting} is this address"
            case TimeoutError():
                return "it did not answer in time. It may be stopped or overloaded: look at its log"
            case socket.gaierror():
                return f"its host name is unknown ({error.strerror}). Check HOST:PORT"
            case http.client.RemoteDisconnected() | ConnectionResetError() | BrokenPipeError():
                return "it closed the connection without an answer. It may be stopping: look at its log"
            case http.client.HTTPException() | ValueError():
                return f"the server is not the admin server of a Sluice. Check that {setting} is this address"
            case OSError():
                return f"{error.strerror or error}. Check that its {setting} is this address"
            case _:
                return str(error)


def _unknown(status: int) -> str:
    return f"it answered with HTTP status {status} and gave no reason"


def _decoded(data: bytes) -> dict[str, Any]:
    try:
        said = json.loads(data) if data.strip() else {}
    except RecursionError:
        raise ValueError("the answer has too many levels") from None
    if not isinstance(said, dict):
        raise ValueError("the answer is no JSON object")  # noqa: TRY004 - of the text, as json's own
    return said
