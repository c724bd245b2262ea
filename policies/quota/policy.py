"""`quota`: limits the requests and bytes per second of each user and client id.

Rules (KIP-124; the settings are in `config`):
- `smooth_rule` or `kafka_rule` judges requests. This module has what both need: the limits, the APIs that they
  concern, and the effect of a live change.
- Every request counts, also one that another policy refuses, wherever its entry stands: this policy is asked first.
- Without a limit of some kind its APIs are not judged. Without any limit only the APIs that manage quotas are, and they
  are answered here (`admin`), if no entry before this one refuses them.
- Requests of a sign-on never come here (`Policy.asked_first`): the first ApiVersions of a connection, and the SASL
  requests that authenticate it or do so again. If clients authenticate, requests before that are charged to no bucket.
  So a flood of unauthenticated connections cannot delay a sign-on.
- Only named principals can be exempt: a client id, a replica id or an API proves nothing about the sender.
- Debts outlive connections and reloads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import proxy

from policies.api import EffectiveQuota, Need, Policy, PolicyConfigError
from policies.crowd import Crowd, users_of
from policies.quota import overrides
from policies.quota.admin import APIS as ADMIN_APIS
from policies.quota.admin import QuotaAdmin, QuotaAdminSettings
from policies.quota.bucket_status import bucket_statuses
from policies.quota.config import QuotaConfig, ineffective_limits
from policies.quota.entity import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_RATE,
    ClientQuotas,
    tags_text,
)
from policies.quota.kafka_rule import KafkaRule
from policies.quota.manager import ClientQuotaManager
from policies.quota.smooth_rule import SmoothRule
from policies.verdicts import short_repr
from policies.who_settings import claim_hints
from wire.apis import RECORDS_IN_REPLIES, RECORDS_IN_REQUESTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.api import (
        Forward,
        Gate,
        Host,
        Peer,
        Reject,
        Request,
        Respond,
        Response,
        Throttle,
        Verdict,
    )
    from policies.quota.alter import Change
    from policies.quota.bucket_status import BucketStatus
    from policies.quota.sensors import BucketMetrics

SWEEP_MS: Final = 1000
"""Interval in ms at which some of the buckets are checked for expiry."""

_COUNTED: Final = frozenset(range(256))
"""Every API, also those outside the table, because `pass_unknown_apis` may admit them."""
_NONE: Final[frozenset[int]] = frozenset()


class Quota(Policy):
    """Throttles clients above their limits, and answers requests about quotas."""

    Config = QuotaConfig
    tick_ms = SWEEP_MS
    asked_first = True
    answers = ADMIN_APIS

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        if not isinstance(config, QuotaConfig):
            raise PolicyConfigError("", f"expected a QuotaConfig, got {short_repr(config)}")
        self.quotas = ClientQuotas()
        self._config = config
        self._lines = tuple(config.lines())
        for _, line in self._lines:
            for key, value in line.limits():
                self.quotas.set(line.entity, key, value)
        if config.quotas_file is not None:
            from policies.quota import quota_file  # noqa: PLC0415 - start-up: only with such a file

            quota_file.set_limits(self.quotas, config.quotas_file, host)
        self._enforcement = config.enforcement
        smooth = config.enforcement == "entity"
        window_ms = config.quota_window_size_seconds * 1000
        self.manager = ClientQuotaManager(
            self.quotas,
            smooth=smooth,
            burst_ms=config.burst_seconds * 1000,
            samples=config.quota_window_num,
            window_ms=window_ms,
            exempt=users_of(config.cluster_principals, config.teams),
            max_default_buckets=config.max_default_buckets,
            policy=host.name,
        )
        self.rule: SmoothRule | KafkaRule = (
            SmoothRule(self.manager, host, config.burst_seconds * 1000)
            if smooth
            else KafkaRule(
                self.manager,
                samples=config.quota_window_num,
                window_ms=window_ms,
                sequential=config.coexistence == "sequential",
            )
        )
        # They lead directly to the rule: each further call costs a fifth of a request's time budget.
        self.on_request = self.rule.on_request  # type: ignore[method-assign] # see above
        self.on_response = self.rule.on_response  # type: ignore[method-assign] # see above
        self._admins = Crowd(config.admins, config.teams)
        self._admin = QuotaAdmin(
            proxy(self),  # no cycle
            QuotaAdminSettings(
                self._admins,
                config.replicas,
                config.forward_other_keys,
                host.name,
                host.observes,
            ),
        )
        self._state_file = config.state_file
        if config.state_file is not None:
            try:
                saved = host.load(config.state_file)
            except OSError as error:
                raise PolicyConfigError(
                    "state_file", f"cannot be read: {error.strerror}"
                ) from error
            if saved is not None:
                for entity, limits in overrides.decode(saved).items():
                    for key, value in limits.items():
                        self.quotas.set_override(entity, key, value)
        self._update_interests()

    def on_request(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        """Return the rule's verdict."""
        return self.rule.on_request(request, peer, now_ms)

    def on_answer(self, request: Request, peer: Peer, now_ms: int) -> Forward | Respond | Reject:
        """Answer a request about quotas."""
        return self._admin.on_request(request, peer, now_ms)

    def on_response(
        self, request: Request, response: Response, peer: Peer, now_ms: int
    ) -> Forward | Throttle:
        """Return the rule's verdict."""
        return self.rule.on_response(request, response, peer, now_ms)

    def gate(self, api_key: int, acks: int | None, peer: Peer) -> Gate | None:
        """Return the rule's gate."""
        return None if api_key in ADMIN_APIS else self.rule.maybe_gate(api_key, peer)

    def effective_quota(self, user: str, client_id: str) -> EffectiveQuota | None:
        """Return the request rate that holds for them; None for exempt principals, and if there is no limit."""
        resolved = self.quotas.resolve(REQUEST_RATE, user, client_id)
        if resolved is None or user in self.manager.exempt:
            return None
        name = tags_text(resolved.tags)
        return EffectiveQuota(self._enforcement, name, resolved.limit, self.quotas.digest())

    def on_disconnect(self, peer: Peer, now_ms: int) -> None:
        """Remove the client's waiting request from its queue."""
        self._admins.forget(peer)
        self.rule.on_disconnect(peer, now_ms)

    def on_tick(self, now_ms: int) -> None:
        """Drop buckets that were unused for an hour."""
        self.manager.expire(now_ms)

    def adopt(self, previous: Policy) -> None:
        """Take over counts, debts and live changes."""
        if not isinstance(previous, Quota):
            return
        # The state file may have changed since it was read.
        replace_all = self._state_file == previous.state_file
        self.quotas.take_overrides(previous.quotas, replace_all=replace_all)
        self.manager.adopt(previous.manager)
        self._update_interests()
        if isinstance(previous.rule, SmoothRule):
            if isinstance(self.rule, SmoothRule):
                self.rule.adopt(previous.rule)
                self.host.call_at(0, self.rule.on_limits_changed)
            else:  # requests do not wait under Kafka's rule
                self.host.call_at(0, previous.rule.release)
        self.host.call_at(0, self._review_throttles)
        if self._state_file is not None and self._state_file != previous.state_file:
            # A file that is new to this reload must contain the present overrides. It is written last: if
            # that fails, the rest has been taken over.
            self.host.save(self._state_file, overrides.encode(self.quotas.overrides))

    def change(self, changes: Sequence[Change], now_ms: int) -> None:
        """Set live overrides (None removes one); they apply at once to all clients, waiting requests included.

        They are saved first. Raises OSError if that fails; then nothing has changed.
        """
        if self._state_file is not None:
            after = overrides.apply_changes(self.quotas.overrides, changes)
            self.host.save(self._state_file, overrides.encode(after))
        for entity, key, value in changes:
            self.quotas.set_override(entity, key, value)
        self.manager.on_limits_changed()
        if self._update_interests():
            self.host.reconsider()
        self.rule.on_limits_changed(now_ms)
        self._review_throttles(now_ms)

    @property
    def state_file(self) -> str | None:
        """Path of the file for live changes; None: they last as long as the process."""
        return self._state_file

    def hints(self) -> Iterable[str]:
        """Return texts about limits of the files that have no effect, and about admins by what they claim."""
        config = self._config
        yield from ineffective_limits(self._lines, self.quotas)
        yield from claim_hints(config.admins, config.teams, "admins")

    def _review_throttles(self, now_ms: int) -> None:
        """Shorten throttles that the present limits no longer ask for."""
        until_ms = self.rule.throttle_until_ms
        self.host.review_throttles(lambda peer, why: until_ms(peer, why, now_ms))

    def usage(self, now_ms: int) -> Iterable[BucketMetrics]:
        """Return the recent rate and throttle times of each bucket."""
        return self.manager.usage(now_ms)

    def bucket_statuses(self, user: str, client_id: str, now_ms: int) -> Sequence[BucketStatus]:
        """Return the state of each bucket that this user and client id draw on."""
        smooth = self._enforcement == "entity"
        return bucket_statuses(self.manager, user, client_id, now_ms, smooth=smooth)

    def _update_interests(self) -> bool:
        """Set the interests to the APIs with limits. Returns whether they have changed."""
        before = (self.apis, self.response_apis, self.needs)
        produce = self.quotas.any(PRODUCER_BYTE_RATE)
        fetch = self.quotas.any(CONSUMER_BYTE_RATE)
        self.rule.count_bytes(produce=produce, fetch=fetch)
        needs: dict[int, Need] = dict.fromkeys(ADMIN_APIS, Need.BODY)
        apis: set[int] = set(ADMIN_APIS)
        if produce:
            apis |= RECORDS_IN_REQUESTS
        if fetch:
            apis |= RECORDS_IN_REPLIES
            needs.update(dict.fromkeys(RECORDS_IN_REPLIES, Need.HEAD))
        self.apis = _COUNTED if self.quotas.any(REQUEST_RATE) else frozenset(apis)
        self.needs = needs
        if isinstance(self.rule, SmoothRule):
            self.response_apis = RECORDS_IN_REPLIES if fetch else _NONE
        return before != (self.apis, self.response_apis, self.needs)
