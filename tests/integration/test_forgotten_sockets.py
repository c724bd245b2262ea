"""kafka-python's forgotten sockets: this folder's conftest lets them close without a warning."""

import gc
import os
import socket
import warnings

import pytest
from kafka.net.inet import KafkaNetSocket


def test_a_socket_that_kafka_python_forgets_is_closed_without_a_warning() -> None:
    """Its ResourceWarning would fail the test that runs when it is collected."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        forgotten = KafkaNetSocket().socket(socket.AF_INET)
        descriptor = forgotten.fileno()
        del forgotten
        gc.collect()

    assert not [each for each in told if f"fd={descriptor}," in str(each.message)]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
