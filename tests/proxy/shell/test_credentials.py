"""Credentials are read for each authentication, and make the exchange of their mechanism."""

from pathlib import Path

import pytest

from proxy.config.small_files import read_secret
from proxy.core.auth.mechanisms import OAuthBearerClient, PlainClient, ScramClient
from proxy.core.auth.secret_text import Secret
from proxy.core.errors import UpstreamAuthenticationError
from proxy.shell.credentials import PasswordCredentials, TokenCredentials


async def test_a_new_password_in_the_file_is_used_at_once_and_a_missing_one_is_an_error(
    tmp_path: Path,
) -> None:
    """No restart is needed; the error names the file."""
    file = tmp_path / "password"
    credentials = PasswordCredentials("PLAIN", "sluice", lambda: read_secret(str(file)))
    for text in ("old", "new"):
        file.write_text(text)
        client = await credentials.client()
        assert isinstance(client, PlainClient)
        assert client.first() == f"\0sluice\0{text}".encode()

    file = str(tmp_path / "missing")
    with pytest.raises(UpstreamAuthenticationError, match="password_file"):
        await PasswordCredentials("PLAIN", "sluice", lambda: read_secret(file)).client()


async def test_keys_are_kept_as_long_as_the_password_stays(tmp_path: Path) -> None:
    """A second exchange needs no work; one with another password does."""
    file = tmp_path / "password"
    file.write_text("old")
    credentials = PasswordCredentials("SCRAM-SHA-512", "sluice", lambda: read_secret(str(file)))
    found = []
    for text in ("old", "old", "new"):
        file.write_text(text)
        client = await credentials.client()
        assert isinstance(client, ScramClient)
        nonce = client.first().rpartition(b"r=")[2]
        work = client.work_for(b"r=" + nonce + b"x,s=c2FsdA==,i=4096")
        found.append(work is not None)
        if work is not None:
            work()
    assert found == [True, False, True]


async def test_each_exchange_has_a_nonce_of_its_own() -> None:
    """It has 192 random bits and no comma."""
    credentials = PasswordCredentials("SCRAM-SHA-256", "sluice", lambda: Secret("s"))
    nonces = {(await credentials.client()).first() for _ in range(50)}
    assert len(nonces) == 50
    assert all(
        each.count(b",") == 3 and len(each) == len(b"n,,n=sluice,r=") + 32 for each in nonces
    )


async def test_a_refused_token_is_forgotten() -> None:
    """The source is told; the exchange sends what it has given."""
    forgotten: list[bool] = []

    class Source:
        async def token(self) -> Secret:
            return Secret("a.b.c")

        def forget(self) -> None:
            forgotten.append(True)

    credentials = TokenCredentials(Source())
    client = await credentials.client()
    assert isinstance(client, OAuthBearerClient)
    assert b"Bearer a.b.c" in client.first()
    credentials.on_refused()
    assert forgotten == [True]
