"""One vocabulary: an option means the same in every command."""

from collections import defaultdict
from collections.abc import Iterator

import click
from click.testing import CliRunner

from proxy.cli import options
from proxy.cli.main import main


def commands(group: click.Group) -> Iterator[click.Command]:
    context = click.Context(group)
    for name in group.list_commands(context):
        each = group.get_command(context, name)
        assert each is not None
        if isinstance(each, click.Group):
            yield from commands(each)
        else:
            yield each


def options_of(command: click.Command) -> list[click.Option]:
    """Return the options that the command's help lists."""
    return [each for each in command.params if isinstance(each, click.Option) and not each.hidden]


def test_an_option_has_one_type_and_one_placeholder_in_all_commands() -> None:
    """A reader who knows it from one command can use it in another."""
    found: dict[str, set[str]] = defaultdict(set)
    for command in commands(main):
        for each in options_of(command):
            if each.name != "limit":  # its range differs
                shape = f"{each.type!r} {each.metavar} {each.is_flag}"
                found[each.opts[-1]].add(shape.partition(" object at ")[0])

    assert {"--config", "--socket", "--user", "--json"} <= found.keys()
    assert not {name: shapes for name, shapes in found.items() if len(shapes) > 1}


def test_every_option_and_command_has_a_help_text() -> None:
    """The reference in the docs is generated from it."""
    for command in commands(main):
        assert command.help
        assert all(each.help for each in options_of(command))


def test_options_are_added_in_the_order_that_help_shows() -> None:
    """The first option given is the first in the help text."""

    def command(**_given: object) -> None: ...

    added = click.command()(options.add_options(command, options.limit(5, default=2), options.JSON))

    shown = CliRunner().invoke(added, ["--help"]).output
    assert shown.index("--limit") < shown.index("--json")
    assert CliRunner().invoke(added, ["--limit", "6"]).exit_code == 2
