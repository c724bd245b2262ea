"""What `wire.authorization` lacks for a release: versions without a line, and names that no right is demanded for.

- Each text, id, record and node's number in a request may name what a client has no right to. So each is read by
  `wire.request_layouts`, or it is here, with the reason why Kafka's authorizer does not ask about it.
- An API whose whole request needs an act on the cluster needs no more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.releases.definitions import text_of
from tests.support.releases.layouts import SPECIAL, UNJUDGED
from tests.support.releases.subjects import ENTITIES, Undecided, may_be_met, subject_of
from wire.apis import known
from wire.authorization import AUTHORIZED, Scope, authorized_versions, checks_of, is_authorized

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.releases.definitions import Field, Message, Release

_TYPES = frozenset({"string", "uuid", "bytes", "records"})
_SUBJECTS = frozenset({"topic", "topic id", "group", "transactional id"})
READ = frozenset(
    {
        *("FindCoordinator/Key", "FindCoordinator/CoordinatorKeys"),
        *("AlterConfigs/Resources/ResourceName", "DescribeConfigs/Resources/ResourceName"),
        *("IncrementalAlterConfigs/Resources/ResourceName", "Fetch/ReplicaState/ReplicaId"),
    }
)
"""Fields that are read although nothing in their definition says what they name."""
OF_A_MEMBER = frozenset({"MemberId", "GroupInstanceId", "InstanceId", "RackId"})
"""A member of a group that is judged, in any API."""
NAMES_NOTHING = {
    "the group is judged, and its members and their protocols are their own": (
        *("JoinGroup/Protocols", "JoinGroup/ProtocolType", "JoinGroup/Reason", "SyncGroup/Assignments"),
        *("SyncGroup/ProtocolType", "SyncGroup/ProtocolName", "LeaveGroup/Members/Reason"),
        *("ConsumerGroupHeartbeat/ServerAssignor", "ConsumerGroupHeartbeat/TopicPartitions"),
        *("StreamsGroupHeartbeat/ProcessId", "StreamsGroupHeartbeat/UserEndpoint"),
        *("StreamsGroupHeartbeat/ClientTags", "StreamsGroupHeartbeat/Topology/Subtopologies/SubtopologyId"),
        *("StreamsGroupHeartbeat/ActiveTasks", "StreamsGroupHeartbeat/StandbyTasks"),
        *("StreamsGroupHeartbeat/WarmupTasks", "StreamsGroupHeartbeat/TaskOffsets"),
        *("StreamsGroupHeartbeat/TaskEndOffsets", "StreamsGroupTopologyDescriptionUpdate/TopologyDescription"),
    ),
    "the topic is judged, and this is its own": (
        *("CreateTopics/Topics/Configs", "CreateTopics/Topics/Assignments/BrokerIds"),
        *("CreatePartitions/Topics/Assignments/BrokerIds", "Produce/TopicData/PartitionData/Records"),
        *("OffsetCommit/Topics/Partitions/CommittedMetadata", "Fetch/Topics/Partitions/ReplicaDirectoryId"),
        "TxnOffsetCommit/Topics/Partitions/CommittedMetadata",
        "StreamsGroupHeartbeat/Topology/Subtopologies/StateChangelogTopics/TopicConfigs",
        "StreamsGroupHeartbeat/Topology/Subtopologies/RepartitionSourceTopics/TopicConfigs",
    ),
    "the resource is judged, and these are its configs": (
        *("AlterConfigs/Resources/Configs", "IncrementalAlterConfigs/Resources/Configs"),
        "DescribeConfigs/Resources/ConfigurationKeys",
    ),
    "the cluster checks that it is meant": ("ApiVersions/ClusterId", "Fetch/ClusterId"),
    "it selects from a reply that is filtered": (
        *("ListGroups/StatesFilter", "ListGroups/TypesFilter", "ListTransactions/StateFilters"),
        *("ListTransactions/TransactionalIdPattern", "DescribeTopicPartitions/Cursor"),
    ),
    "it forgets what was fetched": ("Fetch/ForgottenTopicsData", "ShareFetch/ForgottenTopicsData"),
    "Kafka's authorizer does not look at it": ("ListOffsets/ReplicaId", "OffsetForLeaderEpoch/ReplicaId"),
    "the client tells of itself": (
        *("ApiVersions/ClientSoftwareName", "ApiVersions/ClientSoftwareVersion"),
        *("GetTelemetrySubscriptions/ClientInstanceId", "PushTelemetry/ClientInstanceId"),
        *("PushTelemetry/Metrics", "SaslAuthenticate/AuthBytes", "SaslHandshake/Mechanism"),
    ),
}  # fmt: skip
"""Fields that ask for no right, by the reason. A struct stands for all that is in it."""
_NAMES_NOTHING = frozenset(path for paths in NAMES_NOTHING.values() for path in paths)


def unjudged(release: Release) -> Iterator[Undecided]:
    """Yield each field of a request that may name something and of which no table says which right it asks for."""
    for request in release.requests():
        found: dict[str, int] = {}
        for version in request.versions:
            if may_be_met(request, version) and _asks_by_name(request, version):
                for path, field in request.walk(version):
                    if _may_name(field) and not _is_decided(request, path, field):
                        found.setdefault(path, version)
        why = "it may name something: which right does it ask for?"
        for path, version in found.items():
            yield Undecided(f"{request.name}Request v{version}+: {path}", why)


def line_lacking(request: Message) -> tuple[str, str] | None:
    """Return the line that the table of rights lacks for this API, and the present one; None if it lacks nothing."""
    if not any(may_be_met(request, v) and known(request.key, v) is None for v in request.versions):
        return None
    if request.key not in AUTHORIZED:
        return (
            f"{request.name} {text_of(request.versions)}, and the rights that KafkaApis demands",
            "",
        )
    old = authorized_versions(request.key)
    new = f"{old.partition('-')[0]}-{request.versions[-1]}"
    return f"{request.name} {new}, if KafkaApis demands no other right", f"{request.name} {old}"


def _asks_by_name(request: Message, version: int) -> bool:
    """Return whether the items of a request are judged, and not the request as a whole by an act on the cluster."""
    api = known(request.key, version)
    if api is None:
        return True
    if not is_authorized(api):
        return False
    checks = checks_of(api)
    return not checks or any(not check.act or check.scope is Scope.ITEM for check in checks)


def _may_name(field: Field) -> bool:
    if field.entity and field.entity not in ENTITIES:
        return False  # `undecided` asks about it
    return field.type in _TYPES or field.entity == "brokerId" or field.name.endswith("ReplicaId")


def _is_decided(request: Message, path: str, field: Field) -> bool:
    whole = f"{request.name}/{path}"
    if field.name in OF_A_MEMBER or whole in READ or whole in SPECIAL:
        return True
    if any(whole == each or whole.startswith(f"{each}/") for each in _NAMES_NOTHING):
        return True
    return subject_of(field) in _SUBJECTS and not whole.startswith(UNJUDGED)
