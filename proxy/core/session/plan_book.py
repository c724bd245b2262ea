"""The plans of one session, by API and version; a request that fits none gets one here."""

from __future__ import annotations

from dataclasses import replace
from struct import Struct
from typing import TYPE_CHECKING, Final, Protocol

from policies.api import Need
from proxy.core.errors import ClientProtocolError
from proxy.core.purgatory.timing_wheel import NEVER_MS
from proxy.core.session import misrouting, paths
from proxy.core.session.plan import ACKS_ALL, SASL, Plan
from wire import apis, fetch, header, meant_broker, produce, versions
from wire.apis import SIGN_ON, ApiKey
from wire.sasl import UNSAID_TOKEN_BYTES

if TYPE_CHECKING:
    from policies.api import Peer
    from policies.chain import Hooks
    from proxy.core.session.sasl_side import SaslSide
    from proxy.core.session.shared_state import SharedState
    from proxy.core.stats.usage import Usage
    from wire.apis import Api

_INT32 = Struct(">i").unpack_from
_TWO_INT32 = Struct(">ii").unpack_from
_KIND = Struct(">i").unpack_from  # api_key << 16 | api_version
_NO_KIND: Final = -1  # a request of this kind has no plan
# A member of an enum is found more slowly.
_PRODUCE: Final = ApiKey.PRODUCE
_FETCH: Final = ApiKey.FETCH
_API_VERSIONS: Final = ApiKey.API_VERSIONS
_SASL_HANDSHAKE: Final = ApiKey.SASL_HANDSHAKE
_SASL_AUTHENTICATE: Final = ApiKey.SASL_AUTHENTICATE
MEASURED_EVERY = 16
"""One session in this many always has its policies measured."""
MIN_FRAME_BYTES = 10
"""The size of the shortest request: key, version, correlation id and a null client id."""
MAX_KEPT_PREFIX_BYTES = 1024
"""The longest prefix by which a plan is found again."""
MIN_SIGN_ON_INTERVAL_MS = 1000
"""Time from one sign-on to the next; a SaslHandshake that comes earlier is counted as any other request (Kafka:
KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS)."""


class Speaker(Protocol):
    """The sender of the requests. `on_client_id` replaces its peer, and forgets its plans."""

    @property
    def shared(self) -> SharedState: ...
    @property
    def peer(self) -> Peer: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def sasl(self) -> SaslSide | None: ...
    def on_client_id(self, client_id: str) -> None: ...
    def sasl_now(self) -> SaslSide: ...


class PlanBook:
    """Plans, in `by_kind` by `api_key << 16 | api_version`. `clear` does not reset the two other attributes.

    `keeps_partitions`: parts of some requests are kept until the broker replies. `shortest_wait_ms`: the shortest time
    from forwarding a request to its deadline (`proxy.core.session.broker_waits`).
    `last_plan` is the one of `by_kind` for `last_kind`, which the fast loop has looked up last (None: there was none).
    Most requests of a session are of one kind, and comparing a number costs less than the lookup.
    """

    __slots__ = (
        "_handshake_ms",
        "_has_greeted",
        "_speaker",
        "by_kind",
        "keeps_partitions",
        "last_kind",
        "last_plan",
        "shortest_wait_ms",
    )

    def __init__(self, speaker: Speaker) -> None:
        self.by_kind: dict[int, Plan] = {}
        self.last_kind = _NO_KIND
        self.last_plan: Plan | None = None
        self._speaker = speaker
        self._has_greeted = False  # an ApiVersions has arrived
        self._handshake_ms = -MIN_SIGN_ON_INTERVAL_MS  # when the last sign-on began
        self.keeps_partitions = False
        self.shortest_wait_ms = speaker.shared.request_timeout_ms or NEVER_MS

    def release(self) -> None:
        """Forget the plans and the sender, because the session is closed."""
        self.clear()
        try:  # noqa: SIM105 - `suppress` costs each connection three calls
            del self._speaker
        except AttributeError:  # it is told twice
            pass

    def clear(self) -> None:
        """Forget the plans: what begins from now on gets new ones."""
        self.by_kind.clear()
        self._forget_last()

    def _forget_last(self) -> None:
        self.last_kind, self.last_plan = _NO_KIND, None

    def note_wait(self, wait_ms: int) -> None:
        """Lower `shortest_wait_ms` to this deadline of a request, if it is shorter."""
        if 0 < wait_ms < self.shortest_wait_ms:
            self.shortest_wait_ms = wait_ms

    def signs_on(self, api_key: int) -> bool:
        """Return whether the next request, of this API, is part of a sign-on, so that no quota counts it.

        These are the first ApiVersions, and a SaslHandshake where SASL is expected, once a second, with the tokens
        after it. An exchange that has begun frees no other request: a client may begin one with each write.
        """
        if api_key not in SIGN_ON:
            return False
        speaker = self._speaker
        shared, sasl = speaker.shared, speaker.sasl
        if api_key == _SASL_AUTHENTICATE:
            return sasl is not None and sasl.is_authenticating
        if api_key == _API_VERSIONS:
            return not self._has_greeted
        expects_sasl = shared.sasl_server is not None or not shared.has_custody
        is_early = shared.now_ms - self._handshake_ms < MIN_SIGN_ON_INTERVAL_MS
        return expects_sasl and not is_early

    def on_sign_on(self, plan: Plan) -> None:
        """Note that a request of SIGN_ON has arrived."""
        if plan.api.key == _API_VERSIONS:
            self._has_greeted = True
        elif plan.api.key == _SASL_HANDSHAKE and plan.is_sign_on:
            self._handshake_ms = self._speaker.shared.now_ms

    def try_meet(self, kind: int, buf: bytearray, pos: int, end: int, size: int) -> bool:
        """Make the plan of the request at `pos`, the first of its kind, if its head ends before `end`.

        Return whether it may take the fast path now. Raises as `find`.
        """
        if (
            not MIN_FRAME_BYTES <= size <= self._speaker.shared.request_max_bytes
            or kind not in apis.BY_KEY_AND_VERSION
            or kind >> 16 in SIGN_ON
        ):
            return False
        # A longer prefix is not kept: the general path takes its request.
        limit = min(pos + 4 + size, end, pos + 12 + MAX_KEPT_PREFIX_BYTES)
        found = self.find(buf, pos, limit, size)
        return found is not None and found[0].request_path <= paths.ASKED

    def find(self, buf: bytearray, pos: int, limit: int, size: int) -> tuple[Plan, int] | None:
        """Return the plan for the head at `pos` and where its body begins; None if the head is incomplete.

        Raises ClientProtocolError for an API or version that is not offered, and for a frame over its API's limit;
        SessionFault for a request that is not allowed before the client is authenticated.
        """
        speaker = self._speaker
        shared = speaker.shared
        kind = _KIND(buf, pos + 4)[0]
        api_key, api_version = kind >> 16, kind & 0xFFFF
        api = apis.BY_KEY_AND_VERSION.get(kind)
        if api is None:
            plan = self._plan_for_unknown(api_key, api_version)
            _check_size(plan.api, size, plan.max_bytes)
            return plan, pos
        highest = shared.rewrites.offered[api_key][1]
        if api_version > highest:
            words = f"a policy allows at most v{highest}"
            raise ClientProtocolError(f"{api.name} v{api_version} is not offered: {words}")
        max_bytes = self._max_bytes(api)
        _check_size(api, size, max_bytes + header.MAX_HEADER_BYTES)
        body_at = header.body_at(buf, pos, limit, api.request_header_version)
        if body_at is None:
            return None
        # The limit is the body's: a client id of 32,767 bytes is legal in every request.
        max_bytes = min(max_bytes + body_at - pos - 4, shared.request_max_bytes)
        _check_size(api, size, max_bytes)
        acks: int | None = None
        head_end, wait_ms, clamped = body_at, 0, False
        if api.key == _PRODUCE:
            read = produce.read_acks(buf, body_at, limit, api.version)
            if read is None:
                return None
            acks, head_end = read
            if acks == ACKS_ALL:
                head_end += 4
                if head_end > limit:
                    return None
                timeout_ms = _INT32(buf, head_end - 4)[0]
                wait_ms = shared.graces.produce_wait_ms(timeout_ms)
                clamped = timeout_ms > shared.graces.max_ms
        elif api.key == _API_VERSIONS and api.version >= meant_broker.SINCE:
            if limit < pos + 4 + size:
                return None  # what follows the head decides
        elif api.key == _FETCH and api.version >= 1:
            head_end = body_at + fetch.head_offsets(api.version).min_bytes + 4
            if head_end > limit:
                return None
            max_wait_ms, min_bytes = _TWO_INT32(buf, head_end - 8)
            if max_wait_ms > 0 and min_bytes > 0:
                wait_ms = shared.graces.fetch_wait_ms(max_wait_ms)
                clamped = max_wait_ms > shared.graces.max_ms
        known = self.by_kind.get(kind)
        if (
            known is not None  # seen before, but this one is cut, or not for the fast loop
            and limit - pos >= 4 + known.min_bytes
            and buf.startswith(known.prefix, pos + 12)
        ):
            return known, body_at
        client_id = header.client_id_of(buf, pos, limit).decode(errors="replace")
        if client_id != speaker.peer.client_id:
            speaker.on_client_id(client_id)
        listens = api.key in SASL
        rewrites = speaker.sasl_now() if listens else shared.rewrites
        rewrite = rewrites.rewrite_for(api)
        prefix = bytes(memoryview(buf)[pos + 12 : head_end])
        peer = speaker.peer
        signs_on = self.signs_on(api.key)
        hooks = _hooks(shared, api.key, peer.session_id, signs_on=signs_on)
        plan = Plan(
            api,
            peer,
            prefix,
            acks,
            hooks,
            rewrite,
            max_bytes,
            shared,
            speaker.usage,
            wait_ms,
            signs_on=signs_on,
        )
        if api.removed_in:
            shared.observer.on_removed_version(peer, api)
        plan.body_at = body_at - pos
        if api.key == _API_VERSIONS and api.version >= meant_broker.SINCE:
            misrouting.judge(plan, shared.topology, buf, body_at, limit)
        plan.ends_at_deadline = clamped and api.key == _FETCH
        self.keeps_partitions = self.keeps_partitions or plan.keeps_partitions
        self.note_wait(
            wait_ms // 2 if plan.keeps_partitions else wait_ms
        )  # see `kept_produce.on_sent`
        shared.expired.clamped += clamped
        # The next request of SIGN_ON may be no part of a sign-on. A long client id would be kept, and not counted, once
        # for each API and version: such a client gets a new plan with each request.
        if api.key not in SIGN_ON and len(prefix) <= MAX_KEPT_PREFIX_BYTES:
            self.by_kind[kind] = plan
            self._forget_last()
        return plan, body_at

    def _max_bytes(self, api: Api) -> int:
        shared = self._speaker.shared
        max_bytes = min(shared.request_max_bytes, api.request_max_bytes or shared.request_max_bytes)
        sasl = self._speaker.sasl
        if sasl is not None and (sasl.is_authenticating or api.key in SASL):
            return min(max_bytes, sasl.max_bytes(api.key, api.name))
        if api.key == _SASL_AUTHENTICATE:
            return min(max_bytes, UNSAID_TOKEN_BYTES)
        return max_bytes

    def _plan_for_unknown(self, api_key: int, api_version: int) -> Plan:
        """Return the plan of a newer ApiVersions, or of a key in `pass_unknown` that the table does not have.

        Raises ClientProtocolError for any other.
        """
        speaker = self._speaker
        shared = speaker.shared
        known = apis.find(_API_VERSIONS, 0)
        assert known is not None  # noqa: S101 - the table's first law
        api = replace(known, key=api_key, version=api_version, name=apis.name_of(api_key))
        signs_on = self.signs_on(api_key)
        if api_key == _API_VERSIONS:
            hooks = _hooks(shared, api_key, speaker.peer.session_id, signs_on=signs_on)
        elif api_key in shared.rewrites.pass_unknown and api_key not in apis.OFFERED:
            # No facts, so no look inside: it is paired by correlation id alone, and judged by its header.
            api = replace(api, request_max_bytes=None)
            hooks = shared.chain.hooks(api_key)
        else:
            raise ClientProtocolError(f"{apis.name_of(api_key)} v{api_version} is not offered")
        max_bytes = self._max_bytes(api) + header.MAX_HEADER_BYTES
        hooks = hooks._replace(need=Need.HEADER)
        peer, usage = speaker.peer, speaker.usage
        plan = Plan(api, peer, b"", None, hooks, None, max_bytes, shared, usage, signs_on=signs_on)
        if api_key == _API_VERSIONS:
            plan.answer = versions.unsupported_version(shared.rewrites.offered)
        return plan


def _check_size(api: Api, size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise ClientProtocolError(f"{api.name} request size {size} exceeds {max_bytes}")


def _hooks(shared: SharedState, api_key: int, session_id: int, *, signs_on: bool) -> Hooks:
    """Return the hooks of an API for the plans of a session. `signs_on`: see `Chain.hooks`.

    They are measured at every MEASURED_EVERY-th session, which has no gates, and while a slow hook is looked for at
    all. Then the others keep their gates: those are quick, and without them all requests would cost twice as much
    on a machine that is too busy already.
    """
    if session_id % MEASURED_EVERY == 0:
        return shared.chain.hooks(api_key, timed=True, signs_on=signs_on)
    hooks = shared.chain.hooks(api_key, signs_on=signs_on)
    if shared.measuring_until_ms == 0:
        return hooks
    timed = shared.chain.hooks(api_key, timed=True, signs_on=signs_on)
    return timed._replace(open_gate=hooks.open_gate)
