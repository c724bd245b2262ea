"""The options of all commands of `sluice quotas`; their effect is tested in test_quotas."""

import click
from click.testing import CliRunner

from policies.quota.entity import DEFAULT_NAME, QuotaEntity
from proxy.cli.kafka_options import KafkaOptions
from proxy.cli.quota_options import Where, with_quota_options


def test_a_command_gets_a_where_and_an_entity() -> None:
    """Both are made of the options; without options the entity is empty."""
    got: list[object] = []

    @click.command()
    @with_quota_options
    @click.option("--more")
    def command(where: Where, entity: QuotaEntity, *, more: str | None) -> None:
        got.extend((where, entity, more))

    arguments = ["--user", "a", "--default-client-id", "--bootstrap", "h:1", "--login", "me"]
    run = CliRunner(env={"SLUICE_CONFIG": None})
    assert run.invoke(command, [*arguments, "--more", "x"]).exit_code == 0
    where, entity, more = got
    assert where == Where(KafkaOptions("h:1", login="me"), None, None, None, None)
    assert (entity, more) == (QuotaEntity("a", DEFAULT_NAME), "x")
    got.clear()
    assert run.invoke(command, []).exit_code == 0
    assert got == [
        Where(KafkaOptions(), None, None, None, None),
        QuotaEntity(),
        None,
    ]
