"""What the admin server is given, as the proxy gives it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.admin.inside import AdminInside, Held, RefusedError
from tests.support.admin_room import roomy

if TYPE_CHECKING:
    from proxy.inside import ProxyInside

    def _(inside: ProxyInside) -> AdminInside:
        return inside


def test_a_refusal_carries_its_status_and_words():
    """For whoever asked."""
    refused = RefusedError(412, "the quotas are others by now")
    assert (refused.status, str(refused)) == (412, "the quotas are others by now")


def test_the_proxy_gives_all_that_is_named():
    """Attributes and methods."""
    wanted = {
        name
        for name in (*vars(AdminInside), *AdminInside.__annotations__)
        if not name.startswith("_")
    }
    with roomy() as room:
        assert wanted <= set(dir(room.inside))
    assert Held("alice", 5.0).rate == 5.0
