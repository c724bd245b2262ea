"""The admin server of a real `sluice run`: its OpenAPI document by schemathesis, its commands and reloads."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proxy.admin.client import AdminAddress, AdminClient
from tests.support.faults.stub_broker import StubBroker
from tests.support.kafka.load import await_that
from tests.support.processes.admin_process import TOKEN, Sluice, sluice, wait_for
from tests.support.processes.sluice_process import SluiceProcess

ALONE = """\
import sys
from pathlib import Path
from proxy.admin import default_socket
from proxy.__main__ import main

default_socket.ROOT_FOLDER = Path(sys.argv.pop(1))
main()
"""
EXAMPLES = 15
FUZZ_SECONDS = 240

__all__ = ["sluice"]
# The document against the server. A reload and a drain are asked for by tests of their own, a stream has no end, and
# changes come faster than anybody types them, so that 429 is an ordinary answer.
FUZZ = """
import os
import pytest
import schemathesis
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance, response_schema_conformance, status_code_conformance, unsupported_method,
)
from hypothesis import HealthCheck, settings

schema = schemathesis.openapi.from_url(
    os.environ["ADMIN_URL"] + "/openapi.json", headers={"Authorization": "Bearer " + os.environ["ADMIN_TOKEN"]}
)
schema = schema.exclude(path="/v1/events").exclude(path="/v1/drain")

@schema.parametrize()
@settings(max_examples=int(os.environ["ADMIN_EXAMPLES"]), deadline=None, suppress_health_check=list(HealthCheck))
def test_it_does_what_it_says(case):
    headers = {"Authorization": "Bearer " + os.environ["ADMIN_TOKEN"]}
    if case.method.upper() in ("POST", "PUT", "DELETE", "PATCH"):
        headers["Content-Type"] = "application/json"
    case.call_and_validate(
        headers=headers,
        checks=[
            not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance,
            unsupported_method,
        ],
    )
"""


@pytest.mark.slow
def test_the_server_follows_its_openapi_document(sluice, tmp_path):
    """Schemathesis sends valid and invalid requests: no fault, and no reply that the document lacks."""
    pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    file = tmp_path / "test_fuzz.py"
    file.write_text(FUZZ)
    variables = {
        "ADMIN_URL": f"http://{sluice.control}",
        "ADMIN_TOKEN": TOKEN,
        "ADMIN_EXAMPLES": str(EXAMPLES),
    }
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-x",
            "-p",
            "no:cacheprovider",
            "-c",
            os.devnull,
            f"--rootdir={tmp_path}",
            str(file),
        ],
        env={**os.environ, **variables},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=FUZZ_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
    assert "admin_error" not in sluice.said()


def test_the_commands_show_and_control_the_proxy(sluice):
    """`sluice ctl` and `sluice top` are run as an operator types them in the pod."""
    assert stat.S_IMODE(os.lstat(sluice.socket).st_mode) == 0o600
    assert "0 connections" in sluice.ctl("ctl", "status").stdout
    assert "user" in sluice.ctl("top", "--once").stdout
    assert sluice.ctl("ctl", "log-level", "debug").stdout == "debug\n"
    assert sluice.ctl("ctl", "close", "999").returncode == 1
    await_that(lambda: "admin_change" in sluice.said(), "the log to tell of the change")


def test_top_and_ctl_work_without_any_settings(tmp_path):
    """No option, no variable and no line in the settings is needed, for the only Sluice of this user."""
    runtime = tmp_path / "run"
    runtime.mkdir()
    environ = {key: value for key, value in os.environ.items() if not key.startswith("SLUICE_")}
    environ |= {"XDG_RUNTIME_DIR": str(runtime), "TMPDIR": str(tmp_path)}
    with (
        StubBroker() as broker,
        SluiceProcess(broker.server, tmp_path, variables={"XDG_RUNTIME_DIR": str(runtime)}),
    ):
        for command in (["top", "--once"], ["ctl", "status"]):
            # Root's folder is shared with any other Sluice of the machine.
            done = subprocess.run(
                [sys.executable, "-c", ALONE, str(tmp_path / "root"), *command],
                env=environ,
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, "")
            assert "0 connections" in done.stdout
    assert list(runtime.glob("sluice/*")) == []


def test_a_drain_by_command_ends_the_process(sluice):
    """Like SIGTERM: the process ends with exit code 0 and removes its socket."""
    assert sluice.ctl("ctl", "drain", "--yes").returncode == 0
    sluice.await_exit()
    assert not os.path.lexists(sluice.socket)


@pytest.mark.parametrize("way", ["signal", "command"])
def test_a_changed_file_is_applied(tmp_path, way):
    """By SIGHUP or by command; a file with a mistake changes nothing, and the mistake is reported."""
    file = tmp_path / "sluice.yaml"
    with StubBroker() as broker:
        sluice = Sluice(broker.server, tmp_path)
        del sluice.variables["SLUICE_POLICIES"]
        sluice.variables["SLUICE_CONFIG"] = str(file)
        write(file, 100)
        sluice.start()
        wait_for(sluice)
        client = AdminClient(AdminAddress(path=sluice.socket))
        assert rate(client) == 100
        write(file, 7)
        told(sluice, way, ok=True)
        assert rate(client) == 7
        file.write_text("listen: {prt: 1}")
        told(sluice, way, ok=False)
        assert rate(client) == 7
        assert client.get("/v1/state")["now"]["last_reload"]["ok"] is False
        sluice.stop()


def write(file: Path, request_rate: int) -> None:
    quota = {"quotas": [{"user": "alice", "request_rate": request_rate}]}
    file.write_text(json.dumps({"policies": [{"use": "quota", "config": quota}]}))


def rate(client: AdminClient) -> Any:
    (quota,) = client.get("/v1/quotas")["quotas"]
    return quota["per_second"]


def told(sluice: Sluice, way: str, *, ok: bool) -> None:
    """Have Sluice read the file, and wait until it has."""
    if way == "command":
        assert sluice.ctl("ctl", "reload").returncode == (0 if ok else 1)
        return
    event = "config_reloaded" if ok else "config_reload_failed"
    os.kill(sluice.pid, signal.SIGHUP)
    await_that(lambda: event in sluice.said(), event, said=sluice.said)
