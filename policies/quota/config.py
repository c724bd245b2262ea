"""The settings of the quota policy.

    - use: quota
      config:
        enforcement: entity          # or: channel
        quotas:
          - {user: alice, request_rate: 100}
          - {user: <default>, client_id: noisy, request_rate: 50, producer_byte_rate: 1048576}
          - {user: <default>, request_rate: 1000}
          - {who: [bob, team:billing], request_rate: 20}     # each of them
        teams: {billing: [svc-billing, svc-invoices]}

An entry names an entity (a user, a client id, or both; `<default>` is every entity without a limit of its own) and at
least one limit. A limit of a user outranks one of a client id alone. Two entries may not set the same limit of the
same entity. `who` stands for several users, each of whom has the limit for itself. As in Kafka a limit counts for a
user, however proved, so `who` has no beginnings of names and no proofs here.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from policies.crowd import members_of
from policies.quota.entity import (
    DEFAULT_NAME,
    KEYS,
    ClientQuotas,
    QuotaEntity,
    check_name,
    check_value,
    entity_text,
    outranked_warning,
)
from policies.type_names import describe_value
from policies.validation import Problem
from policies.who_settings import Teams, Who, user_mistakes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_EXACT: Final = 2**53
"""Larger doubles do not represent every whole number."""
Rate = Annotated[float, msgspec.Meta(extra={"expected": "a number above 0, per second"})]

MAX_HINTS: Final = 10
"""Limits of the quotas file that are named; the others are counted."""


class QuotaLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The limits of one entity."""

    user: str | None = None
    """A principal's name as the broker knows it (without `User:`), or `<default>`."""
    client_id: str | None = None
    """A client id, or `<default>`."""
    request_rate: Rate | None = None
    """Requests per second."""
    producer_byte_rate: Rate | None = None
    """Bytes of Produce requests per second; a whole number."""
    consumer_byte_rate: Rate | None = None
    """Bytes of Fetch and ShareFetch responses per second; a whole number."""

    @property
    def entity(self) -> QuotaEntity:
        """The entity that the limits are for."""
        return QuotaEntity(self.user, self.client_id)

    def limits(self) -> Iterator[tuple[str, float]]:
        """Yield each limit that is given, with its key."""
        for key in KEYS:
            value = getattr(self, key)
            if value is not None:
                yield key, float(value)

    def content(self) -> dict[str, object]:
        """Return the line as in the config file, with a whole number as people write it, without `.0`."""
        names = {"user": self.user, "client_id": self.client_id}
        line: dict[str, object] = {kind: name for kind, name in names.items() if name is not None}
        for key, value in self.limits():
            line[key] = int(value) if value.is_integer() and value < _EXACT else value
        return line

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for each invalid name and limit, and for an entry without an entity or a limit."""
        for path, name in (("user", self.user), ("client_id", self.client_id)):
            wrong = None if name is None else check_name(name)
            if wrong:
                yield Problem(path, describe_value(name), f"a name: it {wrong}")
        if self.user is None and self.client_id is None:
            yield Problem("", "no entity", "user, client_id, or both")
        if not any(self.limits()):
            yield Problem("", "no limit", f"at least one of {', '.join(KEYS)}")
        for key, value in self.limits():
            wrong = check_value(key, value)
            if wrong:
                yield Problem(key, describe_value(value), f"a limit: it {wrong}")


class QuotaRule(QuotaLine, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The limits of one entity, or of several users each."""

    who: tuple[Who, ...] = ()
    """Users, and teams of users, in the place of `user`."""

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for `who` beside `user`, and those of a line."""
        if not self.who:
            yield from super().mistakes()
            return
        if self.user is not None:
            yield Problem("user", describe_value(self.user), "nothing, because who is set")
        for place, text in enumerate(self.who):
            if text == DEFAULT_NAME:
                yield Problem(f"who[{place}]", describe_value(text), f"user: {DEFAULT_NAME} for it")
        yield from msgspec.structs.replace(self, user="each", who=()).mistakes()


class QuotaConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Every setting is optional; without quotas nothing is counted until one is set live."""

    enforcement: Literal["entity", "channel"] = "entity"
    """entity: one release schedule per entity, over all its connections. channel: Kafka's rule."""
    quotas: tuple[QuotaRule, ...] = ()
    """The limits."""
    teams: Teams = msgspec.field(default_factory=dict)
    """Members of the teams that `who`, `cluster_principals` and `admins` name."""
    burst_seconds: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 2.0
    """entity: how many seconds' worth of requests may pass at once after a quiet time."""
    quota_window_num: Annotated[int, msgspec.Meta(ge=2, le=3600)] = 11
    """channel: the number of samples that a rate is measured over (Kafka's `quota.window.num`)."""
    quota_window_size_seconds: Annotated[int, msgspec.Meta(ge=1, le=3600)] = 1
    """channel: the span of one sample, and the longest throttle for a request rate."""
    coexistence: Literal["sequential", "max"] = "sequential"
    """channel: a byte delay and a request delay are served one after the other (KIP-124), or together
    (Kafka since 2.0). With enforcement `entity` the two are the same."""
    cluster_principals: tuple[Who, ...] = ()
    """Users without any limit: brokers, mirrors. Also beginnings of names and `*`, and teams of such."""
    max_default_buckets: Annotated[int, msgspec.Meta(ge=1)] = 10_000
    """The number of buckets made from a default that are kept; beyond it idle ones are dropped."""
    admins: tuple[Who, ...] = ()
    """Who may alter quotas over the Kafka protocol, as in `access`; every client may describe them."""
    quotas_file: str | None = None
    """A file with further limits, as `sluice-pipeline recommend` writes it; `quotas` wins over it."""
    state_file: str | None = None
    """The file for live changes; without it they last as long as the process."""
    replicas: Annotated[int, msgspec.Meta(ge=1)] = 1
    """The number of proxies that share these quotas' clients. Above 1 quotas cannot be altered live: a change
    would reach only one of them."""
    forward_other_keys: bool = False
    """Whether requests about quotas that are not Sluice's are forwarded to the broker."""

    def mistakes(self) -> Iterator[Problem]:
        """Yield a problem for each limit that is given twice, and for each client that is named wrongly."""
        for place, rule in enumerate(self.quotas):
            yield from user_mistakes(rule.who, self.teams, f"quotas[{place}].who", whole=True)
        yield from user_mistakes(self.cluster_principals, self.teams, "cluster_principals")
        yield from repeated_limits(self.lines())

    def lines(self) -> Iterator[tuple[int, QuotaLine]]:
        """Yield a line for each entity, with the place of its rule in `quotas`."""
        for place, rule in enumerate(self.quotas):
            if not rule.who:
                yield place, rule
            for user in members_of(rule.who, self.teams):
                yield place, msgspec.structs.replace(rule, user=user, who=())


def repeated_limits(lines: Iterable[tuple[int, QuotaLine]]) -> Iterator[Problem]:
    """Yield a problem for each limit of `quotas` that another line of them sets already; lines have their places."""
    seen: dict[tuple[QuotaEntity, str], int] = {}
    for place, line in lines:
        for key, _ in line.limits():
            first = seen.setdefault((line.entity, key), place)
            if first != place:
                path = f"quotas[{place}].{key}"
                words = f"one {key} per entity; quotas[{first}] sets it already"
                yield Problem(path, "a second limit", words)


def ineffective_limits(
    lines: Sequence[tuple[int, QuotaLine]], quotas: ClientQuotas
) -> Iterator[str]:
    """Yield a text for each such limit, with the path of its setting first.

    `lines` are those of the configuration, with their places; `quotas` has all limits.
    """
    for place, line in lines:
        for key, _ in line.limits():
            winner = quotas.maybe_outranked(line.entity, key)
            if winner is not None:
                yield f"quotas[{place}].{key}: {outranked_warning(key, winner)}"
    found = _in_quotas_file(lines, quotas)
    yield from (f"quotas_file: {each}" for each in islice(found, MAX_HINTS))
    if more := sum(1 for _ in found):
        yield f"quotas_file: {more} more of its limits have no effect for the same reasons"


def _in_quotas_file(lines: Sequence[tuple[int, QuotaLine]], quotas: ClientQuotas) -> Iterator[str]:
    places = {(line.entity, key): n for n, line in lines for key, _ in line.limits()}
    for entity, limits in quotas.in_quotas_file.items():
        for key in limits:
            place = places.get((entity, key))
            winner = quotas.maybe_outranked(entity, key)
            limit = f"the {key} of {{{entity_text(entity)}}}"
            if place is not None:
                yield f"{limit} has no effect: quotas[{place}] sets it too, and the configuration wins"
            elif winner is not None:
                yield f"{limit}: {outranked_warning(key, winner)}"
