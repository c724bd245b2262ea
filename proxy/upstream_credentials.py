"""The credentials in `upstream.sasl`, as the dialer and the sessions use them.

A Sluice without them keeps none of the code in memory: it is imported here when it is needed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import trio

from proxy.config.small_files import CLIENT_SECRET_VARIABLE, PASSWORD_VARIABLE, read_secret
from proxy.shell.driver import nudge

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.config.security import UpstreamSasl
    from proxy.core.engine import Engine
    from proxy.shell.credentials import Credentials
    from proxy.shell.custody import Custody
    from proxy.shell.event_loop import EventLoop
    from proxy.shell.tokens import FetchedToken, TokenSource


def custody_of(sasl: UpstreamSasl | None, engine: Engine, event_loop: EventLoop) -> Custody | None:
    """Return the custody of these credentials, None without; no SASL request of a client is forwarded then.

    Raises FileError if the secret cannot be read.
    """
    if sasl is None:
        return None
    from proxy.shell.custody import Custody  # noqa: PLC0415 - see above

    engine.has_custody = True
    return Custody(credentials_of(sasl), partial(nudge, event_loop), engine.report)


def credentials_of(sasl: UpstreamSasl) -> Credentials:
    """Return the credentials.

    Raises FileError if the secret cannot be read now; later it is read again. Raises SettingsError for a plug-in that
    cannot be used.
    """
    from proxy.shell.credentials import (  # noqa: PLC0415 - see above
        PasswordCredentials,
        TokenCredentials,
    )

    if sasl.mechanism == "OAUTHBEARER":
        return TokenCredentials(_tokens(sasl, _fetch_of(sasl)))
    read = partial(read_secret, sasl.password_file, PASSWORD_VARIABLE)
    read()
    return PasswordCredentials(sasl.mechanism, sasl.username, read)


class TokenFetch:
    """Gets tokens of OAUTHBEARER for a thread that may block."""

    def __init__(self, sasl: UpstreamSasl | None) -> None:
        self._sasl = sasl
        self._fetch: Callable[[], FetchedToken] | None = None

    def __call__(self) -> str:
        """Return a new token. Raises TokenError, ValueError without a source, FileError and SettingsError."""
        if self._sasl is None:
            raise ValueError("upstream.sasl has no source of tokens")
        if self._fetch is None:
            self._fetch = _fetch_of(self._sasl)
        return trio.run(_tokens(self._sasl, self._fetch).token).reveal()


def _tokens(sasl: UpstreamSasl, fetch: Callable[[], FetchedToken] | None) -> TokenSource:
    from proxy.shell.tokens import FetchedTokens, TokenFile  # noqa: PLC0415 - see above

    if fetch is None:  # it may be written later than Sluice starts
        return TokenFile(sasl.token_file, partial(read_secret, sasl.token_file))
    return FetchedTokens("token_provider" if sasl.token_provider else "token_endpoint_url", fetch)


def _fetch_of(sasl: UpstreamSasl) -> Callable[[], FetchedToken] | None:
    """Return what gets a token and blocks; None if a file has it."""
    if sasl.token_file:
        return None
    if sasl.token_provider:
        from policies.token_providers import make_provider  # noqa: PLC0415 - only with a plug-in
        from policies.validation import SettingsError  # noqa: PLC0415 - as above
        from proxy.shell.token_calls import TokenCalls  # noqa: PLC0415 - as above

        made = make_provider(sasl.token_provider, sasl.token_options, "upstream.sasl")
        if isinstance(made, list):
            raise SettingsError(made)
        return TokenCalls(sasl.token_provider, made.token).fetch
    from proxy.shell.token_endpoint import TokenEndpoint  # noqa: PLC0415 - see above

    read = partial(read_secret, sasl.client_secret_file, CLIENT_SECRET_VARIABLE)
    read()
    return TokenEndpoint(sasl.token_endpoint_url, sasl.client_id, read, sasl.scope).fetch
