"""Checks the entries of the config and builds their policies.

- Every entry is checked, even if another one has a mistake; entry names are unique.
- A policy is made once per start and once per reload. `inspect` makes it to find out whether it can be made, and what
  it needs. The entry keeps it as a draft until `build` connects it to the proxy, or `discard` closes it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from errno import EBUSY, ENOENT
from hashlib import blake2b
from math import inf
from posixpath import normpath
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Protocol

import msgspec

from policies.api import Need, Policy, PolicyConfigError, Services
from policies.chain import Entry
from policies.custom_metrics import conflicts
from policies.discovery import RAISED, PolicyFinder, error_words
from policies.entry_tools import EntryTools, ToolServices
from policies.hook_runner import HookRunner, PolicyFault
from policies.interests import interests_of, joined_need
from policies.policy_files import FileReader
from policies.type_names import describe_value
from policies.validation import Problem, SettingsError, join_path, try_convert
from policies.verdicts import check_time, short_repr
from wire.apis import OFFERED

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

    from policies.api import Peer, QuotaViolation
    from policies.custom_metrics import MetricSpec
    from policies.decision import PolicyDecision
    from policies.policy_log import MessageLevel

_DRAFT = "draft"
_BODIES = "bodies"
_HINTS = "hints"
_FILES = "files"
"""Attributes of an entry beside its settings: the policy made from it, the APIs whose bodies it needs, its hints, and
the digest of each file that it has read."""
MAX_AT_MS = (1 << 48) - 1
"""The latest alarm, in ms since the epoch: the year 10889."""


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


def build(
    entries: Sequence[PolicyEntry],
    services: ProxyServices,
    hook_runner: HookRunner | None = None,
) -> list[Entry]:
    """Connect each entry's policy to the proxy, in order; make it first unless `inspect` has made it.

    The policies' hosts use `services`, and alarms are called through `hook_runner`.

    Raises SettingsError with every problem of every entry.
    """
    hook_runner = hook_runner or HookRunner(_NullServices())
    if problems := _try_make_all(entries, services):
        discard(entries)
        raise SettingsError(problems)
    built: list[Entry] = []
    for entry in entries:
        draft: _Draft = vars(entry).pop(_DRAFT)
        draft.host.connect(services, hook_runner)
        built.append(Entry(entry.name, draft.policy, entry.mode, entry.on_error, draft.host))
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
    problems = _try_make_all(entries, files or _NullServices(), directories, files)
    if problems or not keep:
        discard(entries)
    return problems


def discard(entries: Iterable[PolicyEntry | None]) -> None:
    """Close the policies that were made from these entries and not built."""
    hook_runner = HookRunner(_NullServices())
    for entry in entries:
        draft: _Draft | None = None if entry is None else vars(entry).pop(_DRAFT, None)
        if entry is not None and draft is not None:
            hook_runner.notify(entry.name, "close", draft.policy.close)
            draft.host.close_tools()
            draft.host.give_up_alarms()


def transfer_drafts(entries: Iterable[PolicyEntry | None], equals: Iterable[PolicyEntry]) -> None:
    """Move the policies that were made from `entries` to the equal entries in `equals`."""
    for entry, equal in zip(entries, equals, strict=True):
        if entry is not None:
            vars(equal).update(vars(entry))
            vars(entry).clear()


def hints(entries: Sequence[PolicyEntry]) -> list[str]:
    """Return the hints of the policies that were made from these entries; paths begin with `policies[n]`."""
    return [
        f"policies[{place}].config.{hint}"
        for place, entry in enumerate(entries)
        for hint in vars(entry).get(_HINTS, ())
    ]


def digests(entries: Sequence[PolicyEntry]) -> dict[str, str]:
    """Return a digest of each file that policies made from these entries have read (`Services.read`), by path."""
    return {
        path: digest for entry in entries for path, digest in vars(entry).get(_FILES, {}).items()
    }


def body_apis(entries: Sequence[PolicyEntry]) -> dict[int, str]:
    """Return API key to the name of the first entry that needs its requests whole (Need.BODY or more)."""
    unknown = [entry for entry in entries if _BODIES not in vars(entry)]
    if unknown:
        _try_make_all(unknown, _NullServices())
        discard(unknown)
    wanted: dict[int, str] = {}
    for entry in entries:
        for key in vars(entry).get(_BODIES, ()):
            wanted.setdefault(key, entry.name)
    return wanted


class ProxyServices(Services, ToolServices, Protocol):
    """All services of a running proxy for its policies."""


class Files(Protocol):
    """The part of `Services` that a policy uses while it is made."""

    def load(self, path: str, /) -> bytes | None:
        """See Services."""

    def read(self, path: str, max_bytes: int, /) -> bytes:
        """See Services."""


class CodeFiles(Files, FileReader, Protocol):
    """The files of policies, and of the directories in `policies_path`."""


class _Draft(NamedTuple):
    """A policy that is made and not connected yet."""

    policy: Policy
    host: _Host


class _Host(EntryTools):
    """The host of one entry's policy. Before `connect` there is no proxy: it reads files and stores alarms."""

    def __init__(self, entry: PolicyEntry, files: Files, owners: dict[str, str]) -> None:
        super().__init__(entry.name, files.read)
        self.observes = entry.mode == "observe"
        self._owners = owners
        self.digests: dict[str, str] = {}
        """Of the files that were read, by path."""
        self._files: Files
        self._use(_NullServices(), HookRunner(_NullServices()))
        self._files = files

    def connect(self, services: ProxyServices, hook_runner: HookRunner) -> None:
        """Use the services of a proxy from now on; alarms that were stored are set now."""
        self._use(services, hook_runner)
        self.connect_tools(services, hook_runner)

    def _use(self, services: Services, hook_runner: HookRunner) -> None:
        self._hook_runner = hook_runner
        self._files = services
        self.wake = services.wake
        self.reconsider = services.reconsider
        self._review = services.review_throttles
        self.save = services.save
        self.topic_name = services.topic_name

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        """Set an alarm, as `Services` says. An exception of the call is reported and has no other effect."""
        if type(at_ms) is not int or not 0 <= at_ms <= MAX_AT_MS:
            raise TypeError(f"at_ms is {short_repr(at_ms)}, expected an integer in 0..{MAX_AT_MS}")
        if not callable(call):
            raise TypeError(f"call is {short_repr(call)}, expected a function of now_ms")
        self.set_alarm(at_ms, call)

    def load(self, path: str) -> bytes | None:
        """Read a file, as `Services` says. Raises OSError if another entry keeps its state in the same file."""
        owner = self._owners.setdefault(normpath(path), self.name)
        if owner != self.name:
            raise OSError(EBUSY, f"the entry {owner} keeps its state in the same file", path)
        return self._files.load(path)

    def read(self, path: str, max_bytes: int) -> bytes:
        """Read a file, as `Services` says."""
        content = self._files.read(path, max_bytes)
        self.digests[path] = blake2b(content, digest_size=16).hexdigest()
        return content

    def review_throttles(self, until_ms: Callable[[Peer, QuotaViolation], float]) -> None:
        """Review this entry's throttles, as `Services` says.

        Throttles of other entries stay as they are, and so do those for which `until_ms` raises.
        """

        def review(peer: Peer, why: QuotaViolation) -> float:
            if why.policy != self.name:
                return inf
            hook = "review_throttles"
            try:
                return self._hook_runner.run(self.name, hook, until_ms, peer, why, check=check_time)
            except PolicyFault:
                return inf

        self._review(review)


class _NullServices:
    """Does nothing, for policies that are made only to find out whether they can be made."""

    def wake(self, key: Hashable) -> int:
        """Return 0: no request is held."""
        return 0

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        """Ignore the alarm."""

    def reconsider(self) -> None:
        """Do nothing: there is no chain."""

    def review_throttles(self, until_ms: Callable[[Peer, QuotaViolation], float]) -> None:
        """Do nothing: no client is throttled."""

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return None: there is no reply to read names from."""
        return None

    def load(self, path: str) -> bytes | None:
        """Return None: there is no file."""
        return None

    def why_untrusted(self, path: str) -> str:
        """Return that nothing is known of it."""
        return f"{path} is not known"

    def read(self, path: str, max_bytes: int) -> bytes:
        """Raise FileNotFoundError: there is no file."""
        raise FileNotFoundError(ENOENT, "there are no files here", path)

    def save(self, path: str, data: bytes) -> None:
        """Ignore the data."""

    def on_policy_error(self, name: str, hook: str, error: BaseException) -> None:
        """Ignore it: no hook is called."""

    def on_policy_observed(self, decision: PolicyDecision) -> None:
        """Ignore it: no hook is called."""

    def on_policy_refused(self, decision: PolicyDecision) -> None:
        """Ignore it: no hook is called."""

    def on_policy_message(
        self, name: str, level: MessageLevel, message: str, fields: Mapping[str, object]
    ) -> None:
        """Ignore it: nothing is served."""

    def on_policy_slow(self, name: str, hook: str, api_name: str, took_us: int) -> None:
        """Ignore it: there is no clock."""


def _try_make_all(
    entries: Sequence[PolicyEntry | None],
    files: Files,
    directories: Sequence[str] = (),
    code: FileReader | None = None,
) -> list[Problem]:
    """Make the policies that were not made yet; the entries keep them."""
    if all(entry is None or _DRAFT in vars(entry) for entry in entries):
        directories = ()
    finder = PolicyFinder(directories, code or _NullServices())
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
        if _DRAFT not in vars(entry):
            problems += _try_make(entry, path, finder, _Host(entry, files, owners))
        draft: _Draft | None = vars(entry).get(_DRAFT)
        if draft is not None:
            metrics = draft.host.metrics
            problems += [Problem(path, each) for each in conflicts(metrics, defined)]
            defined |= {name: metric.spec for name, metric in metrics.by_name.items()}
    return problems


def _try_make(entry: PolicyEntry, path: str, finder: PolicyFinder, host: _Host) -> list[Problem]:
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
    vars(entry)[_DRAFT] = _Draft(policy, host)
    vars(entry)[_BODIES] = tuple(
        key for key in asked if joined_need({interests.need(key)}, key) >= Need.BODY
    )
    vars(entry)[_FILES] = {**found.digests, **host.digests}
    vars(entry)[_HINTS] = _hints_of(policy)
    return []


def _hints_of(policy: Policy) -> tuple[str, ...]:
    with suppress(*RAISED):  # a plug-in's code; its hints are optional
        return tuple(map(str, policy.hints()))
    return ()
