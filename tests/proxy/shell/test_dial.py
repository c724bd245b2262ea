"""One attempt to connect over loopback: what a failure reports, and when it is given up."""

import errno
import os
import resource
import socket

import pytest
import trio

from bench.harness.ports import free_ports
from proxy.core.errors import CloseReason
from proxy.shell.dial import DialError, dial


async def test_a_refused_dial_says_where_and_why():
    """The error names the address; its reason is UPSTREAM_REFUSED."""
    port = free_ports()
    with pytest.raises(DialError, match=f"127.0.0.1:{port}") as caught:
        await dial("127.0.0.1", port, 5)
    assert caught.value.reason is CloseReason.UPSTREAM_REFUSED


async def test_a_lack_of_descriptors_is_not_reported_as_a_refusal_of_the_broker():
    """The reason is FILE_DESCRIPTORS_EXHAUSTED, because the fault is in this process."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with socket.create_server(("127.0.0.1", 0)) as broker:
        lowest_free = os.dup(broker.fileno())
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, limits[1]))
        try:
            with pytest.raises(DialError, match=os.strerror(errno.EMFILE)) as failed:
                await dial(*broker.getsockname(), 1)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert failed.value.reason is CloseReason.FILE_DESCRIPTORS_EXHAUSTED


async def test_a_dial_that_takes_too_long_is_given_up(autojump_clock, monkeypatch):
    """The reason is UPSTREAM_DIAL_TIMEOUT; the test runs in virtual time."""

    async def never(host: str, port: int) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(trio, "open_tcp_stream", never)
    with pytest.raises(DialError) as caught:
        await dial("10.255.255.1", 9092, 3)
    assert caught.value.reason is CloseReason.UPSTREAM_DIAL_TIMEOUT
