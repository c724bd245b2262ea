"""`aws-msk-iam`: tokens for Amazon MSK with IAM, signed by AWS's own library (the extra `msk`).

    upstream:
      sasl:
        mechanism: OAUTHBEARER
        token_provider: aws-msk-iam
        token_options: {region: eu-west-1}

- A token is the signed address of a request (SigV4) that holds 15 minutes. Signing needs no network.
- The credentials are those that every tool of AWS would find here: variables, a profile, a service account's role in
  Kubernetes, the machine's role. They are looked up until there are some; botocore renews those that expire.
"""

from __future__ import annotations

import time
from typing import Annotated, Any

import msgspec

from policies.tokens import Token, TokenProvider

try:
    from aws_msk_iam_sasl_signer import (  # type: ignore[import-untyped] # AWS's libraries have no types
        MSKAuthTokenProvider as signer,  # noqa: N813 - a module
    )
    from botocore.credentials import CredentialProvider  # type: ignore[import-untyped] # as above
    from botocore.exceptions import NoCredentialsError  # type: ignore[import-untyped] # as above
    from botocore.session import Session  # type: ignore[import-untyped] # as above
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(f"{error}; it comes with kafka-sluice[msk]") from error


class AwsMskIamConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The settings."""

    region: Annotated[str, msgspec.Meta(min_length=1)]
    """The region of the cluster, such as `eu-west-1`."""
    profile: str = ""
    """A profile of AWS's configuration, which may name a role to assume. Empty: `AWS_PROFILE`, or the default."""


class AwsMskIam(TokenProvider):
    """Signs tokens."""

    Config = AwsMskIamConfig

    def __init__(self, config: AwsMskIamConfig) -> None:
        super().__init__(config)
        self._region = config.region
        session = Session(profile=config.profile or None)
        session.set_config_variable("region", config.region)  # for STS
        self._credentials = _Found(session)

    def token(self) -> Token:
        """Return a token of the credentials that are valid now. Raises what AWS's libraries raise."""
        text, expires_ms = signer.generate_auth_token_from_credentials_provider(
            self._region, self._credentials
        )
        return Token(text, expires_ms / 1000 - time.time())


class _Found(CredentialProvider):  # type: ignore[misc] # as above
    """The credentials of a session. Keys that belong together are read at once."""

    def __init__(self, session: Any) -> None:  # noqa: ANN401 - as above
        super().__init__(session)

    def load(self) -> object:
        """Return the keys."""
        found = self.session.get_credentials()
        if found is None:
            raise NoCredentialsError
        return found.get_frozen_credentials()
