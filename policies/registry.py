"""Find policies by entry point, check and build them from their entries in the config.

- A policy is known by its name in the entry-point group `sluice.policies`; ours are registered
  exactly as a stranger's would be. Only those that an entry uses are imported.
- Every entry is looked at, whatever is wrong with another; entry names are unique.
- Building makes the policy and nothing else; `inspect` builds and closes at will, before services that do nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from policies.api import Need, Policy, PolicyConfigError, Services
from policies.chain import Chain, Entry
from policies.settings import Problem, SettingsError, join, try_convert
from policies.type_words import found, nearest
from wire.apis import OFFERED

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence
    from importlib.metadata import EntryPoint

    from policies.api import Verdict

GROUP = "sluice.policies"


class PolicyEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One policy of the chain. Requests go down the list, responses come back up it."""

    use: Annotated[
        str, msgspec.Meta(min_length=1, description="Its name in the group sluice.policies.")
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


def available() -> dict[str, type[Policy]]:
    """Every installed policy by its name.

    One that cannot be loaded is left out here; an entry that uses it is told why.
    """
    loaded = {name: _try_load(point) for name, point in _entry_points().items()}
    return {name: kind for name, kind in loaded.items() if not isinstance(kind, str)}


def build(entries: Sequence[PolicyEntry], services: Services) -> list[Entry]:
    """Make each entry's policy, in order; what a policy's host wakes, `services` does.

    Raises SettingsError with every problem of every entry.
    """
    built, problems = _try_build(entries, services)
    if problems:
        _close(built)
        raise SettingsError(problems)
    return built


def inspect(entries: Sequence[PolicyEntry | None]) -> list[Problem]:
    """Every problem that `build` would raise; paths begin with `policies[n]`.

    None stands for an entry that could not even be read: it keeps its place and is not asked.
    """
    built, problems = _try_build(entries, _Nobody())
    _close(built)
    return problems


def bodies_wanted(entries: Sequence[PolicyEntry]) -> dict[int, str]:
    """API key to the name of the first entry that wants its requests whole (Need.BODY)."""
    built, _ = _try_build(entries, _Nobody())
    wanted: dict[int, str] = {}
    for entry in built:
        chain = Chain((entry,), _Nobody())
        for key in OFFERED:
            if chain.hooks(key).need is Need.BODY:
                wanted.setdefault(key, entry.name)
    _close(built)
    return wanted


class _Host:
    """What one entry's policy is given."""

    def __init__(self, name: str, services: Services) -> None:
        self.name = name
        self.wake = services.wake
        self.call_at = services.call_at
        self.reconsider = services.reconsider
        self.load = services.load
        self.save = services.save


class _Nobody:
    """Does nothing, for policies that are only made to see whether they can be."""

    def wake(self, key: Hashable) -> int:
        """Nothing waits here."""
        return 0

    def call_at(self, at_ms: int, call: Callable[[int], None]) -> None:
        """It will never be that late."""

    def reconsider(self) -> None:
        """There is no chain."""

    def load(self, path: str) -> bytes | None:
        """Nothing was ever saved."""
        return None

    def save(self, path: str, data: bytes) -> None:
        """Nothing is."""

    def on_policy_error(self, name: str, hook: str, error: BaseException) -> None:
        """Nobody is asked, so nobody raises."""

    def on_policy_observed(self, name: str, verdict: Verdict) -> None:
        """Nobody is asked."""


def _try_build(
    entries: Sequence[PolicyEntry | None], services: Services
) -> tuple[list[Entry], list[Problem]]:
    points = _entry_points() if entries else {}
    built: list[Entry] = []
    problems: list[Problem] = []
    first: dict[str, int] = {}
    for place, entry in enumerate(entries):
        if entry is None:
            continue
        path = f"policies[{place}]"
        if first.setdefault(entry.name, place) != place:
            taken = f"a name of its own (policies[{first[entry.name]}] has this one)"
            problems.append(Problem(f"{path}.name", found(entry.name), taken))
        made = _try_make(entry, path, points, services)
        if isinstance(made, Policy):
            built.append(Entry(entry.name, made, entry.mode, entry.on_error))
        else:
            problems += made
    return built, problems


def _try_make(
    entry: PolicyEntry,
    path: str,
    points: dict[str, EntryPoint],
    services: Services,
) -> Policy | list[Problem]:
    use = f"{path}.use"
    point = points.get(entry.use)
    if point is None:
        words = f"an installed policy: {', '.join(sorted(points))}"
        return [Problem(use, found(entry.use), words, nearest(entry.use, points))]
    kind = _try_load(point)
    if isinstance(kind, str):
        return [Problem(use, kind)]
    config, problems = try_convert(kind.Config, entry.config, f"{path}.config")
    if problems:
        return problems
    try:
        return kind(config, _Host(entry.name, services))
    except PolicyConfigError as error:
        return [Problem(join(f"{path}.config", error.path), error.message)]
    except Exception as error:  # noqa: BLE001 - a stranger's code; its fault is a problem of this entry
        words = f"the policy {entry.use} cannot be made: {type(error).__name__}: {error}"
        return [Problem(f"{path}.config", words)]


def _close(built: Iterable[Entry]) -> None:
    for entry in built:
        entry.policy.close()


def _entry_points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # noqa: PLC0415 - start-up: only when policies are used

    return {point.name: point for point in entry_points(group=GROUP)}


def _try_load(point: EntryPoint) -> type[Policy] | str:
    """Return the class, or in words why there is none."""
    try:
        kind: object = point.load()
    except Exception as error:  # noqa: BLE001 - importing runs a stranger's code
        return f"{point.value} cannot be imported: {type(error).__name__}: {error}"
    if isinstance(kind, type) and issubclass(kind, Policy) and hasattr(kind, "Config"):
        return kind
    return f"{point.value} is not a Policy with a Config"
