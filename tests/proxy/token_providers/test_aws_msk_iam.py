"""Tokens of MSK IAM: their signatures hold before a verifier of our own, and those that do not are refused."""

import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from policies.token_providers import make_provider
from policies.tokens import Token, TokenProvider
from tests.support.shell.sigv4 import AwsKey, RefusedTokenError, verified

REGION = "eu-west-1"
ID, SECRET = "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing of this machine's own AWS settings."""
    for name in [each for each in os.environ if each.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))


def provider(**options: str) -> TokenProvider:
    """Return the plug-in, found by its name."""
    made = make_provider("aws-msk-iam", {"region": REGION, **options}, "upstream.sasl")
    assert isinstance(made, TokenProvider), made
    return made


def write_keys(folder: Path, profile: str, secret: str = SECRET, more: str = "") -> None:
    """Write a profile with a key."""
    (folder / "credentials").write_text(
        f"[{profile}]\naws_access_key_id={ID}\naws_secret_access_key={secret}\n{more}"
    )


@pytest.mark.parametrize("session_token", ["", "a/session+token=="])
def test_a_token_is_signed_by_the_keys_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, session_token: str
) -> None:
    """It holds a quarter of an hour, for one region and one action."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ID)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    if session_token:
        monkeypatch.setenv("AWS_SESSION_TOKEN", session_token)
    given = provider().token()

    assert 880 < given.lifetime_s <= 900
    assert verified(given.token, {ID: AwsKey(SECRET, session_token)}, REGION) == ID
    later = datetime.now(UTC) + timedelta(minutes=16)
    for keys, region, now in (
        ({ID: AwsKey(f"{SECRET}x", session_token)}, REGION, None),
        ({ID: AwsKey(SECRET, "another")}, REGION, None),
        ({}, REGION, None),
        ({ID: AwsKey(SECRET, session_token)}, "us-east-1", None),
        ({ID: AwsKey(SECRET, session_token)}, REGION, later),
    ):
        with pytest.raises(RefusedTokenError):
            verified(given.token, keys, region, now)


def test_a_profile_has_the_keys(tmp_path: Path) -> None:
    """As for every tool of AWS."""
    write_keys(tmp_path, "kafka")
    token = provider(profile="kafka").token().token
    assert verified(token, {ID: AwsKey(SECRET)}, REGION) == ID


def test_keys_that_come_later_are_found(tmp_path: Path) -> None:
    """Without any, the kind of failure is that of AWS's library."""
    made = provider()
    with pytest.raises(Exception, match="credentials") as caught:
        made.token()
    assert type(caught.value).__name__ == "NoCredentialsError"
    write_keys(tmp_path, "default")
    assert isinstance(made.token(), Token)


@pytest.mark.parametrize("options", [{}, {"region": ""}, {"region": REGION, "regoin": "x"}])
def test_settings_that_cannot_be_are_named(options: dict[str, object]) -> None:
    """By their path."""
    made = make_provider("aws-msk-iam", options, "upstream.sasl")
    assert isinstance(made, list)
    assert made[0].path.startswith("upstream.sasl.token_options.reg")


def test_a_missing_library_is_named_with_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sluice's own requirements do not have it."""
    monkeypatch.delitem(sys.modules, "proxy.token_providers.aws_msk_iam", raising=False)
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    made = make_provider("aws-msk-iam", {"region": REGION}, "upstream.sasl")
    assert isinstance(made, list)
    assert made[0].path == "upstream.sasl.token_provider"
    assert "it comes with kafka-sluice[msk]" in str(made[0])


def test_a_profile_that_there_is_not_is_named_at_the_first_token() -> None:
    """AWS's configuration may be written later than Sluice starts."""
    with pytest.raises(Exception, match="nobody") as caught:
        provider(profile="nobody").token()
    assert type(caught.value).__name__ == "ProfileNotFound"
