"""Lines of `sluice check` about logins: the APIs that are refused beside credentials of Sluice, and names not told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policies.credential_guard import guarded_apis
from proxy.core.session.identity import UNKNOWN
from wire.apis import Concern, concern_of, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.config import Config

QUOTA: Final = frozenset({"quota", "policies.quota.policy:Quota"})
_RIGHTS: Final = (
    "Sluice's user at the brokers needs the rights of its clients on topics, groups and transactional ids, and on the "
    "cluster Describe at most: not ClusterAction, Alter or AlterConfigs. It should be no super user."
)


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
