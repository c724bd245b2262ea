"""The combinations of a secured client side and a secured broker side that Sluice claims, and their table.

A set-up is one Sluice: how clients reach it (`listen`), how they authenticate (`login`), the broker's listener
(`upstream`) and Sluice's own mechanism there (`custody`). All three client libraries go through each.

- SASL at the broker: the client's own (passthrough) or Sluice's (custody), so exactly one of the two is there.
- No SASL at the broker: a client can authenticate to Sluice only.
- TLS ends at Sluice. A broker that asks for a certificate sees Sluice's and none of a client's.
"""

import ssl
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.support.kafka.client_security import ClientSecurity
from tests.support.kafka.kafka_cluster import KafkaCluster
from tests.support.kafka.kafka_listeners import MTLS, PLAINTEXT, SASL_PLAINTEXT, SASL_SSL, SSL
from tests.support.kafka.kafka_sasl import MECHANISMS, OAUTH, PLAIN, SCRAM_256, SCRAM_512, SCRAMS
from tests.support.kafka.three_libraries import LIBRARIES
from tests.support.messages.sasl import unsigned_token
from tests.support.processes.canaries import new_secret
from tests.support.processes.sluice_process import COMMAND, SluiceProcess
from tests.support.shell.certificates import Pair

NONE, PASSTHROUGH, OURS = "none", "to the broker", "to Sluice"
"""Where a client authenticates by SASL."""
ALICE: Final = ("alice", "alice-secret")
SLUICE: Final = ("sluice", "sluice-secret")
CANARY: Final = ("canary", new_secret())
"""A user for tests that search for the password."""
LIFETIME_MS: Final = 6_000
"""How long an authentication of clients that must repeat it lasts, at the broker and at Sluice."""
WHO: Final = "CreateDelegationToken"
"""Let through where Sluice brings credentials: its reply tells a test whom the broker sees."""
CAROL: Final = "carol"
"""The common name of the clients' certificate."""
BEGIN, END = "<!-- combinations: begin -->", "<!-- combinations: end -->"


class Files(NamedTuple):
    """The files that all set-ups share."""

    ca: Path
    server: Pair
    """Sluice's certificate for clients."""
    sluice: Pair
    """Sluice's certificate for brokers."""
    client: Pair
    users: Path
    directory: Path


class SetUp(NamedTuple):
    """One Sluice."""

    listen: str
    login: str
    upstream: str
    custody: str = ""

    @property
    def name(self) -> str:
        """Return a name for the test."""
        words = (self.listen, self.login, self.upstream, self.custody or "no custody")
        return ", ".join(words)

    @property
    def mechanisms(self) -> tuple[str, ...]:
        """Return the mechanism of each library; they differ from set-up to set-up."""
        if self.login == NONE:
            return ("",) * len(LIBRARIES)
        known = (*MECHANISMS, OAUTH) if self.login == PASSTHROUGH else MECHANISMS
        alike = [each for each in SETUPS if each.login == self.login]
        shift = alike.index(self)
        return tuple(known[(shift + place) % len(known)] for place in range(len(LIBRARIES)))

    def principal(self, mechanism: str) -> tuple[str, str]:
        """Return the user that Sluice must see, and its source."""
        if mechanism:
            return ALICE[0], "sasl"
        return (CAROL, "tls") if self.listen == "mTLS" else ("ANONYMOUS", "none")

    @property
    def owner(self) -> str:
        """Return the user that the broker must see."""
        if self.login == PASSTHROUGH:
            return ALICE[0]
        return SLUICE[0] if self.custody or self.upstream == MTLS else "ANONYMOUS"

    def security(self, mechanism: str, files: Files) -> ClientSecurity:
        """Return the settings of a client."""
        return ClientSecurity(
            mechanism,
            *(ALICE if mechanism else ("", "")),
            ca_file=None if self.listen == "plain" else files.ca,
            certificate=files.client if self.listen == "mTLS" else None,
        )

    def context(self, files: Files) -> ssl.SSLContext | None:
        """Return the TLS of a client that is written by hand."""
        if self.listen == "plain":
            return None
        context = ssl.create_default_context(cafile=str(files.ca))
        if self.listen == "mTLS":
            context.load_cert_chain(files.client.cert_file, files.client.key_file)
        return context

    def listen_settings(self, files: Files) -> dict[str, Any]:
        """Return further keys of Sluice's `listen`."""
        found: dict[str, Any] = {}
        if self.listen != "plain":
            tls: dict[str, object] = {
                "cert_file": str(files.server.cert_file),
                "key_file": str(files.server.key_file),
            }
            if self.listen == "mTLS":
                tls |= {
                    "client_ca_file": str(files.ca),
                    "client_auth": "required",
                    "principal": {"rules": ["RULE:^CN=([^,+]+).*$/$1/"]},
                }
            found["tls"] = tls
        if self.login == OURS:
            found["sasl"] = {"mechanisms": list(MECHANISMS), "users_file": str(files.users)}
        return found

    def upstream_settings(self, files: Files) -> dict[str, object]:
        """Return further keys of Sluice's `upstream`."""
        found: dict[str, object] = {}
        if self.upstream in (SSL, MTLS, SASL_SSL):
            tls: dict[str, object] = {"ca_file": str(files.ca)}
            if self.upstream == MTLS:
                tls |= {
                    "cert_file": str(files.sluice.cert_file),
                    "key_file": str(files.sluice.key_file),
                    "forward_credential_apis": [WHO],
                }
            found["tls"] = tls
        if self.custody == OAUTH:
            token = files.directory / "token"
            token.write_text(unsigned_token(SLUICE[0], 3600) + "\n")
            found["sasl"] = {
                "mechanism": OAUTH,
                "token_file": str(token),
                "forward_credential_apis": [WHO],
            }
        elif self.custody:
            password = files.directory / "password"
            password.write_text(SLUICE[1] + "\n")
            found["sasl"] = {
                "mechanism": self.custody,
                "username": SLUICE[0],
                "password_file": str(password),
                "forward_credential_apis": [WHO],
            }
        return found

    def sluice(
        self,
        cluster: KafkaCluster,
        files: Files,
        directory: Path,
        variables: dict[str, str],
        **listen: object,
    ) -> SluiceProcess:
        """Return the Sluice, not started; `listen` are further keys of `listen.sasl`."""
        plain = self.upstream == PLAINTEXT
        upstream = cluster.bootstrap if plain else cluster.bootstrap_of(self.upstream)
        files = files._replace(directory=directory)
        settings = self.listen_settings(files)
        if listen:
            settings["sasl"] |= listen
        return SluiceProcess(
            upstream,
            directory,
            upstream_settings=self.upstream_settings(files),
            listen_settings=settings,
            variables=variables,
        )

    @property
    def row(self) -> str:
        """Return its row in the table."""
        principals = {self.principal(each)[0]: None for each in self.mechanisms}
        cells = (
            self.listen if self.login == NONE else f"{self.listen}, SASL {self.login}",
            ", ".join(self.mechanisms) if self.mechanisms[0] else "none",
            f"{self.upstream}, Sluice by {self.custody}" if self.custody else self.upstream,
            ", ".join(f"`{each}`" for each in principals),
            f"`{self.owner}`",
        )
        return f"| {' | '.join(cells)} |"


SETUPS: Final = (
    SetUp("plain", NONE, PLAINTEXT),
    SetUp("TLS", NONE, PLAINTEXT),
    SetUp("mTLS", OURS, PLAINTEXT),
    SetUp("plain", NONE, SSL),
    SetUp("TLS", OURS, SSL),
    SetUp("mTLS", NONE, SSL),
    SetUp("plain", OURS, MTLS),
    SetUp("TLS", NONE, MTLS),
    SetUp("mTLS", NONE, MTLS),
    SetUp("plain", PASSTHROUGH, SASL_PLAINTEXT),
    SetUp("TLS", PASSTHROUGH, SASL_PLAINTEXT),
    SetUp("mTLS", PASSTHROUGH, SASL_PLAINTEXT),
    SetUp("plain", PASSTHROUGH, SASL_SSL),
    SetUp("TLS", PASSTHROUGH, SASL_SSL),
    SetUp("mTLS", PASSTHROUGH, SASL_SSL),
    SetUp("plain", OURS, SASL_PLAINTEXT, SCRAM_256),
    SetUp("TLS", NONE, SASL_PLAINTEXT, PLAIN),
    SetUp("mTLS", NONE, SASL_PLAINTEXT, OAUTH),
    SetUp("plain", NONE, SASL_SSL, PLAIN),
    SetUp("TLS", OURS, SASL_SSL, OAUTH),
    SetUp("mTLS", OURS, SASL_SSL, SCRAM_512),
    SetUp("plain", NONE, SASL_PLAINTEXT, SCRAM_512),
    SetUp("mTLS", NONE, SASL_SSL, SCRAM_256),
)

HEAD: Final = (
    "| client | its mechanisms | broker's listener | user here | user at the broker |\n|"
    + "---|" * 5
)


def table(setups: Sequence[SetUp]) -> str:
    """Return the table of these set-ups between its two marks, as it stands in the documents."""
    return "\n".join((BEGIN, "", HEAD, *(each.row for each in setups), "", END))


def write_users(file: Path, known: dict[str, str]) -> None:
    """Write a users file of `listen.sasl`, as an operator does."""
    mechanisms = [word for each in SCRAMS for word in ("--mechanism", each)]
    for user, password in known.items():
        subprocess.run(
            [COMMAND, "users", "add", user, "-f", file, *mechanisms, "--password-file", "-"],
            input=password.encode(),
            stdout=subprocess.DEVNULL,
            check=True,
        )
