"""The files and variables that the settings of TLS and SASL name: problems that would stop a start, and hints.

- Every file is opened and read as it is at a start. A certificate is judged as its peers judge it.
- A hint is about a file that works but needs care: a certificate that ends soon, a secret that every user of this
  machine can read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from policies.token_providers import make_provider
from policies.validation import Problem
from proxy.config.small_files import (
    CLIENT_SECRET_VARIABLE,
    PASSWORD_VARIABLE,
    FileError,
    is_open_to_others,
    read_secret,
)
from proxy.config.users_file import load_text, users_of
from proxy.core.auth.mechanisms import TOKEN
from proxy.core.auth.users_text import has_stand_in_key
from proxy.tls import pem_files

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from proxy.config import Config
    from proxy.config.client_logins import ListenOAuthBearer, ListenSasl
    from proxy.config.sections import ListenSettings
    from proxy.config.security import UpstreamSasl, UpstreamTls
    from proxy.tls.pem_files import Certificate, CertificateChain

SOON_DAYS: Final = 14
_DAY_S: Final = 86_400


def findings(config: Config, environ: Mapping[str, str], now_s: float) -> Iterator[Problem | str]:
    """Yield every problem, by key path, and every hint (a text)."""
    if config.upstream.tls:
        yield from _upstream_tls(config.upstream.tls, now_s)
    if config.upstream.sasl:
        yield from _upstream_sasl(config.upstream.sasl, environ)
    if config.listen.tls:
        yield from _listen_tls(config.listen, now_s)
    if config.listen.sasl:
        if config.listen.sasl.users_file:
            yield from _users(config.listen.sasl)
        if config.listen.sasl.oauthbearer:
            yield from _token_keys(config.listen.sasl.oauthbearer, now_s)


def _upstream_tls(tls: UpstreamTls, now_s: float) -> Iterator[Problem | str]:
    if tls.ca_file:
        yield from _authorities("upstream.tls.ca_file", tls.ca_file, now_s)
    elif tls.verify and not pem_files.has_system_authorities():
        yield "upstream.tls.ca_file: no broker can be verified, because this system has no certificates of authorities"
    if tls.cert_file:
        yield from _chain("upstream.tls", tls.cert_file, tls.key_file, now_s)


def _listen_tls(listen: ListenSettings, now_s: float) -> Iterator[Problem | str]:
    tls = listen.tls
    if tls is None:
        return
    if tls.client_ca_file:
        yield from _authorities("listen.tls.client_ca_file", tls.client_ca_file, now_s)
    yield from _chain("listen.tls", tls.cert_file, tls.key_file, now_s, _names_to_check(listen))


def _names_to_check(listen: ListenSettings) -> dict[str, str]:
    """Return hosts that clients connect to, and the setting that each comes from. One node stands for all."""
    hosts = {listen.advertised_host: "listen.advertised_host"}
    if listen.serves_by_sni:
        host, _ = next(iter(listen.node_addresses().values()))
        hosts[host] = "listen.tls.sni_pattern"
    return hosts


def _authorities(path: str, file: str, now_s: float) -> Iterator[Problem | str]:
    try:
        found = pem_files.read_authorities(file)
    except FileError as error:
        yield Problem(path, error.found, error.expected)
        return
    if found:  # of several, one that has not ended is enough
        yield from _dates(path, max(found, key=lambda each: each.not_after_s), now_s)


def _chain(
    section: str,
    cert_file: str,
    key_file: str,
    now_s: float,
    hosts: Mapping[str, str] | None = None,
) -> Iterator[Problem | str]:
    """Judge our own certificate; `hosts` are those of a listener that clients connect to."""
    yield from _open_file(f"{section}.key_file", key_file)
    try:
        chain = pem_files.CertificateChain(cert_file, key_file, is_server=hosts is not None)
    except FileError as error:
        key = "key_file" if isinstance(error, pem_files.KeyFileError) else "cert_file"
        yield Problem(f"{section}.{key}", error.found, error.expected)
        return
    path = f"{section}.cert_file"
    try:
        first = chain.certificate()
    except FileError as error:
        yield f"{path}: {error}"
        return
    for each in (first, *chain.authorities):
        yield from _dates(path, each, now_s)
    for host, setting in (hosts or {}).items():
        yield from _host(path, chain, first, host, setting)


def _host(
    path: str, chain: CertificateChain, first: Certificate, host: str, setting: str
) -> Iterator[str]:
    if not chain.is_for(host):
        names = ", ".join(first.names) or "none"
        yield (
            f"{path}: the certificate is not for {host!r} ({setting}), which clients connect to and verify; its names "
            f"are: {names}"
        )


def _dates(path: str, certificate: Certificate, now_s: float) -> Iterator[str]:
    day = _day(certificate.not_after_s)
    left_s = certificate.not_after_s - now_s
    who = f"{path}: the certificate of {certificate.subject or 'no subject'}"
    if certificate.not_before_s > now_s:
        yield f"{who} is not valid before {_day(certificate.not_before_s)}"
    elif left_s <= 0:
        yield f"{who} ended on {day}"
    elif left_s < SOON_DAYS * _DAY_S:
        yield f"{who} ends on {day}, in {left_s / _DAY_S:.0f} days"


def _day(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).date().isoformat()


def _users(sasl: ListenSasl) -> Iterator[Problem | str]:
    path, file = "listen.sasl.users_file", sasl.users_file
    yield from _open_file(path, file)
    try:
        text = load_text(file)
        users = users_of(file, text)
    except FileError as error:
        yield Problem(path, error.found, error.expected)
        return
    if not users:
        yield f"{path}: no client can authenticate, because {file!r} has no user"
        return
    if not has_stand_in_key(text):
        yield (
            f"{path}: {file!r} has no line `# stand_in_key=`, so a client that asks again after a restart, or another "
            "Sluice, learns which users exist; `sluice users add` writes the line"
        )
    usable = {key.mechanism.name for name in users for key in users.credentials(name)}
    usable |= {"PLAIN", "OAUTHBEARER"}  # verified with the keys of any mechanism, and with none
    for mechanism in sasl.mechanisms:
        if mechanism not in usable:
            yield f"listen.sasl.mechanisms: no user of {file!r} has keys for {mechanism}"


def _token_keys(settings: ListenOAuthBearer, now_s: float) -> Iterator[Problem | str]:
    """Judge the keys for tokens, if they are in a file; an address is not asked."""
    from proxy.preflight import token_keys  # noqa: PLC0415 - only with OAUTHBEARER

    path = "listen.sasl.oauthbearer"
    if settings.jwks_ca_file:
        yield from _authorities(f"{path}.jwks_ca_file", settings.jwks_ca_file, now_s)
    if settings.jwks_token_file:
        yield from _secret(f"{path}.jwks_token_file", settings.jwks_token_file, "", {})
    yield from token_keys.file_problems(settings)


def _upstream_sasl(sasl: UpstreamSasl, environ: Mapping[str, str]) -> Iterator[Problem | str]:
    if sasl.mechanism != "OAUTHBEARER":
        yield from _secret(
            "upstream.sasl.password_file", sasl.password_file, PASSWORD_VARIABLE, environ
        )
    elif sasl.token_endpoint_url:
        file = sasl.client_secret_file
        yield from _secret(
            "upstream.sasl.client_secret_file", file, CLIENT_SECRET_VARIABLE, environ
        )
    elif sasl.token_provider:
        made = make_provider(sasl.token_provider, sasl.token_options, "upstream.sasl")
        yield from made if isinstance(made, list) else ()
    else:
        yield from _secret("upstream.sasl.token_file", sasl.token_file, "", environ)


def _secret(
    path: str, file: str, variable: str, environ: Mapping[str, str]
) -> Iterator[Problem | str]:
    try:
        secret = read_secret(file, variable, environ)
    except FileError as error:
        yield Problem(path, error.found, error.expected)
        return
    if not variable and not TOKEN.fullmatch(secret.reveal()):
        words = "a token (RFC 6750: letters, digits and -._~+/, with = at its end)"
        yield Problem(path, f"{file!r}, which has other characters", words)
    if file and variable and environ.get(variable):
        yield f"{variable} has no effect, because {path} is set"
    yield from _open_file(path, file)


def _open_file(path: str, file: str) -> Iterator[str]:
    if file and is_open_to_others(file):
        yield (
            f"{path}: every user of this machine can read {file!r}; mode 0640 is enough (in Kubernetes: defaultMode of "
            "the volume)"
        )
