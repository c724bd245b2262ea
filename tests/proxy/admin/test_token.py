"""The token is the present content of a file."""

import pytest

from proxy.admin.token import Token

FIRST, SECOND = "first-token-0123456", "second-token-012345678"


def test_the_token_is_the_file_without_surrounding_space(tmp_path):
    """Editors end a file with a newline."""
    file = tmp_path / "token"
    file.write_text(f"  {FIRST}\n")
    token = Token(str(file))
    assert token.fits(f"Bearer {FIRST}")
    assert not token.fits(f"Bearer {FIRST}\n")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_compared_without_case(tmp_path, scheme):
    """RFC 9110 says so; the token itself is compared exactly."""
    file = tmp_path / "token"
    file.write_text(FIRST)
    token = Token(str(file))
    assert token.fits(f"{scheme} {FIRST}")
    assert token.fits(f"{scheme}  {FIRST}")
    for wrong in (f"{scheme} {FIRST.upper()}", f"{scheme}{FIRST}", FIRST, f"Basic {FIRST}", ""):
        assert not token.fits(wrong)


def test_a_changed_file_is_read_again(tmp_path):
    """A secret may be rotated while the proxy runs."""
    file = tmp_path / "token"
    file.write_text(FIRST)
    token = Token(str(file))
    other = tmp_path / "other"
    other.write_text(SECOND)
    other.replace(file)
    assert token.fits(f"Bearer {SECOND}")
    assert not token.fits(f"Bearer {FIRST}")


@pytest.mark.parametrize("spoil", ["gone", "short"])
def test_the_last_valid_token_stays_in_force(tmp_path, spoil):
    """While a secret is being replaced, the old token is accepted and no other."""
    file = tmp_path / "token"
    file.write_text(FIRST)
    token = Token(str(file))
    if spoil == "gone":
        file.unlink()
    else:
        file.write_text("x")
    assert token.fits(f"Bearer {FIRST}")
    assert not token.fits("Bearer x")
    assert not token.fits("Bearer ")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "\n",
        "fifteen-letters",
        "two words that are long",
        "two-lines-of\nletters",
        "sixteen-lettérs-",
    ],
)
def test_a_file_without_a_proper_token_is_refused_at_the_start(tmp_path, content):
    """The error says what is wrong with it."""
    file = tmp_path / "token"
    file.write_text(content)
    with pytest.raises(OSError, match="expected one word of 16 characters or more"):
        Token(str(file))


def test_a_missing_file_is_refused_at_the_start(tmp_path):
    """The error is the operating system's."""
    with pytest.raises(FileNotFoundError):
        Token(str(tmp_path / "none"))
