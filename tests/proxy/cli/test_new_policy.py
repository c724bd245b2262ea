"""`sluice new-policy`: the package is built, installed, tested, checked and run; bad names write nothing."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer

from proxy.testing import LiveSluice
from tests.support.processes.command_line import invoke
from tests.support.processes.sluice_process import SluiceProcess


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("2fast", "is no module name"),
        ("Topic", "is no module name"),
        ("a-b", "is no module name"),
        ("../x", "is no module name"),
        ("class", "is no module name"),
        ("n" * 65, "is no module name"),
        ("quota", "is a policy that is installed by kafka-sluice"),
        ("json", "is a Python module that is installed"),
        ("taken", "exists already"),
    ],
)
def test_a_bad_name_is_explained_and_nothing_is_written(
    tmp_path: Path, name: str, reason: str
) -> None:
    """Exit code 2, as for any option."""
    (tmp_path / "taken").mkdir()

    told = invoke("new-policy", name, "--directory", tmp_path)

    assert told.exit_code == 2
    assert reason in " ".join(told.output.split())
    assert list(tmp_path.rglob("*")) == [tmp_path / "taken"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """Exit code 1; nothing is left."""
    (tmp_path / ".mine.new").write_text("in the way")

    told = invoke("new-policy", "mine", "--directory", tmp_path)

    assert told.exit_code == 1
    assert "mine cannot be written: File exists" in told.output


def ran(*command: str | Path, folder: Path) -> str:
    """Return the output of a command that succeeds."""
    clean = {key: text for key, text in os.environ.items() if not key.startswith("PYTHON")}
    done = subprocess.run(
        command, cwd=folder, env=clean, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_package_is_built_installed_tested_checked_and_run(tmp_path: Path, sluice_with) -> None:
    """In an environment that has Sluice, and of the package only the installed distribution."""
    assert invoke("new-policy", "batch_guard", "--directory", tmp_path).exit_code == 0
    package, environment = tmp_path / "batch_guard", tmp_path / "environment"
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    (site,) = (environment / "lib").glob("python*/site-packages")
    (site / "sluice.pth").write_text(
        f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n"
    )
    offline = ("--no-index", "--no-deps", "--no-build-isolation")
    ran(
        sys.executable,
        "-m",
        "pip",
        "-q",
        "--python",
        python,
        "install",
        *offline,
        package,
        folder=tmp_path,
    )
    (package / "batch_guard.py").unlink()  # the tests find the installed module

    assert "12 passed" in ran(
        python, "-m", "pytest", "-q", "-p", "no:cacheprovider", folder=package
    )
    checked = ran(python, "-m", "proxy", "check", "--config", "sluice.yaml", folder=package)
    assert "The settings are valid; policies: 1." in checked
    assert "sluice-batch-guard 0.1.0" in ran(python, "-m", "proxy", "policies", folder=package)

    sluice = sluice_with([{"use": "limits"}])
    assert isinstance(sluice, LiveSluice)
    settings = {"policies": [{"use": "batch_guard", "config": {"refused_client_ids": ["batch-7"]}}]}
    with SluiceProcess(
        ",".join(sluice.upstream),
        tmp_path / "run",
        settings=settings,
        variables={"PYTHONPATH": str(site)},
    ) as running:
        assert [produced(running.bootstrap, each) for each in ("batch-7", "batch-8")] == [
            KafkaError.POLICY_VIOLATION,
            None,
        ]


def produced(bootstrap: str, client_id: str) -> int | None:
    """Return the error code of one record of this client."""
    codes: list[int | None] = []
    producer = Producer({"bootstrap.servers": bootstrap, "client.id": client_id, "log_level": 0})
    producer.produce(
        "orders", b"v", on_delivery=lambda error, _: codes.append(error and error.code())
    )
    assert producer.flush(60) == 0
    return codes[0]
