"""Quotas changed live before a real Kafka: by Kafka's own tools, by a Java AdminClient, and by `sluice quotas`.

`test_quota_rates` has the effect on traffic; here a change is accepted, shown, saved or refused.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka.admin import AdminClient

from policies.quota.quota_file import QuotaFile, QuotaFileLine, render_quota_file
from tests.support.kafka.java import CONFIG_COMMAND, Java
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.processes.sluice_process import COMMAND, SluiceProcess
from tests.support.quotas.quota_setup import quota_users

ADMIN: Final = "ourquota"


class Running:
    """A Sluice with the policy, and the two ways to talk to it."""

    def __init__(self, sluice: SluiceProcess, java: Java) -> None:
        self.sluice = sluice
        self._java = java

    def configs(self, *arguments: str) -> str:
        """Return the output of `kafka-configs.sh`."""
        return self._java.run_tool(
            CONFIG_COMMAND, "--bootstrap-server", self.sluice.bootstrap, *arguments
        )

    def quotas(self, *arguments: str, stdin: str = "", code: int = 0) -> str:
        """Return the output of `sluice quotas`; of standard error if it must fail."""
        command, *rest = arguments
        done = subprocess.run(
            [COMMAND, "quotas", command, "--bootstrap", self.sluice.bootstrap, *rest],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, (done.stdout, done.stderr)
        return done.stderr if code else done.stdout

    def listed(self) -> dict[tuple[str | None, str | None, str], tuple[float, str]]:
        """Return (user, client id, key) to (value, origin), as `sluice quotas list` prints them."""
        return {
            (each["user"], each["client_id"], each["quota"]): (each["per_second"], each["origin"])
            for each in json.loads(self.quotas("list", "--json"))
        }


def sluice_with(
    upstream: str, directory: Path, *, mode: str = "enforce", **config: object
) -> SluiceProcess:
    policies = [{"use": "quota", "mode": mode, "config": config}]
    return SluiceProcess(upstream, directory, variables={"SLUICE_POLICIES": json.dumps(policies)})


@pytest.fixture
def running(kafka_one: KafkaCluster, java: Java, tmp_path: Path) -> Iterator[Running]:
    """Every client is ANONYMOUS and an admin; one quota is in the file, the live ones are saved."""
    with sluice_with(
        kafka_one.bootstrap,
        tmp_path / "sluice",
        admins=["ANONYMOUS"],
        state_file=str(tmp_path / "quotas.json"),
        quotas=[{"user": "bob", "request_rate": 500}],
    ) as sluice:
        yield Running(sluice, java)


@pytest.mark.slow
def test_an_entry_that_observes_leaves_quotas_to_the_broker(
    kafka_one: KafkaCluster, java: Java, tmp_path: Path
) -> None:
    """Sluice neither saves nor applies the alteration; the broker answers it."""
    state_file = tmp_path / "quotas.json"
    with sluice_with(
        kafka_one.bootstrap,
        tmp_path / "sluice",
        mode="observe",
        admins=["ANONYMOUS"],
        state_file=str(state_file),
        quotas=[{"user": "bob", "request_rate": 500}],
    ) as sluice:
        entity = ("--entity-type", "users", "--entity-name", "observed")
        through = Running(sluice, java)

        def direct(*arguments: str) -> str:
            return java.run_tool(
                CONFIG_COMMAND, "--bootstrap-server", kafka_one.bootstrap, *arguments
            )

        through.configs("--alter", *entity, "--add-config", "consumer_byte_rate=123456")
        assert "consumer_byte_rate=123456" in through.configs("--describe", *entity)
        assert "consumer_byte_rate=123456" in direct("--describe", *entity)
        through.configs("--alter", *entity, "--delete-config", "consumer_byte_rate")
        assert "consumer_byte_rate" not in direct("--describe", *entity)
        assert "bob" not in through.configs("--describe", "--entity-type", "users")
        assert not state_file.exists()
    said = sluice.said()
    assert "policy_observed" in said
    assert "AlterClientQuotas" in said


@pytest.mark.slow
def test_kafka_configs_alters_describes_and_deletes(running: Running) -> None:
    """Byte rates of users, client ids, both, and their defaults."""
    entities = (
        (("--entity-type", "users", "--entity-name", "alice"), "user-principal 'alice'"),
        (("--entity-type", "clients", "--entity-default"), "the default client-id"),
        (
            ("--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-name", "c"),
            "the default user-principal, client-id 'c'",
        ),
    )  # fmt: skip
    for number, (entity, words) in enumerate(entities):
        rate = 1_048_576 + number
        said = running.configs(
            "--alter", *entity, "--add-config", f"producer_byte_rate={rate},consumer_byte_rate=7777"
        )
        assert "Completed updating" in said
        said = running.configs("--describe", *entity)
        (line,) = re.findall(r"Quota configs for (.*) are (.*)", said)
        assert line[0] == words
        assert sorted(line[1].split(", ")) == [
            "consumer_byte_rate=7777.0",
            f"producer_byte_rate={rate}.0",
        ]
    assert running.listed() == {
        ("bob", None, "request_rate"): (500.0, "file"),
        ("alice", None, "producer_byte_rate"): (1_048_576.0, "override"),
        ("alice", None, "consumer_byte_rate"): (7777.0, "override"),
        (None, "<default>", "producer_byte_rate"): (1_048_577.0, "override"),
        (None, "<default>", "consumer_byte_rate"): (7777.0, "override"),
        ("<default>", "c", "producer_byte_rate"): (1_048_578.0, "override"),
        ("<default>", "c", "consumer_byte_rate"): (7777.0, "override"),
    }
    alice = entities[0][0]
    running.configs("--alter", *alice, "--delete-config", "producer_byte_rate")
    assert "consumer_byte_rate=7777.0\n" in running.configs("--describe", *alice)


@pytest.mark.slow
def test_kafka_configs_prints_the_reason_of_a_refusal(running: Running) -> None:
    """The message is Sluice's."""
    entity = ("--entity-type", "users", "--entity-name", "alice")
    with pytest.raises(AssertionError, match="Sluice's own is request_rate"):
        running.configs("--alter", *entity, "--add-config", "request_percentage=50")
    with pytest.raises(AssertionError, match="must be greater than 0"):
        running.configs("--alter", *entity, "--add-config", "producer_byte_rate=0")


def test_sluice_quotas_sets_lists_and_removes(running: Running) -> None:
    """An override beats the file's value; when it is removed the file's value holds again."""
    said = running.quotas("set", "--user", "bob", "request_rate=20", "producer_byte_rate=5000")
    assert re.search(r"^bob +- +request_rate +20 +live$", said, re.MULTILINE)
    assert running.listed()["bob", None, "request_rate"] == (20.0, "override")
    said = running.quotas("remove", "--user", "bob")
    assert re.search(r"^bob +- +request_rate +500 +config file$", said, re.MULTILINE)
    assert running.listed() == {("bob", None, "request_rate"): (500.0, "file")}
    said = running.quotas("remove", "--user", "bob", "request_rate", code=1)
    assert "is set in Sluice's config file" in said


def test_a_quota_file_is_applied_live_and_read_at_a_reload(
    running: Running, tmp_path: Path
) -> None:
    """By `sluice quotas apply`, in several requests; a second run changes nothing, and `--prune` removes the rest."""
    lines = [QuotaFileLine(user=f"u{n}", request_rate=n + 0.5) for n in range(4000)]
    file = tmp_path / "many.yaml"
    file.write_text(render_quota_file(QuotaFile(quotas=tuple(lines))))
    said = running.quotas("apply", str(file), "--dry-run")
    assert "4000 to add, 0 to change, 0 to remove, 0 unchanged." in said
    assert len(running.listed()) == 1
    assert running.quotas("apply", str(file)).endswith("Done.\n")
    listed = running.listed()
    assert len(listed) == 4001
    assert listed["u3999", None, "request_rate"] == (3999.5, "override")
    file.write_text(
        "version: 1\nquotas: [{user: u7, request_rate: 7.5}, {user: bob, request_rate: 2}]"
    )
    said = running.quotas("apply", str(file), "--prune")
    assert "0 to add, 1 to change, 3999 to remove, 1 unchanged." in said
    assert running.listed() == {
        ("bob", None, "request_rate"): (2.0, "override"),
        ("u7", None, "request_rate"): (7.5, "override"),
    }
    said = running.quotas("apply", str(file), "--prune")
    assert said == "0 to add, 0 to change, 0 to remove, 2 unchanged.\n"


def test_live_quotas_outlive_the_process(running: Running) -> None:
    """They are unchanged after a restart and after a crash."""
    running.quotas("set", "--default-user", "request_rate=1000")
    running.quotas("set", "--client-id", "noisy", "consumer_byte_rate=123456")
    before = running.listed()
    running.sluice.stop()
    running.sluice.start()
    assert running.listed() == before
    running.sluice.kill()
    running.sluice.start()
    assert running.listed() == before
    running.quotas("remove", "--default-user")
    assert ("<default>", None, "request_rate") not in running.listed()


def test_top_shows_the_use_of_each_limit(running: Running) -> None:
    """A client's requests are shown against its limit, which was set while it was connected."""
    admin = AdminClient({"bootstrap.servers": running.sluice.bootstrap, "client.id": "watched"})
    admin.list_topics(timeout=120)
    running.quotas("set", "--client-id", "watched", "request_rate=2")
    for _ in range(8):  # four at once, then two a second
        admin.list_topics(timeout=120)
    (row,) = json.loads(running.quotas("usage", "--json"))
    assert (row["user"], row["client_id"], row["quota"]) == (None, "watched", "request_rate")
    assert row["limit"] == 2.0
    assert row["rate"] > 0
    assert row["throttle_max_ms"] > 0
    assert re.search(r"^- +watched +request_rate +2 ", running.quotas("usage"), re.MULTILINE)


def test_only_admins_change_quotas(kafka_sasl: KafkaCluster, tmp_path: Path) -> None:
    """The broker has authenticated the user; every other user may describe."""
    with sluice_with(kafka_sasl.sasl_bootstrap, tmp_path / "sluice", admins=[ADMIN]) as sluice:
        running = Running(sluice, kafka_sasl.java)

        def as_user(name: str) -> tuple[str, ...]:
            return ("--login", name, "--password-file", "-", "--sasl-mechanism", "PLAIN")

        passwords = quota_users()
        change = ("set", "--user", "x", "request_rate=5")
        said = running.quotas(
            *change, *as_user("bothquotas"), stdin=passwords["bothquotas"], code=1
        )
        assert said == (
            "Refused: bothquotas may not alter quotas: the setting admins of Sluice's policy quota does not "
            "name this principal\n"
        )
        running.quotas(*change, *as_user(ADMIN), stdin=passwords[ADMIN])
        said = running.quotas("list", *as_user("bothquotas"), stdin=passwords["bothquotas"])
        assert re.search(r"^x +- +request_rate +5 +live$", said, re.MULTILINE)
        said = running.quotas("list", *as_user(ADMIN), stdin="guess", code=1)
        assert said.startswith(f"{ADMIN} could not log in: ")
        assert "have not authenticated" in running.quotas("list", code=1)


@pytest.mark.slow
def test_the_brokers_own_quotas_are_forwarded(
    kafka_one: KafkaCluster, java: Java, tmp_path: Path
) -> None:
    """With forward_other_keys its keys and ips go to the broker; a request about both is refused."""
    with sluice_with(
        kafka_one.bootstrap, tmp_path / "sluice", admins=["ANONYMOUS"], forward_other_keys=True
    ) as sluice:
        running = Running(sluice, java)
        by_ip = ("--entity-type", "ips", "--entity-name", "127.0.0.9")
        running.configs("--alter", *by_ip, "--add-config", "connection_creation_rate=50")
        assert "connection_creation_rate=50.0" in running.configs("--describe", *by_ip)
        running.configs("--alter", *by_ip, "--delete-config", "connection_creation_rate")
        running.quotas("set", "--user", "forwarded", "request_percentage=150")
        direct = java.run_tool(
            *(CONFIG_COMMAND, "--bootstrap-server", kafka_one.bootstrap, "--describe"),
            *("--entity-type", "users", "--entity-name", "forwarded"),
        )
        assert "request_percentage=150.0" in direct
        mixed = ("request_percentage=10", "request_rate=10")
        said = running.quotas("set", "--user", "forwarded", *mixed, code=1)
        assert "alter them in two requests" in said
        running.quotas("remove", "--user", "forwarded", "request_percentage")


def test_one_of_several_replicas_only_describes(
    kafka_one: KafkaCluster, java: Java, tmp_path: Path
) -> None:
    """The reply to an alteration says why."""
    with sluice_with(
        kafka_one.bootstrap, tmp_path / "sluice", admins=["ANONYMOUS"], replicas=2
    ) as sluice:
        running = Running(sluice, java)
        said = running.quotas("set", "--user", "x", "request_rate=5", code=1)
        assert said.startswith("Refused: This Sluice is one of 2 replicas")
        assert running.listed() == {}
