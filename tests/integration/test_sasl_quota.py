"""Quotas of users that have authenticated to Sluice itself, before a real Kafka without authentication."""

import struct
from pathlib import Path

from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.sasl_talk import Talk
from tests.support.messages import frames as f
from tests.support.messages.sasl import plain
from tests.support.processes.command_line import invoke
from tests.support.processes.sluice_process import SluiceProcess


def throttle_time_ms(talk: Talk) -> int:
    """Return how long Sluice asks the client to wait, in the reply to a Metadata v3 request."""
    talk.send(f.request(f.METADATA, 3, talk.next_id(), b"\xff\xff\xff\xff"))
    reply = talk.receive()
    assert reply is not None
    found: int = struct.unpack_from(">i", reply)[0]
    return found


def test_quotas_apply_to_the_user_that_has_authenticated_to_sluice(
    kafka_sasl: KafkaCluster, tmp_path: Path
) -> None:
    """A request in ten seconds for alice: one of her next requests is throttled, and none of bob's is."""
    users = tmp_path / "users"
    for name in ("alice", "bob"):
        (tmp_path / name).write_text(f"{name}-secret")
        secret = ("--password-file", tmp_path / name)
        assert invoke("users", "add", name, "--file", users, *secret).exit_code == 0
    quota = {"use": "quota", "config": {"quotas": [{"user": "alice", "request_rate": 0.1}]}}
    with (
        SluiceProcess(
            kafka_sasl.bootstrap,
            tmp_path / "sluice",
            listen_settings={"sasl": {"users_file": str(users), "mechanisms": ["PLAIN"]}},
            settings={"policies": [quota]},
        ) as sluice,
        Talk(sluice.port) as alice,
        Talk(sluice.port) as bob,
    ):
        for talk, name in ((alice, "alice"), (bob, "bob")):
            answer = talk.plain(plain(name, f"{name}-secret"))
            assert answer is not None
            assert answer.error_code == 0
        assert any(throttle_time_ms(alice) for _ in range(20))
        assert not any(throttle_time_ms(bob) for _ in range(20))
