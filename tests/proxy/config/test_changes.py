"""The differences between two configurations, and the hash of one."""

import msgspec

from policies.registry import PolicyEntry
from proxy.config import Config
from proxy.config.changes import changes, hash_of
from proxy.config.sections import DrainSettings, ListenSettings, LogSettings
from proxy.config.security import ListenTls
from tests.support.processes.admin_room import config_of, quota_entry


def test_changes_are_named_by_their_path() -> None:
    """A section is compared key by key, a list as a whole. Equal settings have the same hash."""
    before = config_of()
    after = config_of(
        log=LogSettings(level="debug"),
        drain=DrainSettings(timeout_ms=1),
        policies=(quota_entry(),),
        policies_path=("a",),
    )
    changed = ["drain.timeout_ms", "log.level", "policies", "policies_path"]
    assert sorted(changes(before, after)) == changed
    assert list(changes(before, config_of())) == []
    assert hash_of(before) == hash_of(config_of()) != hash_of(after)


def test_a_change_inside_an_optional_section_has_the_path_of_its_key() -> None:
    """A section that is added or removed is one change."""

    def with_tls(**settings: str) -> Config:
        tls = ListenTls(cert_file="a", key_file="b", **settings)
        return msgspec.structs.replace(config_of(), listen=ListenSettings(nodes="0-3", tls=tls))

    assert list(changes(with_tls(), with_tls(client_ca_file="c", client_auth="required"))) == [
        "listen.tls.client_auth",
        "listen.tls.client_ca_file",
    ]
    assert list(changes(config_of(), with_tls())) == ["listen.tls"]
    assert list(changes(with_tls(), config_of())) == ["listen.tls"]


def test_settings_of_policies_may_have_keys_that_are_not_text() -> None:
    """YAML reads 0, on and null as keys of other kinds; a change of one is found, and the hash changes."""

    def limits(caps: object) -> Config:
        return config_of(policies=(PolicyEntry(use="limits", config={"caps": caps}),))

    before, after = limits({0: 7, True: 1, None: 2, "a": 3}), limits({0: 8, True: 1, None: 2})

    assert hash_of(before) == hash_of(limits({"a": 3, None: 2, True: 1, 0: 7})) != hash_of(after)
    assert list(changes(before, after)) == ["policies"]
