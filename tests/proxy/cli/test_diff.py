"""`sluice diff`: every change before and after, restarts, policies by entry; no secret, and its exit codes."""

import json
from pathlib import Path

from proxy.config.changes import SettingChange, ShownConfig, needs_restart, setting_changes, shown
from proxy.config.model import PolicyEntry
from proxy.config.sources import load
from proxy.dynamic_config import LIVE_SETTINGS
from tests.support.processes.admin_room import config_of
from tests.support.processes.command_line import invoke

OLD = """\
upstream: {bootstrap_servers: ['kafka-1:9092']}
log: {level: info}
policies:
  - {use: limits, config: {forbidden_apis: [DeleteTopics]}}
  - {use: quota, name: gone}
"""
NEW = """\
upstream: {bootstrap_servers: ['kafka-1:9092', 'kafka-2:9092']}
log: {level: debug}
policies:
  - {use: quota, name: new}
  - {use: limits, mode: observe, config: {forbidden_apis: [DeleteTopics, DeleteRecords]}}
"""


def configured(file: Path, text: str) -> ShownConfig:
    file.write_text(text)
    return shown(load(file, {}, {}).config)


def test_changes_are_listed_with_their_values(tmp_path: Path) -> None:
    """Those of policies by entry; a setting that no reload applies needs a restart."""
    file = tmp_path / "sluice.yaml"

    found = setting_changes(configured(file, OLD), configured(file, NEW))
    values = {each.path: (each.before, each.after) for each in found}

    assert values.pop("policies[gone]")[1] == values.pop("policies[new]")[0] == "nothing"
    assert values == {
        "log.level": ('"info"', '"debug"'),
        "upstream.bootstrap_servers": ('["kafka-1:9092"]', '["kafka-1:9092","kafka-2:9092"]'),
        "policies[limits].mode": ('"enforce"', '"observe"'),
        "policies[limits].config.forbidden_apis": (
            '["DeleteTopics"]',
            '["DeleteTopics","DeleteRecords"]',
        ),
    }
    assert [each.path for each in found if needs_restart(each, LIVE_SETTINGS)] == [
        "upstream.bootstrap_servers"
    ]


def test_a_comparison_that_cannot_be_made_is_explained(tmp_path: Path) -> None:
    """Exit code 2: the configuration is invalid, or Sluice does not answer."""
    file = tmp_path / "sluice.yaml"
    arguments = ("diff", "--config", file, "--socket", tmp_path / "none")

    file.write_text("upstream: {}\n")
    told = invoke(*arguments)
    assert (told.exit_code, "upstream.bootstrap_servers" in told.output) == (2, True)

    file.write_text(NEW)
    told = invoke(*arguments)
    assert (told.exit_code, "No Sluice answers at" in told.output) == (2, True)


def test_the_running_configuration_is_compared(tmp_path: Path, sluice_with) -> None:
    """Over its socket; after a reload there is no difference."""
    sluice = sluice_with([{"use": "limits"}], admin={"socket": str(tmp_path / "admin")})
    sluice.await_log(lambda log: "ready" in log)
    file = sluice.directory / "sluice.yaml"
    arguments = ("diff", "--config", file, "--socket", tmp_path / "admin")
    told = invoke(*arguments)
    assert (told.exit_code, told.output) == (0, "No change.\n")

    file.write_text(file.read_text().replace('"use": "limits"', '"use": "quota"'))
    told = invoke(*arguments, "--nodes", "0-3")
    lines = told.output.splitlines()
    assert told.exit_code == 1
    assert any(
        line.startswith("policies[limits]: {") and line.endswith(" -> nothing") for line in lines
    )
    assert any(
        line.startswith("listen.nodes: ") and line.endswith("(needs a restart)") for line in lines
    )
    (found,) = [
        each for each in json.loads(invoke(*arguments, "--json").output) if "limits" in each["path"]
    ]
    assert (found["after"], found["restart"]) == ("nothing", False)

    sluice.reload([{"use": "quota"}])
    assert invoke(*arguments).output == "No change.\n"


def test_secrets_are_compared_and_not_shown() -> None:
    """At any depth, by the name of their key."""
    before, after = (
        shown(
            config_of(
                policies=[
                    PolicyEntry(
                        use="mine",
                        name="mine",
                        config={"db": {"password": word, "password_file": "f"}},
                    )
                ]
            )
        )
        for word in ("hunter2", "swordfish")
    )

    (change,) = setting_changes(before, after)

    assert change.path == "policies[mine].config.db.password"
    assert "hunter2" not in repr(change)
    assert change.before != change.after


def test_a_changed_order_and_a_changed_file_are_changes() -> None:
    """Requests pass the policies in their order; a file counts by its content."""
    one, two = {"name": "one"}, {"name": "two"}
    before = ShownConfig({"policies": [one, two]}, {"q.yaml": "a"})
    after = ShownConfig({"policies": [two, one]}, {"q.yaml": "b"})

    assert setting_changes(before, after) == [
        SettingChange("policies (order)", "one, two", "two, one"),
        SettingChange("policies (file q.yaml)", "read before", "changed"),
    ]
    assert not any(needs_restart(each, ("policies",)) for each in setting_changes(before, after))
    assert needs_restart(SettingChange("logs.level", "", ""), ("log",))
