"""Messages of Kafka that the codec library does not have yet, as classes like its own.

- A line has a struct or a message, and its fields in Kafka's order. The facts are Kafka's message definitions; a test
  compares them with those in its jars. A version that the codec library knows by now is deleted here.
- The names are those of the codec library: Kafka's in snake_case, times without their unit.
- A field is `name:type`. `[...]`: an array. `?`: it may be null, and is by default. `=`: another default. `#`: its tag.
- The classes are made when a message is first used: they need the codec library, which is imported late.
"""

from __future__ import annotations

from dataclasses import field, make_dataclass
from functools import cache
from typing import Final, Literal, TypeAlias

from wire.apis import known, name_of

Kind: TypeAlias = Literal["request", "response"]
Lines: TypeAlias = "dict[tuple[int, int, str], dict[str, list[str]]]"
"""By API key, version and kind; then by struct."""

_STRUCTS: Final = """
KeyValue         key:string value:string
TopicInfo        name:string partitions:int32 replication_factor:int16 topic_configs:[KeyValue]
Endpoint         host:string port:uint16
TaskOffset       subtopology_id:string partition:int32 offset:int64
TaskIds          subtopology_id:string partitions:[int32]
TopicPartition   topic:string partitions:[int32]
TopologyDescriptionNode         name:string node_type:int8 source_topics:[string] sink_topic:string? stores:[string]
                                successors:[string]
TopologyDescriptionSubtopology  subtopology_id:string nodes:[TopologyDescriptionNode]
TopologyDescriptionGlobalStore  source:TopologyDescriptionNode processor:TopologyDescriptionNode
TopologyDescription             subtopologies:[TopologyDescriptionSubtopology]
                                global_stores:[TopologyDescriptionGlobalStore]
"""
"""Those that several messages use."""

MESSAGES: Final = f"""{_STRUCTS}
18 5 request     client_software_name:string client_software_version:string cluster_id:string? node_id:int32=-1
18 5 response    error_code:int16 api_keys:[ApiVersion] throttle_time:timedelta_i32
                 supported_features:[SupportedFeatureKey]#0 finalized_features_epoch:int64=-1#1
                 finalized_features:[FinalizedFeatureKey]#2 zk_migration_ready:bool=0#3
    ApiVersion            api_key:int16 min_version:int16 max_version:int16
    SupportedFeatureKey   name:string min_version:int16 max_version:int16
    FinalizedFeatureKey   name:string max_version_level:int16 min_version_level:int16
28 6 request     transactional_id:string group_id:string producer_id:int64 producer_epoch:int16
                 generation_id_or_member_epoch:int32=-1 member_id:string= group_instance_id:string?
                 topics:[TxnOffsetCommitRequestTopic]
    TxnOffsetCommitRequestTopic      topic_id:uuid partitions:[TxnOffsetCommitRequestPartition]
    TxnOffsetCommitRequestPartition  partition_index:int32 committed_offset:int64 committed_leader_epoch:int32=-1
                                     committed_metadata:string?
28 6 response    throttle_time:timedelta_i32 topics:[TxnOffsetCommitResponseTopic]
    TxnOffsetCommitResponseTopic      topic_id:uuid partitions:[TxnOffsetCommitResponsePartition]
    TxnOffsetCommitResponsePartition  partition_index:int32 error_code:int16
42 3 request     groups_names:[string]
42 3 response    throttle_time:timedelta_i32 results:[DeletableGroupResult]
    DeletableGroupResult  group_id:string error_code:int16 error_message:string?
88 1 request     group_id:string member_id:string member_epoch:int32 endpoint_information_epoch:int32
                 instance_id:string? rack_id:string? rebalance_timeout:timedelta_i32=-1 topology:Topology?
                 active_tasks:[TaskIds]? standby_tasks:[TaskIds]? warmup_tasks:[TaskIds]? process_id:string?
                 user_endpoint:Endpoint? client_tags:[KeyValue]? task_offsets:[TaskOffset]?
                 task_end_offsets:[TaskOffset]? shutdown_application:bool=0
    Topology          epoch:int32 subtopologies:[Subtopology]
    Subtopology       subtopology_id:string source_topics:[string] source_topic_regex:[string]
                      state_changelog_topics:[TopicInfo] repartition_sink_topics:[string]
                      repartition_source_topics:[TopicInfo] copartition_groups:[CopartitionGroup]
    CopartitionGroup  source_topics:[int16] source_topic_regex:[int16] repartition_source_topics:[int16]
88 1 response    throttle_time:timedelta_i32 error_code:int16 error_message:string? member_id:string
                 member_epoch:int32 heartbeat_interval:timedelta_i32 task_offset_interval:timedelta_i32
                 acceptable_recovery_lag:int64=-1 status:[Status]? active_tasks:[TaskIds]? standby_tasks:[TaskIds]?
                 warmup_tasks:[TaskIds]? topology_description_required:bool=0 endpoint_information_epoch:int32
                 partitions_by_user_endpoint:[EndpointToPartitions]?
    Status                status_code:int8 status_detail:string
    EndpointToPartitions  user_endpoint:Endpoint active_partitions:[TopicPartition]
                          standby_partitions:[TopicPartition]
89 1 request     group_ids:[string] include_authorized_operations:bool include_topology_description:bool=0
89 1 response    throttle_time:timedelta_i32 groups:[DescribedGroup]
    DescribedGroup  error_code:int16 error_message:string? group_id:string group_state:string group_epoch:int32
                    assignment_epoch:int32 topology:Topology? members:[Member]
                    authorized_operations:int32=-2147483648 topology_description:TopologyDescription?
                    topology_description_status:int8=0 assignor_name:string?
    Topology        epoch:int32 subtopologies:[Subtopology]?
    Subtopology     subtopology_id:string source_topics:[string] repartition_sink_topics:[string]
                    state_changelog_topics:[TopicInfo] repartition_source_topics:[TopicInfo]
    Member          member_id:string member_epoch:int32 instance_id:string? rack_id:string? client_id:string
                    client_host:string topology_epoch:int32 process_id:string user_endpoint:Endpoint?
                    client_tags:[KeyValue] task_offsets:[TaskOffset] task_end_offsets:[TaskOffset]
                    assignment:Assignment target_assignment:Assignment is_classic:bool
    Assignment      active_tasks:[TaskIds] standby_tasks:[TaskIds] warmup_tasks:[TaskIds]
93 0 request     group_id:string member_id:string topology_epoch:int32 topology_description:TopologyDescription
93 0 response    throttle_time:timedelta_i32 error_code:int16 error_message:string?
94 0 request     controller_id:int32
94 0 response    throttle_time:timedelta_i32 error_code:int16 error_message:string?
"""
"""API key, version and kind; the structs of a message alone follow it, further in. All of them are flexible."""


def versions() -> frozenset[tuple[int, int]]:
    """Return the API keys and versions that are here."""
    return frozenset((key, version) for key, version, _ in _lines())


@cache  # one entry for each message that is used
def class_of(api_key: int, version: int, kind: Kind) -> type | None:
    """Return the class of a message, like one of the codec library; None if it is not here."""
    lines = _lines().get((api_key, version, kind))
    return None if lines is None else _Maker(api_key, version, kind, lines).message()


@cache
def _lines() -> Lines:
    return read_lines(MESSAGES)


def read_lines(text: str) -> Lines:
    """Return the fields of each message, under "", and of its structs by their names."""
    found: Lines = {}
    shared: dict[str, list[str]] = {}
    structs, fields = shared, []
    for line in text.splitlines():
        words = line.split()
        if not words:
            continue
        if words[0].isdigit():
            key, version, kind = words[:3]
            structs = found[int(key), int(version), kind] = dict(shared)
            fields = structs[""] = words[3:]
        elif ":" in words[0]:
            fields += words
        else:
            fields = structs[words[0]] = words[1:]
    return found


class _Maker:
    """Makes the class of one message, and those of its structs."""

    def __init__(self, api_key: int, version: int, kind: Kind, lines: dict[str, list[str]]) -> None:
        from kio.schema.request_header.v2.header import (  # noqa: PLC0415 - the codec is imported late
            RequestHeader,
        )
        from kio.schema.response_header.v0.header import (  # noqa: PLC0415 - as above
            ResponseHeader as UntaggedHeader,
        )
        from kio.schema.response_header.v1.header import ResponseHeader  # noqa: PLC0415 - as above
        from kio.static.constants import EntityType  # noqa: PLC0415 - as above
        from kio.static.primitive import i16  # noqa: PLC0415 - as above

        self._lines = lines
        self._made: dict[str, type] = {}
        self._name = f"{name_of(api_key)}{kind.title()}"
        self._payload = EntityType[kind]
        api = known(api_key, version)
        tagged = api is None or api.response_header_version > 0
        answer = ResponseHeader if tagged else UntaggedHeader
        self._common = {
            "__type__": EntityType.nested,
            "__version__": i16(version),
            "__flexible__": True,
            "__api_key__": i16(api_key),
            "__header_schema__": RequestHeader if kind == "request" else answer,
            "__module__": __name__,
        }

    def message(self) -> type:
        """Return the class of the message."""
        return self._class(self._name, self._lines[""], {"__type__": self._payload})

    def _class(self, name: str, words: list[str], more: dict[str, object]) -> type:
        fields = [self._field(word) for word in words]
        return make_dataclass(
            name,
            fields,
            namespace={**self._common, **more},
            frozen=True,
            slots=True,
            kw_only=True,
        )

    def _field(self, word: str) -> tuple[str, object, object]:
        """Return the name, the type and the dataclass field of `name:type`."""
        name, _, text = word.partition(":")
        text, _, tag = text.partition("#")
        text, has_default, default = text.partition("=")
        kafka_type = text.strip("[]?")
        is_array, is_nullable = text.startswith("["), text.endswith("?")
        metadata: dict[str, object] = {}
        if kafka_type in self._lines:
            type_: object = self._struct(kafka_type)
        else:
            metadata["kafka_type"] = kafka_type
            type_ = _types()[kafka_type]
        if tag:
            metadata["tag"] = int(tag)
        value: dict[str, object] = {}
        if is_array:
            type_ = tuple[type_, ...]  # type: ignore[valid-type] # made here
        if has_default:
            value = {"default": _default(kafka_type, default)}
        elif is_nullable:
            value = {"default": None}
        elif tag and is_array:
            value = {"default": ()}
        if is_nullable:
            type_ = type_ | None  # type: ignore[operator] # as above
        return name, type_, field(metadata=metadata, **value)  # type: ignore[call-overload] # as above

    def _struct(self, name: str) -> type:
        if name not in self._made:
            self._made[name] = self._class(name, self._lines[name], {})
        return self._made[name]


@cache
def _types() -> dict[str, object]:
    """Return the codec library's type of each of Kafka's."""
    from uuid import UUID  # noqa: PLC0415 - for messages only

    from kio.static import primitive  # noqa: PLC0415 - as above

    return {
        "bool": bool,
        "bytes": bytes,
        "float64": primitive.f64,
        "int16": primitive.i16,
        "int32": primitive.i32,
        "int64": primitive.i64,
        "int8": primitive.i8,
        "records": primitive.Records,
        "string": str,
        "timedelta_i32": primitive.i32Timedelta,
        "timedelta_i64": primitive.i64Timedelta,
        "uint16": primitive.u16,
        "uuid": UUID | None,
    }


def _default(kafka_type: str, text: str) -> object:
    if kafka_type == "string":
        return text
    if kafka_type == "bool":
        return bool(int(text))
    if kafka_type.startswith("timedelta"):
        from datetime import timedelta  # noqa: PLC0415 - for messages only

        return timedelta(milliseconds=int(text))
    return int(text)
