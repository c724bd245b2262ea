"""What the commands of `sluice access` share: the rules of a configuration, and a client that the options describe.

- The configuration is read and checked as by `sluice config`; a problem of any setting ends the command with exit
  code 1. No broker is asked.
- A client without a proof has only a name: rules that demand a proof (`tls:`, `sasl:`, `token:`) do not fit it.
"""

from __future__ import annotations

import sys
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from policies.access.config import AccessConfig
from policies.access.explain import fitting_rules
from policies.escaping import escaped
from policies.requests import Peer
from policies.validation import SettingsError, try_convert
from policies.who import NAMELESS
from proxy.cli import options
from proxy.cli.access_verdict import verdict_of
from proxy.cli.settings import INVALID, GivenSettings, print_problems

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from policies.access.explain import FittingRule, Reason
    from policies.access.rights import Grant
    from proxy.cli.access_verdict import Named, Verdict
    from proxy.config.sources import Effective
    from wire.apis import Api

USE: Final = "access"
"""The name of the policy in the settings."""
SOURCES: Final = {"tls": "tls", "sasl": "sasl", "token": "sasl", "claim": "sasl", "config": "fixed"}
"""`Peer.principal_source` by the first part of a proof."""
PROOF_WORDS: Final = "tls, sasl, sasl:MECHANISM, token, claim or config"
_RULES: Final = (
    options.config("The YAML file with the rules."),
    click.option(
        "--policy",
        metavar="NAME",
        help="The entry with the rules, if several are of `use: access`.",
    ),
)


class AccessRules:
    """The rules of the entry `place` of the policies."""

    def __init__(self, effective: Effective, place: int) -> None:
        entry = effective.config.policies[place]
        config, _ = try_convert(AccessConfig, entry.config)
        assert config is not None  # noqa: S101 - the settings have been checked
        self.config = config
        self.name = entry.name
        self.observes = entry.mode == "observe"
        self.usage_log = effective.config.usage_log.directory
        self._path = f"policies[{place}].config.rules"
        self._origins = effective.origins
        self._owns_tokens = not effective.config.upstream.has_credentials

    @cached_property
    def grants(self) -> tuple[Grant, ...]:
        """Return the rules as the rights understand them."""
        return tuple(self.config.grants())

    def about(self, peer: Peer) -> tuple[FittingRule, ...]:
        """Return the rules about a client."""
        return fitting_rules(self.grants, self.config.teams, peer)

    def verdict(self, peer: Peer, api: Api, named: Named) -> Verdict:
        """Return what the rules say of a client's request. Raises ValueError for names that do not fit the API."""
        return verdict_of(self.about(peer), api, named, owns_tokens=self._owns_tokens)

    def label(self, place: int) -> str:
        """Return `rules[2] (FILE:LINE)`."""
        origin = self._origins.get(f"{self._path}[{place}]", "")
        return f"rules[{place}]" + (f" ({origin})" if origin else "")

    def words(self, reason: Reason) -> str:
        """Return which rule decides, in words."""
        if reason.place is None:
            return reason.pattern or "no rule allows it"
        verb = "allows" if reason.is_allowed else "denies"
        return f"{self.label(reason.place)} {verb} it to {reason.who}, on {reason.pattern}"


def with_rules(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that name the rules to a command, which gets them as AccessRules `rules`."""

    @wraps(command)
    def given(*, file: Path | None, policy: str | None, **others: object) -> None:
        command(rules=_read_rules(file, policy), **others)

    return options.add_options(given, *_RULES)


def _read_rules(file: Path | None, policy: str | None) -> AccessRules:

    if file is None:
        raise click.UsageError("expected the file with the rules: --config, or SLUICE_CONFIG.")
    try:
        effective = GivenSettings(file, {}).read()
    except SettingsError as error:
        print_problems(error)
        sys.exit(INVALID)
    places = [
        place
        for place, entry in enumerate(effective.config.policies)
        if entry.use == USE and policy in {None, entry.name}
    ]
    if len(places) != 1:
        words = f"{len(places)} entries with `use: {USE}`" if places else f"no `use: {USE}`"
        if policy is not None:
            words += f" and the name {policy}"
        which = ", ".join(effective.config.policies[place].name for place in places)
        hint = f"; choose one by --policy: {which}" if which else ""
        text = f"{file}: found {words} among the policies, expected one{hint}"
        click.echo(escaped(text), err=True)
        sys.exit(INVALID)
    return AccessRules(effective, places[0])


class Who(NamedTuple):
    """A client, as the options and the cases describe it."""

    user: str
    client_id: str = ""
    proof: str = ""
    token_groups: tuple[str, ...] = ()

    def peer(self) -> Peer:
        """Return the client as the rules see it. Raises ValueError for a proof that is none."""
        way, colon, mechanism = self.proof.partition(":")
        if self.proof and (way not in SOURCES or (colon and (way != "sasl" or not mechanism))):
            raise ValueError(f"found {self.proof!r}, expected {PROOF_WORDS}")
        source = SOURCES[way] if self.proof else NAMELESS.get(self.user, "sasl")
        groups = frozenset(self.token_groups)
        return Peer(
            0,
            "127.0.0.1",
            0,
            client_id=self.client_id,
            user=self.user,
            principal_source=source,
            proof=self.proof,
            groups=groups,
        )


def with_client(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that describe a client to a command, which gets it as a Peer `peer`."""

    @wraps(command)
    def given(
        *, user: str, client_id: str, proof: str, token_group: tuple[str, ...], **others: object
    ) -> None:
        try:
            peer = Who(user, client_id, proof, token_group).peer()
        except ValueError as error:
            raise click.BadParameter(str(error), param_hint="--proof") from None
        command(peer=peer, **others)

    return options.add_options(
        given,
        click.option("--user", metavar="NAME", required=True, help="The client's user."),
        click.option("--client-id", metavar="NAME", default="", help="Its client id."),
        click.option(
            "--proof", metavar="PROOF", default="", help=f"How the user is proved: {PROOF_WORDS}."
        ),
        click.option(
            "--token-group",
            metavar="NAME",
            multiple=True,
            help="A group in the client's token; may be given several times.",
        ),
    )
