"""The keys for tokens while Sluice runs: loaded at the start and again, never on the event loop.

Rules:
- They are read every `refresh_s`. A token with an unknown key has it done at once, but at most once in MIN_INTERVAL_S,
  so that made-up key ids are no way to flood the provider.
- What cannot be loaded changes nothing: the old keys stay, the log says why, and it is tried again, later each time.
  Keys that could not be loaded again for `max_stale_s` are used no more: then no token is accepted.
- One load is under way at a time. It has TOTAL_S; a thread that is stuck for longer is left behind.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Final

import structlog
import trio
from jwt import PyJWS

from proxy.config.small_files import FileError
from proxy.tokens.key_set import KeySet, KeySetError
from proxy.tokens.token_check import SignedCheck, UnsignedCheck

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from proxy.tokens.claims import ClaimRules

MIN_INTERVAL_S: Final = 10.0
TOTAL_S: Final = 20.0
FIRST_BACKOFF_S: Final = 1.0
MAX_BACKOFF_S: Final = 60.0


async def _in_thread(read: Callable[[], KeySet]) -> KeySet:
    return await trio.to_thread.run_sync(read, abandon_on_cancel=True)


class LoadedKeys:
    """Implements `bearer_tokens.TokenKeys`. `read` returns the text of the keys; it blocks, and raises as `read_keys`.

    `wake` is called after those that wait for keys were told; `report` takes their unexpected exceptions.
    """

    def __init__(
        self,
        read: Callable[[], bytes],
        algorithms: tuple[str, ...],
        rules: ClaimRules,
        *,
        refresh_s: float,
        max_stale_s: float,
        wake: Callable[[], None],
        report: Callable[[Exception], None],
        in_thread: Callable[[Callable[[], KeySet]], Awaitable[KeySet]] = _in_thread,
    ) -> None:
        self._read = read
        self._algorithms = algorithms
        self._jws = PyJWS(algorithms)
        self._rules = rules
        self._refresh_s = refresh_s
        self._max_stale_s = max_stale_s
        self._wake = wake
        self._report = report
        self._in_thread = in_thread
        self._keys: KeySet | None = None
        self._serial = 0
        self._good_until = -math.inf
        self._asked_at = -math.inf
        self._is_loading = False
        self._waiting: list[Callable[[bool], None]] = []
        self._wanted = trio.Event()
        self._lock = trio.Lock()
        self.loaded_ms = self.failures = 0
        self._in_a_row = 0
        self._log = structlog.get_logger()

    # -- TokenKeys -------------------------------------------------------------------------------

    @property
    def revision(self) -> int:
        """See TokenKeys."""
        return self._serial if trio.current_time() < self._good_until else 0

    def check_of(self, token: bytes) -> SignedCheck:
        """See TokenKeys."""
        return SignedCheck(token, self._keys, self._jws, self._rules)

    def try_renew(self, then: Callable[[bool], None]) -> bool:
        """See TokenKeys. A load that is under way or has just been asked for serves this one, too."""
        is_asked = self._is_loading or bool(self._waiting)
        if not is_asked and trio.current_time() < self._asked_at + MIN_INTERVAL_S:
            return False
        self._waiting.append(then)
        self._wanted.set()
        return True

    # -- loading ---------------------------------------------------------------------------------

    def read(self) -> KeySet:
        """Return the keys as they are now; blocks. Raises FileError and KeySetError."""
        content, known = self._read(), self._keys
        if known is not None and content == known.content:
            return known
        return KeySet(content, self._algorithms)

    def begin(self) -> None:
        """Read the keys now, before there is an event loop; blocks. Raises FileError and KeySetError."""
        self._adopt(self.read(), math.inf)

    def _adopt(self, keys: KeySet, good_until: float) -> None:
        self._serial += keys is not self._keys
        self._keys = keys
        self._good_until = good_until
        self.loaded_ms = int(time.time() * 1000)  # for people; what counts is monotonic

    async def run(self) -> None:
        """Load the keys again and again, until cancelled."""
        self._good_until = min(self._good_until, trio.current_time() + self._max_stale_s)
        while True:
            delay_s = self._refresh_s
            if self._in_a_row:
                delay_s = min(FIRST_BACKOFF_S * 2 ** min(self._in_a_row - 1, 10), MAX_BACKOFF_S)
            if self._keys is None and not self._in_a_row:
                delay_s = 0
            with trio.move_on_after(delay_s):
                await self._wanted.wait()
            await self.load()

    async def load(self) -> str:
        """Load the keys now; return why they cannot be used, "" if they can. Tell those that wait."""
        async with self._lock:
            return await self._load()

    async def _load(self) -> str:
        self._asked_at = trio.current_time()
        self._is_loading = True
        serial = self._serial
        try:
            with trio.fail_after(TOTAL_S):
                keys = await self._in_thread(self.read)
            self._adopt(keys, trio.current_time() + self._max_stale_s)
        except (KeySetError, FileError) as error:
            why = str(error)
        except trio.TooSlowError:
            why = f"no answer within {TOTAL_S:g} s"
        except Exception as error:  # noqa: BLE001 - a library's; keys that are missing close the door, not the process
            why = type(error).__name__
        else:
            why = ""
        finally:
            self._is_loading = False
            self._wanted = trio.Event()
        self._note(why, is_new=self._serial != serial)
        self._tell(is_loaded=not why)
        return why

    def _note(self, why: str, *, is_new: bool) -> None:
        if why:
            self.failures += 1
            self._in_a_row += 1
            left_s = max(0, round(self._good_until - trio.current_time())) if self._keys else 0
            effect = f"the old keys are used for {left_s} s" if left_s else "no token is accepted"
            self._log.warning("token_keys_refused", reason=why, effect=effect)
            return
        self._in_a_row = 0
        if is_new and self._keys is not None:
            self._log.info("token_keys_loaded", keys=self._keys.size)

    def _tell(self, *, is_loaded: bool) -> None:
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            try:
                then(is_loaded)
            except Exception as error:  # noqa: BLE001 - a fault costs one session only
                self._report(error)
        if waiting:
            self._wake()


class NoKeys:
    """Implements `bearer_tokens.TokenKeys` for tokens that nobody has signed."""

    revision = 1
    loaded_ms = failures = 0

    def __init__(self, rules: ClaimRules) -> None:
        self._rules = rules

    async def run(self) -> None:
        """Warn."""
        structlog.get_logger().warning(
            "unsigned_tokens_accepted",
            effect="any client can be any user",
            hint="listen.sasl.oauthbearer.accept_unsigned_tokens is for tests of applications",
        )

    async def load(self) -> str:
        """Load nothing."""
        return ""

    def check_of(self, token: bytes) -> UnsignedCheck:
        """See TokenKeys."""
        return UnsignedCheck(token, self._rules)

    def try_renew(self, then: Callable[[bool], None]) -> bool:
        """See TokenKeys. There is nothing to load."""
        return False
