"""T14: the admin server without permission: a missing token, another site's page (CSRF), DNS rebinding, path traversal.

Every change needs the socket's owner or the token; requests for another host and from another origin get 403.
`tests/proxy/admin/test_middleware.py` has the single rules, and `tests/integration/test_admin_server.py` schemathesis.
"""

import itertools

import pytest

from proxy.admin.client import AdminAddress, AdminClient
from tests.support.processes.admin_process import TOKEN, sluice
from tests.support.processes.measured import tell

__all__ = ["sluice"]
METHODS = ("POST /v1/reload", "PUT /v1/quotas?user=a", "DELETE /v1/quotas?user=a", "GET /v1/state")
HOSTS = ("", "attacker.example")
KINDS = ("application/json", "text/plain")
ORIGINS = ("", "http://attacker.example")
TOKENS = ("", "Bearer wrong", f"Bearer {TOKEN}")
MATRIX = list(itertools.product(METHODS, HOSTS, KINDS, ORIGINS, TOKENS))


def test_without_the_token_no_state_is_changed_or_shown(sluice):
    """Method x host x content type x origin x token. Without permission the status is 401 or 403, never a 5xx."""
    assert len(MATRIX) >= 40
    before = AdminClient(AdminAddress(path=sluice.socket)).get("/v1/quotas")
    for asked, host, kind, origin, token in MATRIX:
        method, _, path = asked.partition(" ")
        wanted = {"content-type": kind, "host": host, "origin": origin, "authorization": token}
        headers = {name: value for name, value in wanted.items() if value}
        status = sluice.ask(sluice.control, method, path, headers)
        case = (asked, host, kind, origin, token)
        assert status < 500, case
        if host or origin:
            assert status == 403, case
        elif token != TOKENS[-1]:
            assert status == 401, case
        elif method != "GET" and kind != "application/json":
            assert status == 415, case
        else:
            assert status in {200, 400, 422}, case
    assert AdminClient(AdminAddress(path=sluice.socket)).get("/v1/quotas") == before
    assert TOKEN not in sluice.said()
    tell("T14", f"{len(MATRIX)} requests: no change and no state without the token, no 5xx")


@pytest.mark.parametrize(
    "path",
    ["/../../etc/passwd", "/static/../server.py", "/static/%2e%2e%2fserver.py", "//etc/passwd"],
)
def test_no_path_leads_out_of_the_dashboards_files(sluice, path):
    """On either listener."""
    headers = {"authorization": f"Bearer {TOKEN}"}
    assert sluice.ask(sluice.control, "GET", path, headers) == 404
    assert sluice.ask(sluice.listen, "GET", path, {}) == 404
