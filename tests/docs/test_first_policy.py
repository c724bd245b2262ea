"""docs/extend/first-policy.md, followed word for word in an environment of its own."""

import os
import re
import shlex
import subprocess
import sysconfig
import venv
from pathlib import Path

import pytest

from bench.harness.ports import free_ports
from bench.harness.processes import wait_accepting
from proxy.testing import sluice_with  # noqa: F401 - a fixture

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "extend" / "first-policy.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILES = {
    "python": ["night_guard.py", "test_night_guard.py", "test_with_a_client.py"],
    "yaml": ["sluice.yaml"],
}
"""The files that the page has the reader write, in their order."""
OFFLINE = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0"}
SCRIPT = "#!{python}\nimport sys\nfrom {module} import main\nsys.exit(main())\n"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """The variables of a shell in which Sluice, pip and pytest are installed."""
    folder = tmp_path / "environment"
    venv.create(folder, symlinks=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    installed = sysconfig.get_path("purelib")
    (site / "sluice.pth").write_text(f"import site; site.addsitedir({installed!r})\n")
    for name, module in (("pip", "pip._internal.cli.main"), ("sluice", "proxy.__main__")):
        script = folder / "bin" / name
        script.write_text(SCRIPT.format(python=folder / "bin" / "python", module=module))
        script.chmod(0o755)
    clean = {
        key: text
        for key, text in os.environ.items()
        if not key.startswith(("PYTHON", "SLUICE_", "PIP_", "VIRTUAL_ENV"))
    }
    return {**clean, **OFFLINE, "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"}


def test_the_page_is_followed_word_for_word(
    tmp_path: Path,
    environment: dict[str, str],
    sluice_with,  # noqa: F811 - the fixture
) -> None:
    """Each command succeeds, each file is written as it is shown, and the last command serves clients."""
    folder, said = tmp_path, []
    files = {language: list(names) for language, names in FILES.items()}
    running = None
    for language, text in BLOCK.findall(PAGE.read_text("utf-8")):
        if language != "console":
            (folder / files[language].pop(0)).write_text(text, "utf-8")
            continue
        for line in text.splitlines():
            words = shlex.split(line.removeprefix("$ "))
            if words[0] == "cd":
                folder = folder / words[1]
            elif words[:2] == ["sluice", "run"]:
                running = words
            else:
                said.append(output(words, folder, environment))

    assert files == {"python": [], "yaml": []}
    assert [re.findall(r"\d+ passed", each) for each in said if "passed" in each] == [
        ["12 passed"],
        ["11 passed"],
        ["1 passed"],
    ]
    assert sum("The settings are valid; policies: 1." in each for each in said) == 2
    assert any("until_hour: an integer" in each for each in said)
    policy = (folder / "night_guard.py").read_text("utf-8")
    assert len([line for line in policy.splitlines() if line]) == 20
    assert running is not None
    brokers = sluice_with([])
    serves(running, folder, environment, ",".join(brokers.upstream))


def output(words: list[str], folder: Path, environ: dict[str, str]) -> str:
    """Return the output of a command that succeeds."""
    done = subprocess.run(
        words, cwd=folder, env=environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout


def serves(words: list[str], folder: Path, environ: dict[str, str], upstream: str) -> None:
    """Run the command before other brokers and on another port than the page says, until it accepts."""
    port = free_ports("127.0.0.1", 11)
    log = folder / "log"
    address = ["--upstream", upstream, "--listen", f"127.0.0.1:{port}", "--nodes", "0-9"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*words, *address], cwd=folder, env=environ, stdout=out, stderr=out
        )
    try:
        wait_accepting(process, "127.0.0.1", port, lambda: log.read_text("utf-8"), 60)
    finally:
        process.terminate()
    assert process.wait(60) == 0, log.read_text("utf-8")
