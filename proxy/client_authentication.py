"""The authentication of clients by Sluice, as `listen.sasl` wants it: the users of a file, and the keys for tokens.

Rules:
- The file is read every POLL_S seconds, and at each reload. A file that cannot be used changes nothing: the old users
  stay, and the log says why. The same holds for the keys, until they are too old (`proxy.tokens`).
- A user that is no longer in the file is disconnected at once. A changed password counts at the next authentication.
- A Sluice that authenticates no clients keeps none of the code in memory, and one without OAUTHBEARER none of that for
  tokens: it is imported when it is needed.
- The key under which verified passwords are remembered is made at the start, and is in memory only. So is the secret of
  stand-ins for a file that has none.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

import structlog
import trio

from proxy.config.small_files import FileError
from proxy.shell.driver import nudge

if TYPE_CHECKING:
    from proxy.config.client_logins import ListenSasl
    from proxy.core.auth.sasl_server import SaslServer
    from proxy.core.engine import Engine
    from proxy.shell.check_thread import CheckThread
    from proxy.shell.event_loop import EventLoop
    from proxy.tokens.loaded_keys import LoadedKeys, NoKeys

POLL_S: Final = 5.0
KEY_BYTES: Final = 32
NONCE_BYTES: Final = 24


class ClientAuthentication:
    """Gives the engine a `SaslServer` if `settings` is not None. Raises FileError for a file that is none."""

    def __init__(self, settings: ListenSasl | None, engine: Engine, event_loop: EventLoop) -> None:
        self._engine = engine
        self._event_loop = event_loop
        self._path = self._text = ""
        self._stand_in_key = secrets.token_bytes(KEY_BYTES)
        self._server: SaslServer | None = None
        self._thread: CheckThread | None = None
        self._keys: LoadedKeys | NoKeys | None = None
        self._log = structlog.get_logger()
        if settings is None:
            return
        from proxy.core.auth.passwords import Passwords  # noqa: PLC0415 - see above
        from proxy.core.auth.sasl_server import SaslServer  # noqa: PLC0415 - see above
        from proxy.core.auth.stored_users import Users  # noqa: PLC0415 - see above
        from proxy.shell.check_thread import CheckThread  # noqa: PLC0415 - see above

        self._thread = CheckThread(self._wake, engine.report)
        engine.newcomers.authenticates = True
        users = Users(())
        if settings.users_file:
            from proxy.config.users_file import load_text, users_of  # noqa: PLC0415 - see above

            self._path = settings.users_file
            self._text = load_text(self._path)
            users = users_of(self._path, self._text, self._stand_in_key)
        self._server = SaslServer(
            settings.mechanisms,
            users,
            Passwords(secrets.token_bytes(KEY_BYTES), self._thread.submit),
            lambda: secrets.token_urlsafe(NONCE_BYTES),
            settings.max_reauth_ms,
        )
        if settings.oauthbearer is not None:
            from proxy.tokens.setup import keys_of, tokens_of  # noqa: PLC0415 - see above

            self._keys = keys_of(settings.oauthbearer, self._wake, engine.report)
            self._server.tokens = tokens_of(settings.oauthbearer, self._keys, self._thread)
        engine.authenticate_clients(self._server)

    def _wake(self) -> None:
        nudge(self._event_loop)

    async def run(self) -> None:
        """Verify passwords and tokens, and load what has changed, until cancelled."""
        if self._thread is None:
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._thread.run)
            if self._keys is not None:
                nursery.start_soon(self._keys.run)
            while self._path:
                await trio.sleep(POLL_S)
                await self._load_users()

    async def load_changed(self) -> str:
        """Load what has changed since the last call; return why it cannot be used, "" if it can."""
        why = await self._load_users() if self._path else ""
        if self._keys is not None and not why:
            why = await self._keys.load()
            why = why and f"listen.sasl.oauthbearer.jwks: {why}"
        return why

    async def _load_users(self) -> str:
        server = self._server
        if server is None:
            return ""
        from proxy.config.users_file import load_text, users_of  # noqa: PLC0415 - see above

        try:
            text = await trio.to_thread.run_sync(load_text, self._path)
            if text == self._text:
                return ""
            users = await trio.to_thread.run_sync(users_of, self._path, text, self._stand_in_key)
        except FileError as error:
            self._log.warning("users_refused", reason=str(error), effect="the old users stay")
            return f"listen.sasl.users_file: {error}"
        self._text, server.users = text, users
        removed = self._engine.disconnect_removed_users(users)
        self._wake()
        self._log.info("users_loaded", users=len(users), disconnected=removed)
        return ""
