"""`quota`: how many requests and bytes a second each user and client id may have, and no more.

Rules (KIP-124; the settings are in `config`):
- `smooth_rule` or `kafka_rule` decides about requests; here is what both need: whose quotas they
  are, which APIs must be seen for them, and what a live change changes.
- No quota of a kind: its APIs are not asked for. No quota at all: only those that manage quotas are,
  and these are answered here (`admin`).
- ApiVersions and SASL frames are never seen, so never throttled; and where clients authenticate, what comes
  before it is charged to no bucket. So a flood of unauthenticated connections cannot delay a sign-on.
- Exempt are named principals only: a client id, a replica id or an API proves nothing about who sends it.
- What is owed outlives connections and reloads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.api import EffectiveQuota, Hold, Need, Policy, PolicyConfigError, Throttle
from policies.quota import overrides
from policies.quota.admin import APIS as ADMIN_APIS
from policies.quota.admin import QuotaAdmin, QuotaAdminSettings
from policies.quota.bucket_status import bucket_statuses
from policies.quota.config import QuotaConfig
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
from wire.apis import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.api import Forward, Host, Peer, Request, Response, Verdict
    from policies.quota.alter import Change
    from policies.quota.bucket_status import BucketStatus
    from policies.quota.sensors import BucketMetrics

SWEEP_MS: Final = 1000
"""How often some of the buckets are looked at, whether they are still used."""

_SIGN_ON: Final = frozenset(
    {int(ApiKey.API_VERSIONS), int(ApiKey.SASL_HANDSHAKE), int(ApiKey.SASL_AUTHENTICATE)}
)
_COUNTED: Final = frozenset(range(256)) - _SIGN_ON
"""Every API; those outside the table, too, for `pass_unknown_apis` may let them through."""
_NONE: Final[frozenset[int]] = frozenset()


class Quota(Policy):
    """See the module."""

    Config = QuotaConfig
    tick_ms = SWEEP_MS

    def __init__(self, config: object, host: Host) -> None:
        super().__init__(config, host)
        if not isinstance(config, QuotaConfig):
            raise PolicyConfigError("", "not a QuotaConfig")
        self.quotas = ClientQuotas()
        for line in config.quotas:
            for key, value in line.limits():
                self.quotas.set(line.entity, key, value)
        self._enforcement = config.enforcement
        smooth = config.enforcement == "entity"
        window_ms = config.quota_window_size_seconds * 1000
        self.manager = ClientQuotaManager(
            self.quotas,
            smooth=smooth,
            burst_ms=config.burst_seconds * 1000,
            samples=config.quota_window_num,
            window_ms=window_ms,
            exempt=frozenset(config.cluster_principals),
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
        # The chain calls what it finds on the instance: straight to the rule, for each hop costs a
        # fifth of what a request may.
        vars(self).update(on_request=self.rule.on_request, on_response=self.rule.on_response)
        self._admin = QuotaAdmin(
            self,
            QuotaAdminSettings(
                frozenset(config.admins),
                config.replicas,
                config.forward_other_keys,
                host.name,
                host.observes,
            ),
        )
        self.rule.hooks_by_api.update(dict.fromkeys(ADMIN_APIS, self._on_admin))
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
        """The rule's word."""
        return self.rule.on_request(request, peer, now_ms)

    def on_response(
        self, request: Request, response: Response, peer: Peer, now_ms: int
    ) -> Forward | Throttle:
        """The rule's word."""
        return self.rule.on_response(request, response, peer, now_ms)

    def effective_quota(self, user: str, client_id: str) -> EffectiveQuota | None:
        """Whose request rate holds for them; None for exempt principals, and where none does."""
        resolved = self.quotas.resolve(REQUEST_RATE, user, client_id)
        if resolved is None or user in self.manager.exempt:
            return None
        name = tags_text(resolved.tags)
        return EffectiveQuota(self._enforcement, name, resolved.limit, self.quotas.digest())

    def on_disconnect(self, peer: Peer, now_ms: int) -> None:
        """Whoever has gone gives back its place."""
        self.rule.on_disconnect(peer, now_ms)

    def on_tick(self, now_ms: int) -> None:
        """Forget what nobody has used for an hour."""
        self.manager.expire(now_ms)

    def adopt(self, previous: Policy) -> None:
        """What was counted, is owed and was set live goes on."""
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
            else:  # requests do not wait under the other rule
                self.host.call_at(0, previous.rule.release)
        self.host.call_at(0, self._review_throttles)
        if self._state_file is not None and self._state_file != previous.state_file:
            # A file that is new to this reload has to hold what is set at this moment. It comes last: if it
            # cannot be written, all else is taken over.
            self.host.save(self._state_file, overrides.encode(self.quotas.overrides))

    def change(self, changes: Sequence[Change], now_ms: int) -> None:
        """Set (with None: take back) live overrides; at once for all, waiting requests included.

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
        """Path of the file that keeps live changes; None: they last as long as the process."""
        return self._state_file

    def _review_throttles(self, now_ms: int) -> None:
        """Clients are quiet for as long as the limits that hold now ask for, not those that held."""
        until_ms = self.rule.throttle_until_ms
        self.host.review_throttles(lambda peer, why: until_ms(peer, why, now_ms))

    def usage(self, now_ms: int) -> Iterable[BucketMetrics]:
        """What each bucket has let through lately, and what was throttled."""
        return self.manager.usage(now_ms)

    def bucket_statuses(self, user: str, client_id: str, now_ms: int) -> Sequence[BucketStatus]:
        """How each bucket stands that this user and client id draw on."""
        smooth = self._enforcement == "entity"
        return bucket_statuses(self.manager, user, client_id, now_ms, smooth=smooth)

    def _on_admin(self, request: Request, peer: Peer, now_ms: int) -> Verdict:
        """A request like any other, and answered here."""
        counted = self.rule.count(request, peer, now_ms)
        if isinstance(counted, Hold):
            return counted
        answer = self._admin.on_request(request, peer.user, now_ms)
        if isinstance(counted, Throttle):
            return Throttle(counted.throttle_time_ms, answer, counted.why)
        return answer

    def _update_interests(self) -> bool:
        """Want to see what there are quotas for; whether that has changed."""
        before = (self.apis, self.response_apis, self.needs)
        produce = self.quotas.any(PRODUCER_BYTE_RATE)
        fetch = self.quotas.any(CONSUMER_BYTE_RATE)
        self.rule.watch_bytes(produce=produce, fetch=fetch)
        needs: dict[int, Need] = dict.fromkeys(ADMIN_APIS, Need.BODY)
        apis = set(ADMIN_APIS)
        if produce:
            apis.add(ApiKey.PRODUCE)
        if fetch:
            apis.add(ApiKey.FETCH)
            needs[ApiKey.FETCH] = Need.HEAD
        self.apis = _COUNTED if self.quotas.any(REQUEST_RATE) else frozenset(apis)
        self.needs = needs
        if isinstance(self.rule, SmoothRule):
            self.response_apis = frozenset({int(ApiKey.FETCH)}) if fetch else _NONE
        return before != (self.apis, self.response_apis, self.needs)
