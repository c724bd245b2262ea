"""The errors that the admin server answers with."""

from proxy.admin.errors import AdminError


def test_an_admin_error_carries_its_status_and_message() -> None:
    """The client gets both."""
    refused = AdminError(412, "quotas changed since revision 5-1 (If-Match)")
    assert (refused.status, str(refused)) == (412, "quotas changed since revision 5-1 (If-Match)")
