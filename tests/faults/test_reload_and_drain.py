"""SIGHUP and SIGTERM close together, at bad moments: every client gets what is due to it, and the process ends."""

from __future__ import annotations

import os
import signal

from tests.support.honest import Honest

DRAIN = {"timeout_ms": 5_000}


def test_a_configuration_that_cannot_be_read_to_its_end_does_not_hold_up_the_end(start, broker):
    """It lies on a network file system whose server is away, say. SIGTERM during the reload is obeyed."""
    sluice = start(broker.server, settings={"drain": DRAIN})
    with Honest(sluice.port) as honest:
        sluice.file.unlink()
        os.mkfifo(sluice.file)
        os.kill(sluice.pid, signal.SIGHUP)
        writer = os.open(sluice.file, os.O_WRONLY)  # returns when Sluice has opened it to read
        honest.ask()
    sluice.stop()
    os.close(writer)
