"""Which hosts are addresses, and which are this machine."""

import pytest

from proxy.config.values import is_address, is_loopback


def test_an_address_is_told_from_a_name() -> None:
    """Names may have digits and hyphens only."""
    for address in ("127.0.0.1", "::1", "fd00::3"):
        assert is_address(address)
    for name in ("localhost", "10-0-0-1", "1.2.3.example", "a"):
        assert not is_address(name)


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST.", "127.0.0.1", "127.255.1.2", "::1", "0:0::1", "::ffff:127.0.0.1"],
)
def test_a_loopback_address_and_localhost_are_this_machine(host: str) -> None:
    """In any spelling of an address."""
    assert is_loopback(host)


@pytest.mark.parametrize(
    "host",
    [
        *(
            "127.example.com",
            "127.0.0.1.example.com",
            "127.",
            "127.1",
            "127.0.0.1:80",
            "127.0.0.1\0",
        ),
        *(
            "",
            "10.0.0.1",
            "0.0.0.0",  # noqa: S104 - it is compared only
            "::",
            "::2",
            "::127.0.0.1",
            "::ffff:10.0.0.1",
            "localhost.com",
        ),
    ],
)
def test_a_name_that_begins_like_a_loopback_address_is_none(host: str) -> None:
    """The owner of the name says where it leads."""
    assert not is_loopback(host)
