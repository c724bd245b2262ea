"""The options that all commands share; what they do is seen in `test_command`."""

from __future__ import annotations

import click
from click.testing import CliRunner

from policies.quota.entity import ANY, QuotaEntity
from proxy.cli.quota_options import Where, asks


def test_a_command_gets_whom_to_ask_and_about_whom() -> None:
    """Two values, whatever else it takes; without options nobody in particular."""
    got: list[object] = []

    @click.command()
    @asks
    @click.option("--more")
    def command(where: Where, entity: QuotaEntity, *, more: str | None) -> None:
        got.extend((where, entity, more))

    arguments = ["--user", "a", "--default-client-id", "--bootstrap", "h:1", "--login", "me"]
    run = CliRunner(env={"SLUICE_CONFIG": None})
    assert run.invoke(command, [*arguments, "--more", "x"]).exit_code == 0
    where, entity, more = got
    assert where == Where("h:1", None, "me", None, "SCRAM-SHA-512")
    assert (entity, more) == (QuotaEntity("a", ANY), "x")
    got.clear()
    assert run.invoke(command, []).exit_code == 0
    assert got == [Where(None, None, None, None, "SCRAM-SHA-512"), QuotaEntity(), None]
