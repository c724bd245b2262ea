"""Settings that are valid and probably not meant: credentials without protection, without effect, a small pool.

Also lines of `sluice check`: of logins, the APIs that are refused beside credentials of Sluice, and names not told; of
policies, the versions of requests that they cannot read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from policies.credential_guard import guarded_apis
from proxy.config.values import is_loopback
from proxy.core.session.identity import UNKNOWN
from proxy.host_port import host_port
from wire.apis import BY_KEY_AND_VERSION, Concern, concern_of, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.config import Config
    from proxy.config.client_logins import ListenOAuthBearer


_UNNAMED: Final = frozenset({"<default>", UNKNOWN})
_USERS: Final = frozenset({"user", "who"})
"""The users in a quota's lines that hold for clients without a name."""

QUOTA: Final = frozenset({"quota", "policies.quota.policy:Quota"})
_ACCESS: Final = frozenset({"access", "policies.access.policy:Access"})
_RIGHTS: Final = (
    "Sluice's user at the brokers needs the rights of its clients on topics, groups and transactional ids, and on the "
    "cluster Describe at most: not ClusterAction, Alter or AlterConfigs. It should be no super user."
)


def hints(config: Config) -> Iterator[str]:
    """Yield a sentence for each, with the key path first."""
    yield from _upstream(config)
    yield from _listen(config)
    yield from _memory(config)
    if _lends_credentials(config):
        section = "sasl" if config.upstream.sasl is not None else "tls.cert_file"
        yield (
            f"upstream.{section}: every client that can connect to "
            f"{host_port(config.listen.address, config.listen.port)} uses Sluice's own credentials; set listen.sasl, "
            "listen.tls.client_auth: required, or identity.user if all clients are one application"
        )
    yield from _unknown_apis(config)
    yield from _unlimited_logins(config)
    yield from _answered_above_access(config)


def _upstream(config: Config) -> Iterator[str]:
    tls, sasl = config.upstream.tls, config.upstream.sasl
    is_local = all(is_loopback(host) for host, _ in config.upstream.addresses())
    if sasl is not None and tls is None and not is_local:
        if sasl.mechanism == "OAUTHBEARER":
            yield "upstream.sasl: without upstream.tls the token travels in clear text"
        elif sasl.mechanism == "PLAIN":
            yield "upstream.sasl: without upstream.tls the password travels in clear text"
    if tls is not None and not tls.verify:
        yield "upstream.tls.verify: any server can pretend to be a broker, and read and change all traffic"


def _listen(config: Config) -> Iterator[str]:
    tls, sasl = config.listen.tls, config.listen.sasl
    is_plain = tls is None and sasl is not None and "PLAIN" in sasl.mechanisms
    if is_plain and not is_loopback(config.listen.address):
        yield "listen.sasl.mechanisms: without listen.tls the passwords of PLAIN travel in clear text"
    if sasl is not None and sasl.oauthbearer is not None:
        yield from _tokens(sasl.oauthbearer)
        if tls is None and not is_loopback(config.listen.address):
            yield "listen.sasl.mechanisms: without listen.tls the tokens of OAUTHBEARER travel in clear text"
    proxies = config.listen.proxy_protocol
    if proxies is not None and any(each.endswith("/0") for each in proxies.networks):
        yield "listen.proxy_protocol.from: every client can claim any address; name the load balancers' networks"
    if tls is not None and tls.client_auth == "none" and tls.client_ca_file:
        yield "listen.tls.client_ca_file: it has no effect, because listen.tls.client_auth is none"
    if config.identity.user and _authenticates(config):
        yield "identity.user: it has no effect, because every client authenticates to Sluice"


def _tokens(settings: ListenOAuthBearer) -> Iterator[str]:
    path = "listen.sasl.oauthbearer"
    if settings.accept_unsigned_tokens:
        yield f"{path}.accept_unsigned_tokens: INSECURE: any client can be any user; never use it with real data"
    elif settings.accept_any_audience:
        yield (
            f"{path}.accept_any_audience: whoever gets a token for any service of {settings.issuer} can log in here, "
            "and so can each of these services with the tokens of its clients"
        )
    if settings.jwks.startswith("http:"):
        yield f"{path}.jwks: whoever can change the answer of an address without TLS can be any user"


def _memory(config: Config) -> Iterator[str]:
    pool_bytes = config.memory.queued_max_request_bytes
    max_bytes = config.limits.socket_request_max_bytes
    if 0 < pool_bytes < max_bytes:
        yield (
            f"memory.queued_max_request_bytes: {pool_bytes} is less than limits.socket_request_max_bytes, {max_bytes}, "
            "which Kafka refuses (KIP-72); here a larger request passes in parts, and is never kept whole"
        )


def _lends_credentials(config: Config) -> bool:
    """Return whether clients from elsewhere use Sluice's credentials without any of their own."""
    is_remote = not is_loopback(config.listen.address)
    known = config.identity.user or _authenticates(config)
    return config.upstream.has_credentials and is_remote and not known


def _unknown_apis(config: Config) -> Iterator[str]:
    for place, value in enumerate(config.pass_unknown_apis):
        if config.upstream.has_credentials:
            yield (
                f"pass_unknown_apis[{place}]: the brokers judge {value!r} by Sluice's own credentials, and Sluice does "
                "not know what it does"
            )


def _unlimited_logins(config: Config) -> Iterator[str]:
    """Yield the quotas that a user evades by a login that tells no name."""
    if not config.passes_logins or config.identity.user or _authenticates(config):
        return
    for place, entry in enumerate(config.policies):
        lines = cast(
            "list[dict[str, Any]]", entry.config.get("quotas") if entry.use in QUOTA else ()
        )
        by_user = [each for each in lines or () if _USERS & each.keys() and "client_id" not in each]
        unnamed = {
            key
            for each in by_user
            if not _UNNAMED.isdisjoint((each.get("user"), *each.get("who", ())))
            for key in each
        }
        for key in sorted({key for each in by_user for key in each} - unnamed - _USERS):
            yield (
                f"policies[{place}].config.quotas: {key} holds for named users and not for {UNKNOWN}, the clients "
                "whose login tells no name (a delegation token, GSSAPI); give it to <default> or to this user"
            )


def _answered_above_access(config: Config) -> Iterator[str]:
    """Yield the entries that answer requests before `access` is asked."""
    places = [place for place, entry in enumerate(config.policies) if entry.use in _ACCESS]
    for place, entry in enumerate(config.policies):
        if entry.use in QUOTA and any(place < each for each in places):
            yield (
                f"policies[{place}]: {entry.name} stands above access, so it tells everyone all quotas, whatever the "
                "rules say; let access stand above it"
            )


def _authenticates(config: Config) -> bool:
    """Return whether every client authenticates to Sluice."""
    tls = config.listen.tls
    return config.listen.sasl is not None or (tls is not None and tls.client_auth == "required")


def login_lines(config: Config) -> Iterator[str]:
    """Yield a sentence or two for each."""
    forwarded = config.upstream.forwarded_credential_apis()
    if forwarded is not None:
        refused = [name for name, key in guarded_apis().items() if key not in forwarded]
        shown = [_shown(name) for name in refused if not _is_answered(config, name)]
        yield f"Refused to clients, because the brokers would judge it by Sluice's credentials: {', '.join(shown)}."
        if forwarded:
            names = ", ".join(map(name_of, sorted(forwarded)))
            yield f"Forwarded by Sluice's credentials all the same: {names}."
        yield _RIGHTS
    if config.passes_logins and config.policies:
        yield f"A client whose login tells no name (a delegation token, GSSAPI) is the user {_unnamed(config)}."


def unread_lines(config: Config) -> Iterator[str]:
    """Yield a sentence about the offered versions that the codec cannot decode: those that a release has removed."""
    if not config.policies:
        return
    versions: dict[str, list[int]] = {}
    for api in BY_KEY_AND_VERSION.values():
        if api.removed_in:
            versions.setdefault(api.name, []).append(api.version)
    shown = (
        f"{name} v{each[0]}" + (f"-{each[-1]}" if each[1:] else "")
        for name, each in versions.items()
    )
    yield (
        "A policy that decodes bodies refuses these old versions with UNSUPPORTED_VERSION (KIP-896): "
        f"{', '.join(shown)}."
    )


def _shown(name: str) -> str:
    """Return the name of an API, and the part of it that is refused."""
    is_part = concern_of(guarded_apis()[name]) is Concern.CONFIGS
    return f"{name} (but of topics and groups)" if is_part else name


def _is_answered(config: Config, name: str) -> bool:
    """Return whether Sluice answers requests of this API itself, for its own quotas."""
    is_about_quotas = concern_of(guarded_apis()[name]) is Concern.CLIENT_QUOTAS
    return is_about_quotas and any(
        each.use in QUOTA and each.mode == "enforce" for each in config.policies
    )


def _unnamed(config: Config) -> str:
    tls = config.listen.tls
    if tls is not None and tls.client_auth == "required":
        return "of its certificate"
    return config.identity.user or UNKNOWN
