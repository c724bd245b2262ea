"""`sluice top` against a real admin server."""

import json
from functools import partial

import structlog
import trio
from click.testing import CliRunner

from proxy.cli.top import top
from tests.support.processes.admin_room import opened


async def test_top_without_a_terminal_prints_one_state(tmp_path):
    """Without a terminal as with --once: the state and a row for each client; --json prints it all."""
    with structlog.testing.capture_logs():
        async with opened(tmp_path) as room:
            room.link()
            for option, wanted in (
                ("--once", "ANONYMOUS"),
                (None, "1 connections"),
                ("--json", ""),
            ):
                typed = ["--socket", room.admin.socket, *([option] if option else [])]
                result = await trio.to_thread.run_sync(partial(CliRunner().invoke, top, typed))
                assert result.exit_code == 0, result.output
                assert wanted in result.output
            assert json.loads(result.output)["now"]["connections"] == 1
