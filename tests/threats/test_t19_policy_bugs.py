"""T19: a policy that raises, returns nonsense or blocks the event loop.

A plug-in with every kind of bug neither ends the process nor stops its shutdown; its own requests are closed or
forwarded, as `on_error` says. A policy that never returns cannot be stopped: it runs in the proxy's own thread.
"""

import os
import signal
import socket

from tests.support.faults.honest import Honest, receive_frames
from tests.support.kafka.load import await_that
from tests.support.messages import frames as f
from tests.support.messages.raw import receive_until_closed
from tests.support.plugins import buggy
from tests.support.processes.measured import tell
from tests.support.processes.sluice_process import STOP_TIMEOUT_SECONDS, SluiceProcess


def asked(port: int, client_id: str) -> bytes:
    """Return all bytes that answer one Heartbeat."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(f.request(f.HEARTBEAT, 0, 7, b"body", client_id=client_id))
        client.shutdown(socket.SHUT_WR)
        return receive_until_closed(client)


def test_a_policy_is_made_once_per_start_and_once_per_reload(broker, tmp_path) -> None:
    """One instance serves to check the settings, to plan the memory and to decide requests."""
    sluice = SluiceProcess(broker.server, tmp_path, variables=buggy.install(tmp_path))
    sluice.start()
    try:
        assert (tmp_path / "made").read_text() == "x"
        for count in (2, 3):
            os.kill(sluice.pid, signal.SIGHUP)
            await_that(
                lambda: sluice.said().count("config_reloaded") == count - 1,  # noqa: B023
                "the reload",
            )
            assert (tmp_path / "made").read_text() == "x" * count
    finally:
        sluice.kill()


def test_bugs_in_adopt_tick_disconnect_and_close_cost_no_client_a_reply(start, broker, tmp_path):
    """The policy is replaced, replaced again and removed, while one client stays and others come and leave."""
    variables = buggy.install(tmp_path)
    variables.pop("SLUICE_POLICIES")  # they are in the file, which a reload changes
    odd = {"use": "buggy", "name": "odd"}
    other = {"use": "limits", "config": {"forbidden_apis": ["DeleteTopics"]}}
    chains = [[odd], [{**odd, "on_error": "forward"}, other], [odd, other], [other], [odd]]
    sluice = start(broker.server, variables=variables, settings={"policies": chains[0]})
    with Honest(sluice.port) as honest:
        for number, policies in enumerate(chains[1:], 1):
            sluice.reload(policies=policies)
            await_that(lambda: sluice.said().count("config_reloaded") == number, "the reload")  # noqa: B023
            honest.ask()
            assert asked(sluice.port, "honest") == f.reply(7, b"body")
        sluice.terminate()
        assert sluice.process is not None
        assert sluice.process.wait(STOP_TIMEOUT_SECONDS) == 0
    sluice.process = None
    said = sluice.said()
    for hook in ("adopt", "on_tick", "interests", "on_disconnect", "close"):
        assert f"hook={hook}" in said, said
    assert "internal_error" not in said


def test_a_plugin_with_every_bug_ends_no_process_and_sigterm_is_obeyed(broker, tmp_path) -> None:
    """Each bug closes its own connection and is named in the log; the next client is served."""
    sluice = SluiceProcess(broker.server, tmp_path, variables=buggy.install(tmp_path))
    sluice.start()
    try:
        with socket.create_connection(("127.0.0.1", sluice.port), timeout=60) as honest:
            for number, bug in enumerate(buggy.BUGS):
                assert asked(sluice.port, bug) == b"", bug
                honest.sendall(f.request(f.HEARTBEAT, 0, number, b"mine", client_id="honest"))
                (reply,) = receive_frames(honest, 1)
                assert reply == f.reply(number, b"mine"), bug
        assert asked(sluice.port, "heard") == b""
        with socket.create_connection(("127.0.0.1", sluice.port), timeout=60) as held:
            held.sendall(f.request(f.HEARTBEAT, 0, 7, b"body", client_id=buggy.HELD))
            assert receive_frames(held, 1) == [f.reply(7, b"body")]
        sluice.terminate()
        assert sluice.process is not None
        assert sluice.process.wait(STOP_TIMEOUT_SECONDS) == 0
        said = sluice.said()
        tell(
            "T19",
            f"{len(buggy.BUGS)} bugs: each closed its own connection only, and SIGTERM was obeyed",
        )
        assert "policy=odd" in said
        assert "Throttle.throttle_time_ms is inf, expected an integer in 0.." in said
        assert "stopped" in said
    finally:
        if sluice.process is not None and sluice.process.poll() is None:
            sluice.kill()
