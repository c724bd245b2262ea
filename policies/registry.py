"""Checks the entries of the config and builds their policies.

- Every entry is checked, even if another one has a mistake; entry names are unique.
- A policy is made once per start and once per reload. `inspect` makes it to find out whether it can be made, and what
  it needs. The entry keeps it in `made` until `build` connects it to the proxy, or `discard` closes it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import msgspec

from policies.api import Need, Policy, PolicyConfigError
from policies.chain import Entry
from policies.custom_metrics import conflicts
from policies.discovery import RAISED, PolicyFinder, error_words
from policies.entry_host import EntryHost, Files, NullServices, ProxyServices
from policies.hook_runner import HookRunner
from policies.interests import interests_of, joined_need
from policies.policy_files import FileReader
from policies.type_names import describe_value
from policies.validation import Problem, SettingsError, join_path, try_convert
from wire.apis import OFFERED

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.custom_metrics import MetricSpec


@dataclass(slots=True)
class MadePolicy:
    """What was made from an entry."""

    draft: tuple[Policy, EntryHost] | None = None
    """The policy and its host, until they are connected or closed."""
    bodies: tuple[int, ...] | None = None
    """The APIs whose requests it needs whole; None if it was never made."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Of each file that it has read, by path."""
    hints: tuple[str, ...] = ()

    def adopt(self, other: MadePolicy) -> None:
        """Have all that `other` has, which keeps no draft."""
        self.draft = other.take()
        self.bodies, self.digests, self.hints = other.bodies, other.digests, other.hints

    def take(self) -> tuple[Policy, EntryHost] | None:
        """Return the draft, which is not kept any more."""
        draft, self.draft = self.draft, None
        return draft


class PolicyEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, dict=True):
    """One policy of the chain. Requests go down the list, responses come back up."""

    use: Annotated[
        str,
        msgspec.Meta(
            min_length=1,
            description="An installed policy, a file of policies_path, or MODULE:CLASS.",
        ),
    ]
    name: Annotated[
        str, msgspec.Meta(description="What logs call this entry; unique. Default: `use`.")
    ] = ""
    mode: Annotated[
        Literal["enforce", "observe"],
        msgspec.Meta(description="observe: judged and reported, never enforced."),
    ] = "enforce"
    on_error: Annotated[
        Literal["close", "forward"],
        msgspec.Meta(description="What happens to the request when the policy raises."),
    ] = "close"
    config: dict[str, Annotated[object, msgspec.Meta(description="The policy's own setting.")]] = (
        msgspec.field(default_factory=dict)
    )

    def __post_init__(self) -> None:
        if not self.name:
            msgspec.structs.force_setattr(self, "name", self.use)

    @cached_property
    def made(self) -> MadePolicy:
        """What was made from these settings; it is not one of them, and equal entries may have different ones."""
        return MadePolicy()


def build(
    entries: Sequence[PolicyEntry],
    services: ProxyServices,
    hook_runner: HookRunner | None = None,
) -> list[Entry]:
    """Connect each entry's policy to the proxy, in order; make it first unless `inspect` has made it.

    The policies' hosts use `services`, and alarms are called through `hook_runner`.

    Raises SettingsError with every problem of every entry.
    """
    hook_runner = hook_runner or HookRunner(NullServices())
    if problems := _try_make_all(entries, services):
        discard(entries)
        raise SettingsError(problems)
    built: list[Entry] = []
    for entry in entries:
        draft = entry.made.take()
        assert draft is not None  # noqa: S101 - or there were problems
        policy, host = draft
        host.connect(services, hook_runner)
        built.append(Entry(entry.name, policy, entry.mode, entry.on_error, host))
    return built


def inspect(
    entries: Sequence[PolicyEntry | None],
    files: CodeFiles | None = None,
    *,
    keep: bool = False,
    directories: Sequence[str] = (),
) -> list[Problem]:
    """Return every problem that `build` would raise; paths begin with `policies[n]`.

    `directories` are those of `policies_path`. None stands for an entry that could not be read: it keeps its place and
    is not checked. Policies read their files with `files`. If `keep` and there is no problem, the entries keep their
    policies for `build`.
    """
    problems = _try_make_all(entries, files or NullServices(), directories, files)
    if problems or not keep:
        discard(entries)
    return problems


def discard(entries: Iterable[PolicyEntry | None]) -> None:
    """Close the policies that were made from these entries and not built."""
    hook_runner = HookRunner(NullServices())
    for entry in entries:
        if entry is not None and (draft := entry.made.take()) is not None:
            policy, host = draft
            hook_runner.notify(entry.name, "close", policy.close)
            host.close_tools()
            host.give_up_alarms()


def transfer(entries: Iterable[PolicyEntry | None], equals: Iterable[PolicyEntry]) -> None:
    """Move the policies that were made from `entries` to the equal entries in `equals`."""
    for entry, equal in zip(entries, equals, strict=True):
        if entry is not None:
            equal.made.adopt(entry.made)


def hints(entries: Sequence[PolicyEntry]) -> list[str]:
    """Return the hints of the policies that were made from these entries; paths begin with `policies[n]`."""
    return [
        f"policies[{place}].config.{hint}"
        for place, entry in enumerate(entries)
        for hint in entry.made.hints
    ]


def digests(entries: Sequence[PolicyEntry]) -> dict[str, str]:
    """Return a digest of each file that policies made from these entries have read (`Services.read`), by path."""
    return {path: digest for entry in entries for path, digest in entry.made.digests.items()}


def body_apis(entries: Sequence[PolicyEntry]) -> dict[int, str]:
    """Return API key to the name of the first entry that needs its requests whole (Need.BODY or more)."""
    unknown = [entry for entry in entries if entry.made.bodies is None]
    if unknown:
        _try_make_all(unknown, NullServices())
        discard(unknown)
    wanted: dict[int, str] = {}
    for entry in entries:
        for key in entry.made.bodies or ():
            wanted.setdefault(key, entry.name)
    return wanted


class CodeFiles(Files, FileReader, Protocol):
    """The files of policies, and of the directories in `policies_path`."""


def _try_make_all(
    entries: Sequence[PolicyEntry | None],
    files: Files,
    directories: Sequence[str] = (),
    code: FileReader | None = None,
) -> list[Problem]:
    """Make the policies that were not made yet; the entries keep them."""
    if all(entry is None or entry.made.draft is not None for entry in entries):
        directories = ()
    finder = PolicyFinder(directories, code or NullServices())
    problems = finder.problems
    first: dict[str, int] = {}
    defined: dict[str, MetricSpec] = {}
    owners: dict[str, str] = {}  # by the path of a state file: the entry that uses it
    for place, entry in enumerate(entries):
        if entry is None:
            continue
        path = f"policies[{place}]"
        if first.setdefault(entry.name, place) != place:
            taken = f"a name of its own (policies[{first[entry.name]}] has this one)"
            problems.append(Problem(f"{path}.name", describe_value(entry.name), taken))
        if entry.made.draft is None:
            problems += _try_make(
                entry, path, finder, EntryHost(entry.name, entry.mode, files, owners)
            )
        if entry.made.draft is not None:
            metrics = entry.made.draft[1].metrics
            problems += [Problem(path, each) for each in conflicts(metrics, defined)]
            defined |= {name: metric.spec for name, metric in metrics.by_name.items()}
    return problems


def _try_make(
    entry: PolicyEntry, path: str, finder: PolicyFinder, host: EntryHost
) -> list[Problem]:
    found = finder.find(entry.use, f"{path}.use")
    if isinstance(found, Problem):
        return [found]
    kind = found.kind
    try:
        config, problems = try_convert(kind.Config, entry.config, f"{path}.config")
        if problems:
            return problems
        policy = kind(config, host)
        interests = interests_of(policy)
    except PolicyConfigError as error:
        return [Problem(join_path(f"{path}.config", str(error.path)), str(error.message))]
    except SettingsError as error:
        return [
            replace(each, path=join_path(f"{path}.config", each.path)) for each in error.problems
        ]
    except RAISED as error:  # a plug-in's code; its fault is a problem of this entry
        words = f"the policy {entry.use} cannot be made: {error_words(error)}"
        return [Problem(f"{path}.config", words)]
    asked = OFFERED if interests.apis is None else interests.apis & OFFERED.keys()
    bodies = tuple(key for key in asked if joined_need({interests.need(key)}, key) >= Need.BODY)
    digests_of = {**found.digests, **host.digests}
    entry.made.adopt(MadePolicy((policy, host), bodies, digests_of, _hints_of(policy)))
    return []


def _hints_of(policy: Policy) -> tuple[str, ...]:
    with suppress(*RAISED):  # a plug-in's code; its hints are optional
        return tuple(map(str, policy.hints()))
    return ()
