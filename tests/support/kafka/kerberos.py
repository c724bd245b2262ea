"""A Kerberos key distribution centre (MIT's, of Debian's krb5-kdc) with a realm of its own, for GSSAPI."""

import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from bench.harness.ports import free_ports
from bench.harness.processes import end, wait_accepting

REALM: Final = "SLUICE.TEST"
SERVICE: Final = "kafka/localhost"
"""The brokers' principal: it has the host that clients dial, which is Sluice's."""
CLIENT: Final = "alice"
TOOLS: Final = ("krb5kdc", "kdb5_util", "kadmin.local")
LOGIN: Final = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
_HOST: Final = "127.0.0.1"
_CLIENTS: Final = """\
[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{realm} = {{
  kdc = {address}
}}
"""
_SERVER: Final = """\
[kdcdefaults]
kdc_listen = ""
kdc_tcp_listen = {address}
[realms]
{realm} = {{
  database_name = {directory}/principal
  key_stash_file = {directory}/stash
  supported_enctypes = aes256-cts-hmac-sha1-96:normal
}}
[logging]
kdc = FILE:{directory}/kdc.log
"""


def kerberos_is_missing() -> str:
    """Return why there can be no centre here, "" if there can."""
    missing = [tool for tool in TOOLS if _path(tool) is None]
    return f"not installed: {', '.join(missing)} (krb5-kdc, krb5-admin-server)" if missing else ""


@dataclass(slots=True)
class Kerberos:
    """A centre that knows SERVICE and CLIENT; their keys are in files. It serves from entering to leaving."""

    directory: Path
    port: int = field(init=False)
    _process: subprocess.Popen[bytes] | None = field(init=False, default=None)

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True)
        self.port = free_ports(_HOST)
        words = {
            "address": f"{_HOST}:{self.port}",
            "realm": REALM,
            "directory": str(self.directory),
        }
        self.config.write_text(_CLIENTS.format_map(words))
        (self.directory / "kdc.conf").write_text(_SERVER.format_map(words))
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "of-this-test-only")
        for name in (SERVICE, CLIENT):
            self._run("kadmin.local", "-r", REALM, "addprinc", "-randkey", name)
            self._run("kadmin.local", "-r", REALM, "ktadd", "-k", str(self.keys_of(name)), name)
        self._process = subprocess.Popen(
            [str(_path("krb5kdc")), "-n"], env=self._variables, stdout=subprocess.DEVNULL
        )
        log = self.directory / "kdc.log"
        wait_accepting(self._process, _HOST, self.port, log.read_text, 30)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            end(self._process, 10)

    @property
    def config(self) -> Path:
        """Return the krb5.conf of clients and brokers."""
        return self.directory / "krb5.conf"

    @property
    def java_options(self) -> tuple[str, ...]:
        """Return the options by which a Java process finds the realm."""
        return (f"-Djava.security.krb5.conf={self.config}",)

    def keys_of(self, name: str) -> Path:
        """Return the keytab of a principal."""
        return self.directory / f"{name.replace('/', '-')}.keytab"

    def login(self, name: str, options: str = "") -> str:
        """Return the value of Java's sasl.jaas.config for a principal."""
        return f'{LOGIN} keyTab="{self.keys_of(name)}" principal="{name}@{REALM}" {options};'

    @property
    def _variables(self) -> dict[str, str]:
        return {
            "KRB5_CONFIG": str(self.config),
            "KRB5_KDC_PROFILE": str(self.directory / "kdc.conf"),
        }

    def _run(self, tool: str, *arguments: str) -> None:
        subprocess.run(
            [str(_path(tool)), *arguments], env=self._variables, check=True, capture_output=True
        )


def _path(tool: str) -> str | None:
    return shutil.which(tool) or shutil.which(tool, path="/usr/sbin")
