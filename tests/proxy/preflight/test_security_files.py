"""The files that TLS and SASL name: each problem has the path of its key, and what works but needs care has a hint."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from policies.validation import Problem
from proxy.config.sources import load
from proxy.core.auth.scram import MECHANISMS, MIN_ITERATIONS
from proxy.core.auth.stored_users import new_credential
from proxy.core.auth.users_text import STAND_IN_KEY_BYTES, with_stand_in_key
from proxy.preflight.security_files import findings
from proxy.tls.contexts import CertificateFileError, client_context, server_context
from tests.support.shell.certificates import Authority, Pair
from tests.support.shell.token_issuer import jwks

CANARY = "canary-77e1a0"
NOW = datetime.now(UTC)
NAMES = ("127.0.0.1", "localhost")
SCRAM = {"MECHANISM": "SCRAM-SHA-512", "USERNAME": "u"}
TOKEN = {"MECHANISM": "OAUTHBEARER"}
ENDPOINT = {**TOKEN, "TOKEN_ENDPOINT_URL": "https://idp/t", "CLIENT_ID": "c"}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@pytest.fixture
def pair(authority: Authority) -> Pair:
    pair = authority.issue(*NAMES)
    pair.key_file.chmod(0o600)
    return pair


def found(
    section: str, settings: dict[str, object], now: datetime = NOW, **environ: str
) -> tuple[list[Problem], list[str]]:
    """Return the problems and the hints for a section, such as UPSTREAM_TLS, with these variables."""
    variables = {f"SLUICE_{section}_{key}": str(value) for key, value in settings.items()}
    upstream = {"upstream.bootstrap_servers": ("a:1", "--upstream")}
    config = load(None, {**variables, **environ}, upstream).config
    each = list(findings(config, {**variables, **environ}, now.timestamp()))
    problems = [one for one in each if isinstance(one, Problem)]
    hints = [one for one in each if isinstance(one, str)]
    assert not any(CANARY in str(one) for one in each)
    return problems, hints


def files_of(pair: Pair) -> dict[str, object]:
    return {"CERT_FILE": pair.cert_file, "KEY_FILE": pair.key_file}


def users(folder: Path) -> Path:
    file = folder / "users"
    keys = new_credential(MECHANISMS["SCRAM-SHA-512"], b"p", bytes(24), MIN_ITERATIONS)
    file.write_text(with_stand_in_key(f"alice {keys}\n", bytes(STAND_IN_KEY_BYTES)))
    file.chmod(0o600)
    return file


def secret(folder: Path, content: str = CANARY) -> Path:
    file = folder / "secret"
    file.write_text(content)
    file.chmod(0o600)
    return file


def test_usable_files_have_no_problem_and_no_hint(
    authority: Authority, pair: Pair, tmp_path: Path
) -> None:
    """On both sides, with certificates of authorities and of our own."""
    password = secret(tmp_path)
    files = files_of(pair)
    assert found("UPSTREAM_TLS", {**files, "CA_FILE": authority.ca_file}) == ([], [])
    assert found("LISTEN_TLS", {**files, "CLIENT_CA_FILE": authority.ca_file}) == ([], [])
    assert found("LISTEN_SASL", {"USERS_FILE": users(tmp_path)}) == ([], [])
    assert found("UPSTREAM_SASL", {**SCRAM, "PASSWORD_FILE": password}) == ([], [])
    assert found("UPSTREAM_SASL", SCRAM, SLUICE_UPSTREAM_SASL_PASSWORD=CANARY) == ([], [])
    assert found("UPSTREAM_SASL", {**TOKEN, "TOKEN_FILE": password}) == ([], [])
    assert found("UPSTREAM_SASL", {**ENDPOINT, "CLIENT_SECRET_FILE": password}) == ([], [])


def test_a_missing_file_is_named_by_its_key(pair: Pair, tmp_path: Path) -> None:
    """The problem has the path of the key, the file, and what is expected."""
    gone = tmp_path / "gone"
    files = files_of(pair)
    for section, settings, path in (
        ("UPSTREAM_TLS", {"CA_FILE": gone}, "upstream.tls.ca_file"),
        ("UPSTREAM_TLS", {**files, "CERT_FILE": gone}, "upstream.tls.cert_file"),
        ("UPSTREAM_TLS", {**files, "KEY_FILE": gone}, "upstream.tls.key_file"),
        ("LISTEN_TLS", {**files, "CERT_FILE": gone}, "listen.tls.cert_file"),
        ("LISTEN_TLS", {**files, "KEY_FILE": gone}, "listen.tls.key_file"),
        ("LISTEN_TLS", {**files, "CLIENT_CA_FILE": gone}, "listen.tls.client_ca_file"),
        ("LISTEN_SASL", {"USERS_FILE": gone}, "listen.sasl.users_file"),
        ("UPSTREAM_SASL", {**SCRAM, "PASSWORD_FILE": gone}, "upstream.sasl.password_file"),
        ("UPSTREAM_SASL", {**TOKEN, "TOKEN_FILE": gone}, "upstream.sasl.token_file"),
        (
            "UPSTREAM_SASL",
            {**ENDPOINT, "CLIENT_SECRET_FILE": gone},
            "upstream.sasl.client_secret_file",
        ),
    ):
        problems, hints = found(section, settings)
        assert [each.path for each in problems] == [path]
        assert problems[0].found == f"{str(gone)!r}: No such file or directory"
        assert problems[0].expected
        assert hints == []


@pytest.mark.parametrize(
    ("settings", "path", "variable"),
    [
        (SCRAM, "upstream.sasl.password_file", "SLUICE_UPSTREAM_SASL_PASSWORD"),
        (ENDPOINT, "upstream.sasl.client_secret_file", "SLUICE_UPSTREAM_SASL_CLIENT_SECRET"),
    ],
)
def test_a_missing_secret_names_its_key_and_its_variable(
    settings: dict[str, object], path: str, variable: str
) -> None:
    """The variable can be used in the place of the file; an empty one counts as not set."""
    (problem,), _ = found("UPSTREAM_SASL", settings, **{variable: ""})
    assert str(problem) == f"{path}: found nothing, expected a file, or the variable {variable}"
    assert found("UPSTREAM_SASL", settings, **{variable: CANARY}) == ([], [])


def test_a_plug_in_of_tokens_is_made_and_its_mistakes_are_named() -> None:
    """Nothing is asked for a token."""
    msk = {**TOKEN, "TOKEN_PROVIDER": "aws-msk-iam"}
    assert found("UPSTREAM_SASL", {**msk, "TOKEN_OPTIONS": "{region: eu-west-1}"}) == ([], [])
    for settings, words in (
        ({**msk, "TOKEN_OPTIONS": "{regoin: eu-west-1}"}, "token_options.regoin: found an unknown"),
        (msk, "token_options.region: found nothing"),
        ({**TOKEN, "TOKEN_PROVIDER": "aws"}, "token_provider: found 'aws'"),
    ):
        (problem,), _ = found("UPSTREAM_SASL", settings)
        assert str(problem).startswith(f"upstream.sasl.{words}")


def test_a_variable_beside_the_file_has_a_hint(tmp_path: Path) -> None:
    """The file has priority, as a rotated secret arrives there."""
    settings = {**SCRAM, "PASSWORD_FILE": secret(tmp_path)}
    _, hints = found("UPSTREAM_SASL", settings, SLUICE_UPSTREAM_SASL_PASSWORD="other")  # noqa: S106 - not used
    assert hints == [
        "SLUICE_UPSTREAM_SASL_PASSWORD has no effect, because upstream.sasl.password_file is set"
    ]


def test_an_unusable_secret_is_refused(tmp_path: Path) -> None:
    """The content is in no message."""
    file = secret(tmp_path, f"{CANARY}\n{CANARY}")
    problems, _ = found("UPSTREAM_SASL", {**SCRAM, "PASSWORD_FILE": file})
    assert [each.path for each in problems] == ["upstream.sasl.password_file"]
    assert problems[0].expected == "one line of text (UTF-8), 1..65536 bytes"


def test_a_token_has_the_characters_of_a_token(tmp_path: Path) -> None:
    """A header or JSON around it is a probable mistake."""
    file = secret(tmp_path, f"Bearer {CANARY}")
    ((problem,), _) = found("UPSTREAM_SASL", {**TOKEN, "TOKEN_FILE": file})
    assert (problem.path, problem.found) == (
        "upstream.sasl.token_file",
        f"{str(file)!r}, which has other characters",
    )


def test_the_check_and_the_start_accept_the_same_files(
    authority: Authority, tmp_path: Path
) -> None:
    """Every combination of usable and unusable files: what the check accepts starts, and nothing else does."""
    pair, other = authority.issue(*NAMES), authority.issue("other")
    cut = tmp_path / "cut.pem"
    cut.write_bytes(pair.cert_file.read_bytes()[:200] + b"\n-----END CERTIFICATE-----\n")
    empty = tmp_path / "empty.pem"
    empty.touch()
    broken = [other.key_file, other.cert_file, cut, empty, tmp_path, tmp_path / "gone"]
    certs, keys = (pair.cert_file, *broken), (pair.key_file, *broken)
    cases = [(cert, key, authority.ca_file) for cert in certs for key in keys]
    outcomes = set()
    for cert, key, ca in cases + [(pair.cert_file, pair.key_file, each) for each in broken]:
        files = {"CERT_FILE": cert, "KEY_FILE": key}
        server_problems, _ = found("LISTEN_TLS", {**files, "CLIENT_CA_FILE": ca})
        client_problems, _ = found("UPSTREAM_TLS", {**files, "CA_FILE": ca})
        texts = (str(cert), str(key), str(ca))
        assert starts_with(server_context, *texts, "required") == (not server_problems), texts
        starts = starts_with(client_context, texts[2], *texts[:2])
        assert starts == (not client_problems), texts
        outcomes.add(starts)
    assert outcomes == {True, False}


def starts_with(make: Callable[..., object], *files: str) -> bool:
    """Return whether a context can be made, as at the start."""
    try:
        make(*files)
    except CertificateFileError:
        return False
    return True


def test_a_key_of_another_certificate_is_refused(authority: Authority, pair: Pair) -> None:
    """The path is that of the key, and the certificate is named."""
    other = authority.issue("other")
    other.key_file.chmod(0o600)
    for section, path in (("LISTEN_TLS", "listen.tls"), ("UPSTREAM_TLS", "upstream.tls")):
        problems, _ = found(section, {**files_of(pair), "KEY_FILE": other.key_file})
        assert [each.path for each in problems] == [f"{path}.key_file"]
        assert str(pair.cert_file) in problems[0].expected


@pytest.mark.parametrize(
    ("days", "words"),
    [
        (15.0, None),
        (13.9, "in 14 days"),
        (2.0, "in 2 days"),
        (-0.5, "ended on"),
    ],
)
def test_a_certificate_that_ends_soon_has_a_hint(
    days: float, words: str | None, authority: Authority
) -> None:
    """So has one that has ended: its replacement may come later. The hint has the key, the subject and the date."""
    end = NOW + timedelta(days=days)
    pair = authority.issue(*NAMES, common_name="sluice", not_after=end)
    pair.key_file.chmod(0o600)
    for section, path in (("LISTEN_TLS", "listen.tls"), ("UPSTREAM_TLS", "upstream.tls")):
        problems, hints = found(section, files_of(pair))
        assert problems == []
        assert len(hints) == (words is not None)
        for hint in hints:
            assert hint.startswith(f"{path}.cert_file: the certificate of ")
            assert "commonName=sluice" in hint
            assert end.date().isoformat() in hint
            assert words is not None
            assert words in hint


def test_a_certificate_of_the_future_has_a_hint(pair: Pair) -> None:
    """A clock that is wrong shows here too."""
    _, (hint,) = found("UPSTREAM_TLS", files_of(pair), datetime(1999, 6, 1, tzinfo=UTC))
    assert "is not valid before 2000-01-01" in hint


def test_an_authority_that_has_ended_has_a_hint(authority: Authority) -> None:
    """Of several the last one counts: old ones stay in a bundle."""
    late = datetime(3001, 1, 1, tzinfo=UTC)
    _, (hint,) = found("UPSTREAM_TLS", {"CA_FILE": authority.ca_file}, late)
    assert hint.startswith("upstream.tls.ca_file: the certificate of ")
    assert hint.endswith("ended on 3000-01-01")


def test_a_system_without_authorities_has_a_hint(
    authority: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A minimal container has none. A file of authorities, or no verification, needs none."""
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "gone"))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path / "gone"))
    _, (hint,) = found("UPSTREAM_TLS", {"VERIFY": "true"})
    assert hint.startswith("upstream.tls.ca_file: no broker can be verified")
    assert found("UPSTREAM_TLS", {"CA_FILE": authority.ca_file}) == ([], [])
    assert found("UPSTREAM_TLS", {"VERIFY": "false"}) == ([], [])
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.ca_file))
    assert found("UPSTREAM_TLS", {"VERIFY": "true"}) == ([], [])


def test_a_certificate_for_other_hosts_has_a_hint(authority: Authority) -> None:
    """Clients verify the host that they are told to connect to, which may be a node's own."""
    pair = authority.issue("kafka.example.com")
    pair.key_file.chmod(0o600)
    _, (hint,) = found("LISTEN_TLS", files_of(pair))
    assert hint == (
        "listen.tls.cert_file: the certificate is not for '127.0.0.1' (listen.advertised_host), which clients connect"
        " to and verify; its names are: kafka.example.com"
    )
    by_name = {**files_of(pair), "SNI_PATTERN": "b-$(node).kafka.example.com"}
    named = {"SLUICE_LISTEN_ADVERTISED_HOST": "localhost"}
    _, hints = found("LISTEN_TLS", by_name, **named)
    assert [each.partition("(")[2].partition(")")[0] for each in hints] == [
        "listen.advertised_host",
        "listen.tls.sni_pattern",
    ]
    wide = authority.issue("*.kafka.example.com", *NAMES, file_name="wide")
    wide.key_file.chmod(0o600)
    assert found("LISTEN_TLS", {**by_name, **files_of(wide)}, **named) == ([], [])
    assert found("UPSTREAM_TLS", files_of(pair)) == ([], [])  # the brokers do not connect to us


def test_a_users_file_without_the_secret_of_stand_ins_has_a_hint(tmp_path: Path) -> None:
    """A client could find out which users exist."""
    file = users(tmp_path)
    lines = file.read_text().splitlines()
    file.write_text(lines[-1])
    problems, (hint,) = found("LISTEN_SASL", {"USERS_FILE": file})
    assert problems == []
    assert "has no line `# stand_in_key=`" in hint
    assert "`sluice users add` writes the line" in hint


def test_a_mechanism_that_no_user_can_use_has_a_hint(tmp_path: Path) -> None:
    """PLAIN needs the keys of any mechanism, SCRAM its own."""
    file = users(tmp_path)
    both = {"USERS_FILE": file, "MECHANISMS": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512"}
    assert found("LISTEN_SASL", both) == (
        [],
        [f"listen.sasl.mechanisms: no user of {str(file)!r} has keys for SCRAM-SHA-256"],
    )
    file.write_text("# alice is gone\n")
    _, (hint,) = found("LISTEN_SASL", both)
    assert hint.startswith("listen.sasl.users_file: no client can authenticate, because ")


def test_a_secret_that_every_user_can_read_has_a_hint(pair: Pair, tmp_path: Path) -> None:
    """It is no problem: Kubernetes mounts secrets so by default, where the container is alone."""
    file = secret(tmp_path)
    cases = (
        ("UPSTREAM_SASL", {**SCRAM, "PASSWORD_FILE": file}, "upstream.sasl.password_file"),
        ("UPSTREAM_SASL", {**TOKEN, "TOKEN_FILE": file}, "upstream.sasl.token_file"),
        (
            "UPSTREAM_SASL",
            {**ENDPOINT, "CLIENT_SECRET_FILE": file},
            "upstream.sasl.client_secret_file",
        ),
        ("LISTEN_SASL", {"USERS_FILE": users(tmp_path)}, "listen.sasl.users_file"),
        ("LISTEN_TLS", files_of(pair), "listen.tls.key_file"),
        ("UPSTREAM_TLS", files_of(pair), "upstream.tls.key_file"),
    )
    for each in (file, tmp_path / "users", pair.key_file):
        each.chmod(0o644)
    for section, settings, path in cases:
        problems, (hint,) = found(section, settings)
        assert problems == []
        assert hint.startswith(f"{path}: every user of this machine can read '")


BEARER = {"MECHANISMS": "OAUTHBEARER"}


def bearer(**settings: object) -> dict[str, object]:
    check = {"ISSUER": "https://idp", "AUDIENCE": "kafka", **settings}
    return {**BEARER, **{f"OAUTHBEARER_{key}": value for key, value in check.items()}}


def test_the_keys_for_tokens_are_read_as_at_a_start(tmp_path: Path, authority: Authority) -> None:
    """A file that has no usable key would stop it. An address is not asked, but what it needs is read."""
    file = tmp_path / "keys.json"
    file.write_bytes(jwks("ES256", "RS256"))
    assert found("LISTEN_SASL", bearer(JWKS=file)) == ([], [])
    for content, words in (
        (b"{}", "no list"),
        (b"x", "no JSON"),
        (b'{"keys": []}', "none of its 0"),
    ):
        file.write_bytes(content)
        ((problem,), _) = found("LISTEN_SASL", bearer(JWKS=file))
        assert problem.path == "listen.sasl.oauthbearer.jwks"
        assert words in problem.found
    file.write_bytes(jwks("ES384"))
    ((problem,), _) = found("LISTEN_SASL", bearer(JWKS=file, ALGORITHMS="RS256"))
    assert "none of its 1 keys can be used for RS256" in problem.found
    file.unlink()
    ((problem,), _) = found("LISTEN_SASL", bearer(JWKS=file))
    assert problem.found == f"{str(file)!r}: No such file or directory"
    url, token = "https://127.0.0.1:1/keys", secret(tmp_path)
    good = {"JWKS": url, "JWKS_CA_FILE": authority.ca_file, "JWKS_TOKEN_FILE": token}
    assert found("LISTEN_SASL", bearer(**good)) == ([], [])
    for key in ("JWKS_CA_FILE", "JWKS_TOKEN_FILE"):
        ((problem,), _) = found("LISTEN_SASL", bearer(**{**good, key: tmp_path / "gone"}))
        assert problem.path == f"listen.sasl.oauthbearer.{key.lower()}"
