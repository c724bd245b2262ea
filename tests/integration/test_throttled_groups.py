"""Members of a consumer group join, and read, though every request of theirs is throttled."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ConfigResource, ConfigResourceType

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.load import await_that
from tests.support.kafka.one_kafka import since
from tests.support.kafka.topics import Topics
from tests.support.quotas.quota_groups import Feeder, KafkaPythonMember, LibrdkafkaMember, Member
from tests.support.quotas.quota_setup import quota_sluice, quota_users

REQUESTS_PER_SECOND = 4
# librdkafka gives a heartbeat up after this time; a target assignment in the reply is never sent to it again.
INTERVAL_MS = 15_000


@since(4, 0)  # configs of groups
@pytest.mark.parametrize(
    ("kind", "user"), [(KafkaPythonMember, "member"), (LibrdkafkaMember, "rdmember")]
)
def test_a_group_is_joined_at_a_few_requests_a_second(
    kind: type[Member], user: str, kafka_sasl: KafkaCluster, tmp_path: Path
) -> None:
    """Both members read records, which need a partition each: they have joined."""
    group = ConfigResource(
        ConfigResourceType.GROUP, user, {"consumer.heartbeat.interval.ms": str(INTERVAL_MS)}
    )
    admin = KafkaAdminClient(bootstrap_servers=kafka_sasl.bootstrap)
    admin.alter_configs([group])
    admin.close()
    topic = Topics(kafka_sasl.bootstrap, 1).make(2)
    limits = {user: {"request_rate": REQUESTS_PER_SECOND}}
    with ExitStack() as stack:
        sluice = stack.enter_context(quota_sluice(kafka_sasl, tmp_path, limits))
        stack.enter_context(Feeder(kafka_sasl.bootstrap, [topic], 2, 20))
        members = [
            stack.enter_context(kind(sluice.bootstrap, user, quota_users()[user], topic))
            for _ in range(2)
        ]
        await_that(
            lambda: all(each.consumed for each in members),
            "records for both",
            said=lambda: f"{members}",
        )
        assert [each.errors for each in members] == [[], []]
