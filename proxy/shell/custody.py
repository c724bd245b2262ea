"""Credential custody: Sluice itself authenticates to the brokers, before a session and again during it.

Rules:
- A connection is authenticated before the event loop gets it.
- Until a broker has accepted the credentials, and after it has refused them, one connection at a time tries them there;
  the others wait for its result. So a wrong password does not lock an account, however many clients connect.
- After a refusal they are not tried there again for a second, then two, four, ... at most MAX_BACKOFF_S. Meanwhile
  connections fail at once.
- Keys are derived in a thread.
"""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING, Final

import trio

from proxy.core.auth.upstream_authentication import UpstreamAuthentication
from proxy.core.errors import UpstreamAuthenticationError
from proxy.shell.dial import receive_some, send_all

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from proxy.shell.credentials import Credentials
    from proxy.shell.transport import Transport

FIRST_BACKOFF_S: Final = 1.0
MAX_BACKOFF_S: Final = 60.0
MAX_ADDRESSES: Final = 1024


class _Gate:
    """The credentials at one broker: accepted, refused, or not tried."""

    def __init__(self) -> None:
        self.first = trio.Lock()  # held by the connection that tries them alone
        self.is_proven = False
        self.failures = 0
        self.again_at = -math.inf
        self.why = ""

    def check(self) -> None:
        """Raise UpstreamAuthenticationError if the credentials must not be tried now."""
        left_s = self.again_at - trio.current_time()
        if left_s > 0:
            raise UpstreamAuthenticationError(f"not tried again for {left_s:.1f} s: {self.why}")

    def accept(self) -> None:
        self.is_proven = True
        self.failures = 0

    def refuse(self, why: str) -> None:
        delay_s = min(FIRST_BACKOFF_S * 2 ** min(self.failures, 10), MAX_BACKOFF_S)
        self.is_proven = False
        self.failures += 1
        self.again_at = trio.current_time() + delay_s
        self.why = why


class Custody:
    """Authenticates connections with `credentials`. Implements `reauthentication.Custodian`.

    `settle` is called around each change of a session outside the event loop; `report` takes unexpected exceptions.
    """

    def __init__(
        self,
        credentials: Credentials,
        settle: Callable[[], None],
        report: Callable[[Exception], None],
    ) -> None:
        self._credentials = credentials
        self._settle = settle
        self._report = report
        self._gates: dict[str, _Gate] = {}
        self._nursery: trio.Nursery | None = None

    async def serve(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve renewals until cancelled."""
        async with trio.open_nursery() as self._nursery:
            task_status.started()
            await trio.sleep_forever()

    # -- fresh connections ---------------------------------------------------------------------------

    async def authenticate(self, broker: Transport, address: str) -> int:
        """Authenticate a fresh connection; return how long that holds in ms, 0: as long as the connection.

        Raises SessionFault if the broker refuses or lies, OSError if the connection is lost.
        """
        gate = self._gate(address)
        gate.check()
        if not gate.is_proven:
            async with gate.first:
                gate.check()
                if not gate.is_proven:
                    return await self._authenticate(broker, gate)
        return await self._authenticate(broker, gate)

    async def _authenticate(self, broker: Transport, gate: _Gate) -> int:
        authentication = UpstreamAuthentication(await self._credentials.client())
        try:
            await converse(broker, authentication)
        except UpstreamAuthenticationError as error:
            gate.refuse(str(error))
            self._credentials.on_refused()
            raise
        gate.accept()
        return authentication.session_lifetime_ms

    def _gate(self, address: str) -> _Gate:
        gate = self._gates.get(address)
        if gate is None:
            while len(self._gates) >= MAX_ADDRESSES:
                del self._gates[next(iter(self._gates))]
            gate = self._gates[address] = _Gate()
        return gate

    # -- Custodian -----------------------------------------------------------------------------------

    def prepare(self, address: str, ready: Callable[[UpstreamAuthentication | str], None]) -> None:
        """See Custodian."""

        async def prepare() -> None:
            found: UpstreamAuthentication | str
            try:
                self._gate(address).check()
                found = UpstreamAuthentication(await self._credentials.client())
            except UpstreamAuthenticationError as error:
                found = str(error)
            self._tell(lambda: ready(found))

        self._start(prepare)

    def work(self, work: Callable[[], None], done: Callable[[], None]) -> None:
        """See Custodian."""

        async def compute() -> None:
            await trio.to_thread.run_sync(work, abandon_on_cancel=True)
            self._tell(done)

        self._start(compute)

    def on_refused(self, address: str, why: str) -> None:
        """See Custodian."""
        self._gate(address).refuse(why)
        self._credentials.on_refused()

    def jitter(self) -> float:
        """See Custodian."""
        return random.random()  # noqa: S311 - to spread renewals, no secret

    def _start(self, task: Callable[[], Awaitable[None]]) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(self._guard, task)

    async def _guard(self, task: Callable[[], Awaitable[None]]) -> None:
        try:
            await task()
        except Exception as error:  # noqa: BLE001 - it costs one renewal, and the session ends in time
            self._report(error)

    def _tell(self, call: Callable[[], None]) -> None:
        """Call a session outside the event loop, at the present time."""
        self._settle()
        call()
        self._settle()


async def converse(broker: Transport, authentication: UpstreamAuthentication) -> None:
    """Authenticate a connection that the event loop does not have. Raises SessionFault, and OSError such as
    ConnectionResetError.
    """
    while not authentication.done:
        if authentication.request is not None:
            await send_all(broker, authentication.take_request())
        elif authentication.work is not None:
            await trio.to_thread.run_sync(authentication.work, abandon_on_cancel=True)
            authentication.resume()
        else:
            data = await receive_some(broker)
            if not data:
                raise ConnectionResetError("it closed the connection during the authentication")
            authentication.feed(data)
