"""Certificates and keys in PEM files, judged by OpenSSL as peers judge them."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from proxy.config.small_files import FileError
from proxy.tls.pem_files import (
    CERTIFICATES,
    KEY,
    CertificateChain,
    KeyFileError,
    read_authorities,
)
from tests.support.shell.certificates import Authority, Pair

PASSWORD = "canary-5d0c91"  # noqa: S105 - of a key that is made here


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def openssl(folder: Path, command: str) -> None:
    subprocess.run(
        ["openssl", *command.split()], cwd=folder, check=True, capture_output=True, timeout=60
    )


def chain_of(pair: Pair, *, is_server: bool = True) -> CertificateChain:
    return CertificateChain(str(pair.cert_file), str(pair.key_file), is_server=is_server)


def test_a_certificate_is_described_as_its_peer_gets_it(authority: Authority) -> None:
    """Subject, names and dates are those of the first certificate of the file, also when it has ended."""
    for is_server, days in ((True, 3), (False, 3), (True, -1)):
        not_after = datetime.now(UTC).replace(microsecond=0) + timedelta(days=days)
        pair = authority.issue(
            "a.example.com", "10.0.0.1", common_name="sluice", not_after=not_after
        )
        shown = chain_of(pair, is_server=is_server).certificate()
        assert "commonName=sluice" in shown.subject
        assert shown.names == ("a.example.com", "10.0.0.1")
        assert shown.not_after_s == not_after.timestamp()
        assert shown.not_before_s < not_after.timestamp()


@pytest.mark.parametrize(
    ("host", "accepted"),
    [
        ("a.example.com", True),
        ("A.Example.com", True),
        ("broker-0.kafka.example.com", True),
        ("0.broker.kafka.example.com", False),
        ("kafka.example.com", False),
        ("127.0.0.1", True),
        ("127.0.0.2", False),
    ],
)
def test_the_names_of_a_certificate_decide_which_hosts_it_is_for(
    host: str, *, accepted: bool, authority: Authority
) -> None:
    """A star stands for one label; an address must be named as one."""
    pair = authority.issue("a.example.com", "*.kafka.example.com", "127.0.0.1", file_name="leaf")
    assert chain_of(pair).is_for(host) is accepted


def test_the_authorities_of_a_file_are_found(authority: Authority, tmp_path: Path) -> None:
    """A bundle has several, with text between them; a file with no certificate is refused."""
    other = Authority(tmp_path / "other", name="another")
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(
        b"# first\n" + authority.ca_file.read_bytes() + b"second\n" + other.ca_file.read_bytes()
    )
    found = read_authorities(str(bundle))
    assert ["another" in each.subject for each in found] == [False, True]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x30\x82\x01\x0a", "which has no certificate (PEM)"),
        (
            b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n",
            "certificate 1 cannot be read",
        ),
        (b"-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n", "no certificate (PEM)"),
    ],
)
def test_a_file_without_certificates_is_refused(content: bytes, words: str, tmp_path: Path) -> None:
    """The words name the file and what is wrong with it."""
    file = tmp_path / "ca.pem"
    file.write_bytes(content)
    with pytest.raises(FileError) as caught:
        read_authorities(str(file))
    assert repr(str(file)) in caught.value.found
    assert words in caught.value.found
    assert caught.value.expected == CERTIFICATES


def test_a_damaged_certificate_of_a_chain_is_counted(authority: Authority) -> None:
    """The place of the damaged one is in the words."""
    pair = authority.issue("a")
    with pair.cert_file.open("a") as file:
        file.write("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    with pytest.raises(FileError, match="certificate 2 cannot be read"):
        chain_of(pair)


@pytest.mark.parametrize("kind", ["ec", "rsa"])
def test_a_key_of_another_certificate_is_refused(
    kind: str, authority: Authority, tmp_path: Path
) -> None:
    """It may be of the same kind or of another."""
    pair = authority.issue("a")
    openssl(
        tmp_path,
        "genrsa -out other.key 2048"
        if kind == "rsa"
        else "ecparam -name prime256v1 -genkey -out other.key",
    )
    with pytest.raises(KeyFileError) as caught:
        chain_of(Pair(pair.cert_file, tmp_path / "other.key"))
    assert "another certificate's key" in caught.value.found
    assert caught.value.expected == f"the key of the first certificate in {str(pair.cert_file)!r}"


@pytest.mark.parametrize("form", ["pkcs8 -topk8 -v2 aes256", "ec -aes256"])
def test_an_encrypted_key_is_refused_without_a_prompt(
    form: str, authority: Authority, tmp_path: Path
) -> None:
    """Both forms of PEM are recognised, and nothing waits at the terminal for a password."""
    pair = authority.issue("a")
    openssl(tmp_path, f"{form} -in {pair.key_file} -out locked.key -passout pass:{PASSWORD}")
    with pytest.raises(KeyFileError) as caught:
        chain_of(Pair(pair.cert_file, tmp_path / "locked.key"))
    assert caught.value.found.endswith("which is encrypted")
    assert caught.value.expected == KEY


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "No such file"),
        (b"no key", "no private key (PEM)"),
        (b"-----BEGIN PRIVATE KEY-----\nMIIB\n-----END PRIVATE KEY-----\n", "OpenSSL cannot read"),
    ],
)
def test_an_unusable_key_is_not_taken_for_an_unusable_certificate(
    content: bytes | None, words: str, authority: Authority, tmp_path: Path
) -> None:
    """The error tells which of the two files it is about."""
    pair = authority.issue("a")
    file = tmp_path / "other.key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(KeyFileError) as caught:
        chain_of(Pair(pair.cert_file, file))
    assert repr(str(file)) in caught.value.found
    assert words in caught.value.found


def test_a_key_that_is_too_short_is_the_certificates_fault(tmp_path: Path) -> None:
    """OpenSSL refuses RSA keys of less than 2048 bits, which a new key cannot mend."""
    openssl(tmp_path, "req -x509 -newkey rsa:1024 -nodes -keyout k -out c -days 9 -subj /CN=a")
    with pytest.raises(FileError, match="key too small") as caught:
        CertificateChain(str(tmp_path / "c"), str(tmp_path / "k"), is_server=True)
    assert not isinstance(caught.value, KeyFileError)


def test_a_certificate_for_clients_only_is_refused_for_a_server(tmp_path: Path) -> None:
    """Its extended key usage says so; peers would refuse it."""
    openssl(
        tmp_path,
        "req -x509 -newkey rsa:2048 -nodes -keyout k -out c -days 9 -subj /CN=a -addext extendedKeyUsage=clientAuth",
    )
    files = (str(tmp_path / "c"), str(tmp_path / "k"))
    assert CertificateChain(*files, is_server=False).certificate().subject == "commonName=a"
    with pytest.raises(FileError) as caught:
        CertificateChain(*files, is_server=True).certificate()
    assert caught.value.found.endswith(
        "which peers refuse: certificate verify failed: unsuitable certificate purpose"
    )
    assert caught.value.expected == "a certificate for a TLS server"
