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
    from proxy.config.security import UpstreamSasl
    from proxy.core.engine import Engine
    from proxy.shell.credentials import Credentials
    from proxy.shell.custody import Custody
    from proxy.shell.event_loop import EventLoop
    from proxy.shell.tokens import TokenSource


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
    """Return the credentials. Raises FileError if the secret cannot be read now; later it is read again."""
    from proxy.shell.credentials import (  # noqa: PLC0415 - see above
        PasswordCredentials,
        TokenCredentials,
    )

    if sasl.mechanism == "OAUTHBEARER":
        return TokenCredentials(_tokens(sasl))
    read = partial(read_secret, sasl.password_file, PASSWORD_VARIABLE)
    read()
    return PasswordCredentials(sasl.mechanism, sasl.username, read)


def fetch_token(sasl: UpstreamSasl | None) -> str:
    """Return a new token of OAUTHBEARER, in a thread that may block. Raises TokenError, ValueError without a source."""
    if sasl is None:
        raise ValueError("upstream.sasl has no source of tokens")
    return trio.run(_tokens(sasl).token).reveal()


def _tokens(sasl: UpstreamSasl) -> TokenSource:
    from proxy.shell.tokens import TokenEndpoint, TokenFile  # noqa: PLC0415 - see above

    if sasl.token_file:  # it may be written later than Sluice starts
        return TokenFile(sasl.token_file, partial(read_secret, sasl.token_file))
    read = partial(read_secret, sasl.client_secret_file, CLIENT_SECRET_VARIABLE)
    read()
    return TokenEndpoint(sasl.token_endpoint_url, sasl.client_id, read, sasl.scope)
