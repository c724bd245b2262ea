"""The users file: what is read, what is refused, and what an edit leaves alone."""

from base64 import b64encode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.auth.scram import MECHANISMS, MIN_ITERATIONS, SCRAM_SHA_256, SCRAM_SHA_512
from proxy.core.auth.stored_users import (
    DEFAULT_ITERATIONS,
    MAX_NAME_CHARS,
    Credential,
    Users,
    name_problem,
    new_credential,
)
from proxy.core.auth.users_text import (
    UsersFileError,
    read_users,
    with_credentials,
    with_stand_in_key,
    without_user,
)

SALT = b"0123456789abcdefghijklmn"
ALICE = new_credential(SCRAM_SHA_512, b"alice-secret", SALT, MIN_ITERATIONS)
KEY_LINE = f"# stand_in_key={b64encode(b'k' * 32).decode()}"
SMALL = new_credential(SCRAM_SHA_256, b"alice-secret", SALT, MIN_ITERATIONS)
KAFKA_LINE = (
    # the words of kafka-configs, with the keys of RFC 7677's example
    "user SCRAM-SHA-256=salt=W22ZaJ0SNY7soEsUEjb6gQ==,"
    "stored_key=WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=,"
    "server_key=wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=,iterations=4096"
)

NAMES = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Zs", "Zl", "Zp"]), min_size=1
).filter(lambda name: name_problem(name) is None)
CREDENTIALS = st.builds(
    lambda mechanism, salt, keys, iterations: Credential(
        mechanism,
        salt,
        mechanism.hash(keys),
        mechanism.hash(keys + b"server"),
        iterations,
    ),
    st.sampled_from(list(MECHANISMS.values())),
    st.binary(min_size=1, max_size=40),
    st.binary(max_size=8),
    st.integers(MIN_ITERATIONS, 20_000),
)
COMMENTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n")).map(
    lambda text: f"#{text}"
)


def test_a_line_in_kafkas_words_is_read() -> None:
    """The keys are those of RFC 7677's example, which a password makes again."""
    (found,) = read_users(f"# users\n\n{KAFKA_LINE}\n").credentials("user")

    assert found == new_credential(SCRAM_SHA_256, b"pencil", found.salt, 4096)
    assert str(found) == KAFKA_LINE.removeprefix("user ")


def test_a_user_may_have_both_mechanisms() -> None:
    """A password of PLAIN is verified with the stronger one."""
    users = read_users(f"alice {SMALL}\nbob {SMALL}\nalice\t {ALICE}")

    assert list(users) == ["alice", "bob"]
    assert len(users) == 2
    assert "alice" in users
    assert users.credentials("alice") == (SMALL, ALICE)
    assert users.credentials("carol") == ()
    assert users.find("alice", "SCRAM-SHA-256") == (SMALL, True)
    assert users.find_any("alice") == (ALICE, True)
    assert users.find_any("bob") == (SMALL, True)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("alice", "expected NAME MECHANISM="),
        ("alice secret", "expected NAME MECHANISM="),
        ("alice PLAIN=secret", "expected NAME MECHANISM="),
        (f"alice {ALICE}".replace("512", "224"), "expected NAME MECHANISM="),
        (f"alice {ALICE},more=1", "expected NAME MECHANISM="),
        (f"alice {ALICE}".replace("salt=", "salt=?"), "not valid base64"),
        (f"alice {ALICE}".replace("=4096", "=4095"), r"iterations 4095 are outside 4096\.\."),
        (f"alice {ALICE}".replace("=4096", "=1000001"), "are outside"),
        (f"alice {SMALL}".replace("256", "512"), "keys of 64 bytes"),
        (f"{'a' * (MAX_NAME_CHARS + 1)} {ALICE}", "expected NAME MECHANISM="),
    ],
)
def test_a_line_of_another_form_is_refused(line: str, why: str) -> None:
    """The error has the line's number, and nothing of the line: it may contain a password."""
    with pytest.raises(UsersFileError, match=f"line 2: .*{why}") as refused:
        read_users(f"# first\n{line}\n")

    assert "secret" not in str(refused.value)


def test_the_same_credential_twice_is_refused() -> None:
    """It would be unclear which one counts."""
    with pytest.raises(UsersFileError, match="line 2: user 'alice' has SCRAM-SHA-512 twice"):
        read_users(f"alice {ALICE}\nalice {ALICE}")


@pytest.mark.parametrize(
    "name", ["", "#alice", "a b", "a\tb", "a\nb", "a\u2028", "\x7f", "a" * 256]
)
def test_a_name_that_the_file_cannot_have_is_a_problem(name: str) -> None:
    """No white space, no control character, no comment sign first, 1 to 255 characters."""
    assert name_problem(name) is not None


@pytest.mark.parametrize("name", ["a", "alice", "CN=alice,O=x", "ålice", "a#b", "a" * 255])
def test_other_names_are_allowed(name: str) -> None:
    """Commas and equals signs too, and letters of any language."""
    assert name_problem(name) is None
    assert list(read_users(f"{name} {ALICE}")) == [name]


@given(st.dictionaries(NAMES, CREDENTIALS, max_size=5), st.lists(COMMENTS, max_size=3))
def test_a_written_file_reads_the_same(book: dict[str, Credential], comments: list[str]) -> None:
    """For any names, keys and comments."""
    lines = [*comments, *(f"{name} {credential}" for name, credential in book.items())]
    users = read_users("\n".join(lines))

    assert list(users) == list(book)
    assert {name: users.credentials(name) for name in users} == {n: (c,) for n, c in book.items()}


@given(
    st.lists(NAMES | COMMENTS | st.just(""), max_size=8, unique=True), NAMES, CREDENTIALS, st.data()
)
def test_an_edit_changes_only_the_lines_of_its_user(
    words: list[str], name: str, credential: Credential, data: st.DataObject
) -> None:
    """Order, comments and other users stay; a second removal changes nothing."""
    lines = [word if word == "" or word[0] == "#" else f"{word} {ALICE}" for word in words]
    text = "".join(f"{line}\n" for line in lines)
    others = [line for line in lines if line.split(" ")[0] != name]

    added = with_credentials(text, name, [credential])
    assert [line for line in added.split("\n")[:-1] if line.split(" ")[0] != name] == others
    assert read_users(added).credentials(name) == (credential,)
    removed = without_user(added, name)
    assert removed == "".join(f"{line}\n" for line in others)
    assert without_user(removed, name) == removed


def test_a_changed_user_stays_in_its_place() -> None:
    """All its lines are replaced by the new ones, where the first of them was."""
    text = f"# a\nalice {SMALL}\nbob {SMALL}\nalice {ALICE}\n# z"

    assert with_credentials(text, "alice", [ALICE]) == f"# a\nalice {ALICE}\nbob {SMALL}\n# z\n"


def test_a_stand_in_looks_like_the_keys_of_most_users() -> None:
    """Salt length and iterations are theirs; the same name gets the same salt in each process that has the file."""
    text = f"{KEY_LINE}\nalice {ALICE}\nbob {SMALL}\ncarol {ALICE}"
    found, exists = read_users(text).find("mallory", "SCRAM-SHA-512")

    assert not exists
    assert (len(found.salt), found.iterations) == (len(SALT), MIN_ITERATIONS)
    assert len(found.stored_key) == len(ALICE.stored_key)
    assert read_users(text).find("mallory", "SCRAM-SHA-512").credential == found
    assert read_users(text).find("eve", "SCRAM-SHA-512").credential.salt != found.salt
    assert read_users(text).find("bob", "SCRAM-SHA-512").exists is False
    assert read_users(text).find_any("mallory").credential.mechanism is SCRAM_SHA_512


@given(st.dictionaries(NAMES, CREDENTIALS, min_size=1, max_size=5), CREDENTIALS, st.data())
def test_no_change_of_a_user_alters_the_salt_of_a_stand_in(
    book: dict[str, Credential], new: Credential, data: st.DataObject
) -> None:
    """A client would know the users by the salts that stay. The length of a salt follows that of most users."""
    text = "".join(f"{line}\n" for line in (KEY_LINE, *(f"{n} {c}" for n, c in book.items())))
    name = data.draw(st.sampled_from(list(book)))
    for mechanism in MECHANISMS:
        before = read_users(text).stand_in("a stranger", mechanism)
        for changed in (with_credentials(text, name, [new]), without_user(text, name)):
            after = read_users(changed).stand_in("a stranger", mechanism)
            shared = min(len(before.salt), len(after.salt))
            assert after.salt[:shared] == before.salt[:shared]


def test_the_secret_of_stand_ins_is_a_line_of_the_file_that_edits_leave_alone() -> None:
    """It is added once, before the first user; without one, that of the process counts."""
    text = with_stand_in_key(f"# a\nalice {ALICE}\n", b"k" * 32)
    assert text == f"# a\n{KEY_LINE}\nalice {ALICE}\n"
    assert with_stand_in_key(text, b"z" * 32) == text
    assert with_stand_in_key("# a\n", b"k" * 32) == f"# a\n{KEY_LINE}\n"
    assert without_user(text, "alice") == f"# a\n{KEY_LINE}\n"
    mine = read_users(text).stand_in("eve", "SCRAM-SHA-512")
    assert read_users(f"alice {ALICE}", b"k" * 32).stand_in("eve", "SCRAM-SHA-512") == mine
    assert read_users(text, b"z" * 32).stand_in("eve", "SCRAM-SHA-512") == mine


@pytest.mark.parametrize("value", ["", "a2s=", "?", "k" * 44])
def test_a_secret_of_another_length_is_refused(value: str) -> None:
    """An empty one would be everyone's."""
    with pytest.raises(UsersFileError, match="line 1: expected 32 bytes in base64"):
        read_users(f"# stand_in_key={value}\n")


def test_among_equally_many_the_iterations_do_not_depend_on_the_order_of_users() -> None:
    """The larger ones count: an edit that moves a user changes no stand-in."""
    more = new_credential(SCRAM_SHA_512, b"bob-secret", SALT, MIN_ITERATIONS + 1)
    for lines in ((f"alice {ALICE}", f"bob {more}"), (f"bob {more}", f"alice {ALICE}")):
        found = read_users("\n".join(lines)).stand_in("eve", "SCRAM-SHA-512")
        assert found.iterations == MIN_ITERATIONS + 1
    found = read_users(f"a {ALICE}\nbob {more}\nc {ALICE}").stand_in("eve", "SCRAM-SHA-512")
    assert found.iterations == MIN_ITERATIONS


def test_without_any_user_there_is_still_a_stand_in() -> None:
    """An empty file refuses every client in the same way."""
    found, exists = Users().find_any("alice")

    assert (exists, found.iterations) == (False, DEFAULT_ITERATIONS)
