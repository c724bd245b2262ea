"""How a command ends when Sluice refuses or cannot be reached."""

import pytest

from proxy.admin.errors import RefusedError, UnreachableError
from proxy.cli.errors import exits_on_failure


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (UnreachableError("No Sluice answers at s."), "No Sluice answers at s.\n"),
        (RefusedError(409, "a \x1b[2J name"), "Refused: a \\x1b[2J name\n"),
        (RefusedError(422, "no", ["a.b: x", "c: y"]), "Refused: no:\n  a.b: x\n  c: y\n"),
    ],
)
def test_both_errors_end_the_program_with_a_message(
    error: Exception, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1; the message goes to standard error, with control characters escaped."""
    with pytest.raises(SystemExit) as ended, exits_on_failure():
        raise error
    assert ended.value.code == 1
    assert capsys.readouterr() == ("", said)
