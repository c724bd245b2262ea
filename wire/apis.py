"""One table of facts per API and version: what the core must know about a frame without reading its body.

- The facts are Kafka's (its message definitions, releases 3.9 to 4.4), one line per API; `N+` means "from version N
  on". The `offered` column and the `Concern`, which every line
  must name, are Sluice's choice.
- Offered versions are those that a client may use on a broker's listener. Not offered are APIs that only brokers and
  controllers use (`_hidden`), SaslHandshake v0 (raw tokens without headers follow it), and InitProducerId v6, which no
  release has as stable yet (`latestVersionUnstable`).
- `find` returns offered versions only; any other version ends the connection. `known` returns every version in the
  table.
- Two headers break the rule "flexible body, flexible header": an ApiVersions response always has header v0
  (KIP-511), and a ControlledShutdown v0 request has header v0, without a client id.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from wire.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "BY_KEY_AND_VERSION",
    "OFFERED",
    "RECORDS_IN_REPLIES",
    "RECORDS_IN_REQUESTS",
    "SIGN_ON",
    "Api",
    "ApiKey",
    "Concern",
    "ThrottleField",
    "concern_of",
    "find",
    "kept_versions",
    "key_of",
    "known",
    "name_of",
]


class ThrottleField(IntEnum):
    """Where the throttle_time_ms of a response body is. It is never tagged and never nested."""

    ABSENT = 0
    FIRST = 1
    LAST = 2
    """The last untagged field, after fields of variable length."""
    FIXED = 3
    """`Api.throttle_offset` bytes after the body's start."""


class Concern(IntEnum):
    """The subject of an API. Some of them a broker must not judge by a proxy's own credentials."""

    DATA = 0
    """Topics, groups and transactions, and what every client asks of a cluster."""
    CREDENTIALS = 1
    """Logins, tokens and access rights: made, shown or changed."""
    CLIENT_QUOTAS = 2
    """The brokers' quotas, shown or changed."""
    CONFIGS = 3
    """Configs are changed, of topics, groups or brokers: the request says of which (`wire.config_resources`)."""
    CLUSTER = 4
    """Which brokers and controllers belong to the cluster, and which features it has."""
    BROKERS = 5
    """Only brokers and controllers use it, between each other."""


@dataclass(frozen=True, slots=True)
class Api:
    """The facts about one API key and version."""

    key: int
    version: int
    name: str
    flexible: bool
    request_header_version: int
    response_header_version: int
    throttle: ThrottleField
    throttle_offset: int | None
    """Bytes from the body's start to throttle_time_ms; 0 for FIRST, None for ABSENT and LAST."""
    carries_addresses: bool
    """Whether the response may name brokers by host and port."""
    may_wait: bool
    """Whether the broker may delay the reply on purpose: because the request sets a wait or timeout, or until a group
    is complete."""
    request_max_bytes: int | None
    """The largest accepted request in bytes, size field excluded; None: only the general limit applies. It is set for
    requests that clients may send before authentication (Kafka: sasl.server.max.receive.size), and for quota requests,
    which Sluice buffers whole."""
    removed_in: str
    """The first release whose brokers no longer have this version ("4.0": KIP-896); empty if all have it."""


BY_KEY_AND_VERSION: Final[dict[int, Api]] = {}
"""The offered versions by `api_key << 16 | api_version`, the word that `header.REQUEST` unpacks."""

_known: Final[dict[int, Api]] = {}
_moving: Final[dict[str, set[int]]] = {"requests": set(), "replies": set()}
_offered: Final[dict[int, tuple[int, int]]] = {}
_keys: Final[dict[str, int]] = {}
_names: Final[dict[int, str]] = {}
_concerns: Final[dict[int, Concern]] = {}

OFFERED: Final[Mapping[int, tuple[int, int]]] = MappingProxyType(_offered)
"""API key to the (min, max) versions that a client may use through Sluice."""


def find(api_key: int, api_version: int) -> Api | None:
    """Return the facts of an offered version, the same object every time; None if it is not offered.

    Both numbers are int16.
    """
    return BY_KEY_AND_VERSION.get(api_key << 16 | api_version)


def known(api_key: int, api_version: int) -> Api | None:
    """Return the facts of any version in the table, offered or not; None if the table does not have it."""
    return _known.get(api_key << 16 | api_version)


def name_of(api_key: int) -> str:
    """Return Kafka's name of an API key, or `api N` for a key outside the table."""
    return _names.get(api_key) or f"api {api_key}"


def key_of(name: str) -> int | None:
    """Return the key of the API that Kafka calls `name` ("DeleteTopics"); None if there is none."""
    return _keys.get(name)


def key_named(name: str) -> int:
    """Return the key of this API. Raises LookupError if there is none."""
    return _keys[name]


def kept_versions(api_key: int) -> tuple[int, int]:
    """Return the (min, max) of the offered versions that no release has removed.

    Raises LookupError for a key that is not offered.
    """
    lowest, highest = _offered[api_key]
    while _known[api_key << 16 | lowest].removed_in:
        lowest += 1
    return lowest, highest


def concern_of(api_key: int) -> Concern:
    """Return what the requests of an API are about. Raises LookupError for a key outside the table."""
    return _concerns[api_key]


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)


def _removals(text: str | None) -> dict[int, str]:
    """Return the release that removed a version, by version: "0-2 in 4.0" has three of them."""
    found: dict[int, str] = {}
    for part in text.split(", ") if text else ():
        versions, _, release = part.partition(" in ")
        lowest, highest = _range(versions)
        found |= dict.fromkeys(range(lowest, highest + 1), release)
    return found


def _from(text: str | None, version: int) -> bool:
    """Return whether `version` is in "N+"; None contains no version."""
    return text is not None and version >= int(text.rstrip("+"))


def _place(text: str | None, version: int) -> tuple[ThrottleField, int | None]:
    """Return the place that "N+", "N+ last" or "N+ at OFFSET" gives to `version`."""
    since, _, where = (text or "").partition(" ")
    if not _from(since or None, version):
        return ThrottleField.ABSENT, None
    if where == "last":
        return ThrottleField.LAST, None
    return (
        (ThrottleField.FIXED, int(where.removeprefix("at "))) if where else (ThrottleField.FIRST, 0)
    )


def _api(
    key: int,
    name: str,
    versions: str,
    concern: Concern,
    *,
    offered: str | None = None,
    removed: str | None = None,
    flexible: int | None = None,
    throttle: str | None = None,
    addresses: str | None = None,
    waits: str | None = None,
    max_bytes: int | None = None,
    records: str | None = None,
) -> None:
    """Add one API to the table.

    `removed` is "N-M in RELEASE, ..."; `flexible` is its first flexible version; `records`: whether its requests or its
    replies hold records; for the others see `Api`.
    """
    if records is not None:
        _moving[records].add(key)
    _names[key] = name
    _concerns[key] = concern
    _keys[name] = key
    lowest, highest = _range(versions)
    removals = _removals(removed)
    if offered != "":
        _offered[key] = _range(offered or versions)
    for version in range(lowest, highest + 1):
        is_flexible = flexible is not None and version >= flexible
        bare = key == ApiKey.CONTROLLED_SHUTDOWN and version == 0
        place, offset = _place(throttle, version)
        api = Api(
            key=key,
            version=version,
            name=name,
            flexible=is_flexible,
            request_header_version=0 if bare else 1 + is_flexible,
            response_header_version=int(is_flexible and key != ApiKey.API_VERSIONS),
            throttle=place,
            throttle_offset=offset,
            carries_addresses=_from(addresses, version),
            may_wait=_from(waits, version),
            request_max_bytes=max_bytes,
            removed_in=removals.get(version, ""),
        )
        word = key << 16 | version
        _known[word] = api
        if key in _offered and _offered[key][0] <= version <= _offered[key][1]:
            BY_KEY_AND_VERSION[word] = api


def _hidden(
    key: int,
    name: str,
    versions: str,
    *,
    flexible: int,
    throttle: str | None = None,
    addresses: str | None = None,
    records: str | None = None,
) -> None:
    """Add an API that clients may not use. Its facts serve logs and tests."""
    _api(
        key,
        name,
        versions,
        Concern.BROKERS,
        offered="",
        flexible=flexible,
        throttle=throttle,
        addresses=addresses,
        records=records,
    )


DATA, CREDENTIALS, CLIENT_QUOTAS, CONFIGS, CLUSTER = list(Concern)[:5]

# One line an API.
# fmt: off
_api(0, "Produce", "0-13", DATA, removed="0-2 in 4.0", flexible=9, throttle="1+ last", addresses="10+", waits="0+", records="requests")  # noqa: E501 - one line an API
_api(1, "Fetch", "0-18", DATA, removed="0-3 in 4.0", flexible=12, throttle="1+", addresses="16+", waits="0+", records="replies")  # noqa: E501 - one line an API
_api(2, "ListOffsets", "0-11", DATA, removed="0 in 4.0", flexible=6, throttle="2+", waits="10+")
_api(3, "Metadata", "0-13", DATA, flexible=9, throttle="3+", addresses="0+")
_api(8, "OffsetCommit", "0-10", DATA, removed="0-1 in 4.0", flexible=8, throttle="3+")
_api(9, "OffsetFetch", "0-10", DATA, removed="0 in 4.0", flexible=6, throttle="3+")
_api(10, "FindCoordinator", "0-6", DATA, flexible=3, throttle="1+", addresses="0+")
_api(11, "JoinGroup", "0-9", DATA, flexible=6, throttle="2+", waits="0+")
_api(12, "Heartbeat", "0-4", DATA, flexible=4, throttle="1+")
_api(13, "LeaveGroup", "0-5", DATA, flexible=4, throttle="1+")
_api(14, "SyncGroup", "0-5", DATA, flexible=4, throttle="1+", waits="0+")
_api(15, "DescribeGroups", "0-6", DATA, flexible=5, throttle="1+")
_api(16, "ListGroups", "0-5", DATA, flexible=3, throttle="1+")
_api(17, "SaslHandshake", "0-1", DATA, offered="1", max_bytes=4096)
_api(18, "ApiVersions", "0-5", DATA, flexible=3, throttle="1+ last", max_bytes=4096)
_api(19, "CreateTopics", "0-7", DATA, removed="0-1 in 4.0", flexible=5, throttle="2+", waits="0+")
_api(20, "DeleteTopics", "0-6", DATA, removed="0 in 4.0", flexible=4, throttle="1+", waits="0+")
_api(21, "DeleteRecords", "0-2", DATA, flexible=2, throttle="0+", waits="0+")
_api(22, "InitProducerId", "0-6", DATA, offered="0-5", flexible=2, throttle="0+")
_api(23, "OffsetForLeaderEpoch", "0-4", DATA, removed="0-1 in 4.0", flexible=4, throttle="2+")
_api(24, "AddPartitionsToTxn", "0-5", DATA, flexible=3, throttle="0+")
_api(25, "AddOffsetsToTxn", "0-4", DATA, flexible=3, throttle="0+")
_api(26, "EndTxn", "0-5", DATA, flexible=3, throttle="0+")
_api(27, "WriteTxnMarkers", "0-2", DATA, removed="0 in 4.0", flexible=1)
_api(28, "TxnOffsetCommit", "0-6", DATA, flexible=3, throttle="0+")
_api(29, "DescribeAcls", "0-3", CREDENTIALS, removed="0 in 4.0", flexible=2, throttle="0+")
_api(30, "CreateAcls", "0-3", CREDENTIALS, removed="0 in 4.0", flexible=2, throttle="0+")
_api(31, "DeleteAcls", "0-3", CREDENTIALS, removed="0 in 4.0", flexible=2, throttle="0+")
_api(32, "DescribeConfigs", "0-4", DATA, removed="0 in 4.0", flexible=4, throttle="0+")
_api(33, "AlterConfigs", "0-2", CONFIGS, flexible=2, throttle="0+")
_api(34, "AlterReplicaLogDirs", "0-2", DATA, removed="0 in 4.0", flexible=2, throttle="0+")
_api(35, "DescribeLogDirs", "0-5", DATA, removed="0 in 4.0", flexible=2, throttle="0+")
_api(36, "SaslAuthenticate", "0-2", DATA, flexible=2, max_bytes=524_288)
_api(37, "CreatePartitions", "0-3", DATA, flexible=2, throttle="0+", waits="0+")
_api(38, "CreateDelegationToken", "0-3", CREDENTIALS, removed="0 in 4.0", flexible=2, throttle="0+ last")
_api(39, "RenewDelegationToken", "0-2", CREDENTIALS, removed="0 in 4.0", flexible=2, throttle="0+ at 10")
_api(40, "ExpireDelegationToken", "0-2", CREDENTIALS, removed="0 in 4.0", flexible=2, throttle="0+ at 10")
_api(41, "DescribeDelegationToken", "0-3", CREDENTIALS, removed="0 in 4.0", flexible=2, throttle="0+ last")
_api(42, "DeleteGroups", "0-3", DATA, flexible=2, throttle="0+")
_api(43, "ElectLeaders", "0-2", DATA, flexible=2, throttle="0+", waits="0+")
_api(44, "IncrementalAlterConfigs", "0-1", CONFIGS, flexible=1, throttle="0+")
_api(45, "AlterPartitionReassignments", "0-1", DATA, flexible=0, throttle="0+", waits="0+")
_api(46, "ListPartitionReassignments", "0", DATA, flexible=0, throttle="0+", waits="0+")
_api(47, "OffsetDelete", "0", DATA, throttle="0+ at 2")
_api(48, "DescribeClientQuotas", "0-1", CLIENT_QUOTAS, flexible=1, throttle="0+", max_bytes=1 << 20)
_api(49, "AlterClientQuotas", "0-1", CLIENT_QUOTAS, flexible=1, throttle="0+", max_bytes=1 << 20)
_api(50, "DescribeUserScramCredentials", "0", CREDENTIALS, flexible=0, throttle="0+")
_api(51, "AlterUserScramCredentials", "0", CREDENTIALS, flexible=0, throttle="0+")
_api(55, "DescribeQuorum", "0-2", DATA, flexible=0, addresses="2+")
_api(57, "UpdateFeatures", "0-2", CLUSTER, flexible=0, throttle="0+", waits="0+")
_api(60, "DescribeCluster", "0-2", DATA, flexible=0, throttle="0+", addresses="0+")
_api(61, "DescribeProducers", "0", DATA, flexible=0, throttle="0+")
_api(64, "UnregisterBroker", "0", CLUSTER, flexible=0, throttle="0+")
_api(65, "DescribeTransactions", "0", DATA, flexible=0, throttle="0+")
_api(66, "ListTransactions", "0-2", DATA, flexible=0, throttle="0+")
_api(68, "ConsumerGroupHeartbeat", "0-1", DATA, flexible=0, throttle="0+")
_api(69, "ConsumerGroupDescribe", "0-1", DATA, flexible=0, throttle="0+")
_api(71, "GetTelemetrySubscriptions", "0", DATA, flexible=0, throttle="0+")
_api(72, "PushTelemetry", "0", DATA, flexible=0, throttle="0+")
_api(74, "ListConfigResources", "0-1", DATA, flexible=0, throttle="0+")
_api(75, "DescribeTopicPartitions", "0", DATA, flexible=0, throttle="0+")
_api(76, "ShareGroupHeartbeat", "0-1", DATA, removed="0 in 4.1", flexible=0, throttle="0+")
_api(77, "ShareGroupDescribe", "0-1", DATA, removed="0 in 4.1", flexible=0, throttle="0+")
_api(78, "ShareFetch", "0-2", DATA, removed="0 in 4.1", flexible=0, throttle="0+", addresses="0+", waits="0+", records="replies")  # noqa: E501 - one line an API
_api(79, "ShareAcknowledge", "0-2", DATA, removed="0 in 4.1", flexible=0, throttle="0+", addresses="0+")
_api(80, "AddRaftVoter", "0-1", CLUSTER, flexible=0, throttle="0+", waits="0+")
_api(81, "RemoveRaftVoter", "0", CLUSTER, flexible=0, throttle="0+")
_api(88, "StreamsGroupHeartbeat", "0-1", DATA, flexible=0, throttle="0+")
_api(89, "StreamsGroupDescribe", "0-1", DATA, flexible=0, throttle="0+")
_api(90, "DescribeShareGroupOffsets", "0-1", DATA, flexible=0, throttle="0+")
_api(91, "AlterShareGroupOffsets", "0", DATA, flexible=0, throttle="0+")
_api(92, "DeleteShareGroupOffsets", "0", DATA, flexible=0, throttle="0+")
_api(93, "StreamsGroupTopologyDescriptionUpdate", "0", DATA, flexible=0, throttle="0+")
_api(94, "UnregisterController", "0", CLUSTER, flexible=0, throttle="0+")

# Used between brokers and controllers only.
_hidden(4, "LeaderAndIsr", "0-7", flexible=4)
_hidden(5, "StopReplica", "0-4", flexible=2)
_hidden(6, "UpdateMetadata", "0-8", flexible=6)
_hidden(7, "ControlledShutdown", "0-3", flexible=3)
_hidden(52, "Vote", "0-2", flexible=0, addresses="1+")
_hidden(53, "BeginQuorumEpoch", "0-1", flexible=1, addresses="1+")
_hidden(54, "EndQuorumEpoch", "0-1", flexible=1, addresses="1+")
_hidden(56, "AlterPartition", "0-3", flexible=0, throttle="0+")
_hidden(58, "Envelope", "0", flexible=0)
_hidden(59, "FetchSnapshot", "0-1", flexible=0, throttle="0+", addresses="1+", records="replies")
_hidden(62, "BrokerRegistration", "0-4", flexible=0, throttle="0+")
_hidden(63, "BrokerHeartbeat", "0-2", flexible=0, throttle="0+")
_hidden(67, "AllocateProducerIds", "0", flexible=0, throttle="0+")
_hidden(70, "ControllerRegistration", "0", flexible=0, throttle="0+")
_hidden(73, "AssignReplicasToDirs", "0", flexible=0, throttle="0+")
_hidden(82, "UpdateRaftVoter", "0", flexible=0, throttle="0+", addresses="0+")
_hidden(83, "InitializeShareGroupState", "0", flexible=0)
_hidden(84, "ReadShareGroupState", "0", flexible=0)
_hidden(85, "WriteShareGroupState", "0-1", flexible=0)
_hidden(86, "DeleteShareGroupState", "0", flexible=0)
_hidden(87, "ReadShareGroupStateSummary", "0-1", flexible=0)
# fmt: on

SIGN_ON: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE})
"""The APIs that a client may use before it is authenticated."""

RECORDS_IN_REQUESTS: Final = frozenset(_moving["requests"])
"""The APIs whose requests hold records: `producer_byte_rate` concerns them."""

RECORDS_IN_REPLIES: Final = frozenset(_moving["replies"])
"""The APIs whose replies hold records: `consumer_byte_rate` concerns them. A ShareAcknowledge holds offsets only."""

ADMINISTRATIVE: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.DELETE_RECORDS,
        ApiKey.WRITE_TXN_MARKERS,  # an abort by hand; a client library never sends it
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.DELETE_GROUPS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.OFFSET_DELETE,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
        ApiKey.ALTER_SHARE_GROUP_OFFSETS,
        ApiKey.DELETE_SHARE_GROUP_OFFSETS,
        ApiKey.UNREGISTER_CONTROLLER,
    }
)
"""The administrative APIs: they change the cluster, its access rights, its quotas or the groups of other clients.

APIs that only describe are not administrative, and neither are those that every producer and consumer uses for
itself. The list is Kafka's admin protocol without the describing APIs; a test keeps it complete.
"""
