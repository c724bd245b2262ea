"""`upstream.sasl` becomes credentials, or a start that fails with the name of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.config.security import UpstreamSasl
from proxy.config.small_files import PASSWORD_VARIABLE, FileError
from proxy.shell.clock import Clock
from proxy.shell.event_loop import EventLoop
from proxy.upstream_credentials import TokenFetch, credentials_of, custody_of
from tests.support.core.sessions import make_engine

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_password_file_makes_an_exchange(tmp_path: Path, mechanism: str) -> None:
    """The exchange is that of the mechanism, for the user of the settings."""
    file = tmp_path / "password"
    file.write_text("s3cret\n")
    sasl = UpstreamSasl(mechanism=mechanism, username="sluice", password_file=str(file))  # type: ignore[arg-type] # a parameter
    client = await credentials_of(sasl).client()
    assert client.mechanism == mechanism
    assert b"sluice" in client.first()


async def test_the_variable_has_the_password_without_a_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As for every secret."""
    monkeypatch.setenv(PASSWORD_VARIABLE, "from-the-environment")
    client = await credentials_of(UpstreamSasl(mechanism="PLAIN", username="sluice")).client()
    assert client.first() == b"\0sluice\0from-the-environment"


async def test_a_token_file_may_come_later(tmp_path: Path) -> None:
    """It is read for each authentication."""
    file = tmp_path / "token"
    credentials = credentials_of(UpstreamSasl(mechanism="OAUTHBEARER", token_file=str(file)))
    file.write_text("a.b.c")
    assert b"a.b.c" in (await credentials.client()).first()


def test_a_thread_of_its_own_gets_a_token(tmp_path: Path) -> None:
    """The publisher of the usage log has one."""
    file = tmp_path / "token"
    file.write_text("a.b.c")
    assert TokenFetch(UpstreamSasl(mechanism="OAUTHBEARER", token_file=str(file)))() == "a.b.c"
    with pytest.raises(ValueError, match="no source of tokens"):
        TokenFetch(None)()


@pytest.mark.parametrize(
    "sasl",
    [
        UpstreamSasl(mechanism="PLAIN", username="sluice", password_file="missing"),  # noqa: S106 - a path
        UpstreamSasl(
            mechanism="OAUTHBEARER",
            token_endpoint_url="https://tokens.example.com/",  # noqa: S106 - an address
            client_id="sluice",
            client_secret_file="missing",  # noqa: S106 - a path
        ),
    ],
    ids=["password_file", "client_secret_file"],
)
def test_a_secret_that_cannot_be_read_prevents_the_start(sasl: UpstreamSasl) -> None:
    """The error names the file."""
    with pytest.raises(FileError, match="missing"):
        credentials_of(sasl)


def test_with_custody_no_sasl_of_a_client_is_forwarded(tmp_path: Path) -> None:
    """Without `upstream.sasl` there is no custody."""
    file = tmp_path / "password"
    file.write_text("s3cret")
    engine = make_engine()
    event_loop = EventLoop(engine, Clock())
    assert custody_of(None, engine, event_loop) is None
    assert not engine.has_custody
    sasl = UpstreamSasl(mechanism="PLAIN", username="sluice", password_file=str(file))
    assert custody_of(sasl, engine, event_loop) is not None
    assert engine.has_custody
    event_loop.close()
