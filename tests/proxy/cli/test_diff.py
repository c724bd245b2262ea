"""`sluice diff`: every change before and after, restarts, policies by entry; no secret, and its exit codes."""

import json
from pathlib import Path

import pytest

from proxy.config_changes import SettingChange, ShownConfig, needs_restart, setting_changes, shown
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


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Both configurations."""
    (tmp_path / "old.yaml").write_text(OLD)
    (tmp_path / "new.yaml").write_text(NEW)
    return tmp_path / "old.yaml", tmp_path / "new.yaml"


def test_changes_are_listed_with_their_values(files: tuple[Path, Path]) -> None:
    """Exit code 1; a setting that no reload applies says so."""
    old, new = files

    told = invoke("diff", "--config", new, "--against", old)
    lines = told.output.splitlines()

    assert told.exit_code == 1
    assert 'log.level: "info" -> "debug"' in lines
    assert (
        'upstream.bootstrap_servers: ["kafka-1:9092"] -> ["kafka-1:9092","kafka-2:9092"] (needs a restart)'
    ) in lines
    assert 'policies[limits].mode: "enforce" -> "observe"' in lines
    assert (
        'policies[limits].config.forbidden_apis: ["DeleteTopics"] -> ["DeleteTopics","DeleteRecords"]'
    ) in lines
    assert any(
        each.startswith("policies[gone]: {") and each.endswith("-> nothing") for each in lines
    )
    assert any(each.startswith("policies[new]: nothing -> {") for each in lines)
    assert len(lines) == 6


def test_equal_configurations_have_no_change(files: tuple[Path, Path]) -> None:
    """Exit code 0."""
    told = invoke("diff", "--config", files[0], "--against", files[0])

    assert (told.exit_code, told.output) == (0, "No change.\n")


@pytest.mark.parametrize("wrong", [0, 1])
def test_an_invalid_configuration_is_explained(files: tuple[Path, Path], wrong: int) -> None:
    """Exit code 2, for each side."""
    files[wrong].write_text("upstream: {}\n")

    told = invoke("diff", "--config", files[1], "--against", files[0])

    assert told.exit_code == 2
    assert "upstream.bootstrap_servers" in told.output


def test_a_sluice_that_does_not_answer_is_exit_code_two(files: tuple[Path, Path], tmp_path) -> None:
    """It is no difference."""
    told = invoke("diff", "--config", files[1], "--socket", tmp_path / "none")

    assert told.exit_code == 2


def test_the_running_configuration_is_compared(files: tuple[Path, Path], sluice_with) -> None:
    """Over its socket; after a reload there is no difference."""
    sluice = sluice_with([{"use": "limits"}], admin={"socket": str(files[0].parent / "admin")})
    sluice.await_log(lambda log: "ready" in log)
    arguments = (
        "diff",
        "--config",
        sluice.directory / "sluice.yaml",
        "--socket",
        files[0].parent / "admin",
    )
    assert invoke(*arguments).output == "No change.\n"

    text = (sluice.directory / "sluice.yaml").read_text()
    (sluice.directory / "sluice.yaml").write_text(text.replace('"use": "limits"', '"use": "quota"'))
    (found,) = [
        each for each in json.loads(invoke(*arguments, "--json").output) if "limits" in each["path"]
    ]
    assert (found["after"], found["restart"]) == ("nothing", False)

    sluice.reload([{"use": "quota"}])
    assert invoke(*arguments).output == "No change.\n"


def test_secrets_are_compared_and_not_shown() -> None:
    """At any depth, by the name of their key."""
    before, after = (
        shown(config_of())._replace(settings=shown_settings(word))
        for word in ("hunter2", "swordfish")
    )

    (change,) = setting_changes(before, after)

    assert change.path == "policies[mine].config.db.password"
    assert "hunter2" not in repr(change)
    assert change.before != change.after


def shown_settings(word: str) -> dict[str, object]:
    from proxy.config_changes import _without_secrets  # noqa: PLC0415 - what `shown` uses for any settings

    entry = {"name": "mine", "config": {"db": {"password": word, "password_file": "f"}}}
    return _without_secrets({"policies": [entry]}, "")


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
