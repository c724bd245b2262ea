"""The settings of a command line: by file, variable and option."""

import types
from pathlib import Path

import pytest

from tests.support.processes.command_line import invoke, written


def test_listen_needs_a_port() -> None:
    """An address alone is a usage error."""
    result = invoke("run", "--upstream", "a:1", "--listen", "127.0.0.1")
    assert result.exit_code == 2
    assert "expected ADDRESS:PORT" in result.stderr


@pytest.mark.parametrize("by_variable", [False, True])
def test_run_reads_the_file_that_a_flag_or_a_variable_names(
    app: types.SimpleNamespace, tmp_path: Path, *, by_variable: bool
) -> None:
    """Flags override the file."""
    file = written(tmp_path, "upstream: {bootstrap_servers: [a:1]}\nlisten: {address: '::1'}\n")
    if by_variable:
        invoke("run", "--listen", ":3000", SLUICE_CONFIG=str(file))
    else:
        invoke("run", "--config", file, "--listen", ":3000")
    (config,) = app.ran
    assert (config.listen.address, config.listen.port) == ("::1", 3000)
