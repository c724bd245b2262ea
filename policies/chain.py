"""Calls the policies in order, compiled per API key: an API that no policy wants costs nothing.

Rules:
- Requests go down the config's order, replies come back up. Entries that are `asked_first` come before the others: they
  count requests that others refuse. Their `on_answer` is called at their place in the config's order.
- How the hooks of several entries are joined: `policies.request_hooks`, `policies.reply_hooks`.
- A policy that raises, or returns something else than a verdict, has a bug and is reported. `on_error` says whether the
  connection closes or the request is forwarded. Every call of a hook is guarded (`policies.hook_runner`).
- The interests of an entry (`apis`, `response_apis`, `hears_body`, `needs`, `tick_ms`) are read once, and again at
  `reconsider`.
- An entry in mode `observe` is called like any other, but its refusals are only reported.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from policies.api import Need, Policy, Reject
from policies.decision import PolicyDecision, is_no_op
from policies.gates import maybe_open_gate
from policies.hook_runner import HookRunner, PolicyFault, Reporter, refusing_unreadable
from policies.hooks import (
    ASKED_ALL,
    COMPLETED,
    ChainPosition,
    ChainRequest,
    Entry,
    Hooks,
    Lease,
    close_tools,
)
from policies.interests import interests_of, joined_need, kinds, offered_below
from policies.request_hooks import join_preparations, join_requests, never_holding
from policies.verdicts import check_connect, check_effective_quota
from wire.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from policies.api import EffectiveQuota, Peer, Verdict
    from policies.hooks import OnComplete, OnResponse
    from policies.interests import Interests

__all__ = [
    "ASKED_ALL",
    "COMPLETED",
    "Chain",
    "ChainPosition",
    "ChainRequest",
    "Entry",
    "Hooks",
    "PolicyFault",
    "Reporter",
]


class Chain:
    """The compiled order of policies. Immutable; a reload builds a new one beside it.

    Raises PolicyFault when the interests of an entry cannot be read.
    """

    def __init__(
        self, entries: Sequence[Entry], reporter: Reporter, hook_runner: HookRunner | None = None
    ) -> None:
        self.entries = tuple(entries)
        self.hook_runner = hook_runner or HookRunner(reporter)
        self._reporter = reporter
        self._observe = partial(_observe, reporter)
        self._hooks: dict[tuple[int, bool, bool], Hooks] = {}
        self._compiled: dict[tuple[object, ...], Hooks] = {}  # most APIs are of one kind to all
        self._interests = self._read_interests(None)
        self.lease = Lease()
        self.ticks: dict[int, list[Entry]] = {}
        """Interval in ms to the entries whose `on_tick` is called that often."""
        for entry in self.entries:
            if every_ms := self._interests[entry.name].tick_ms:
                self.ticks.setdefault(every_ms, []).append(entry)

    def hooks(self, api_key: int, *, timed: bool = False, signs_on: bool = False) -> Hooks:
        """Return the compiled hooks of this API key. If `timed`, each call is measured.

        `signs_on`: those for a request of a sign-on. No entry that is `asked_first` sees it.
        """
        kind = (api_key, timed and self.hook_runner.measures, signs_on)
        found = self._hooks.get(kind)
        if found is None:
            alike = (*kind[1:], *kinds(api_key, self._interests.values()))
            found = self._compiled.get(alike)
            if found is None:
                found = self._compiled[alike] = self._compile(*kind)
            self._hooks[kind] = found
        return found

    def offered(self) -> Mapping[int, tuple[int, int]]:
        """Return the versions that clients may use by API key: Sluice's own, below the caps of entries that enforce."""
        enforced = (entry for entry in self.entries if entry.mode == "enforce")
        return offered_below(self._interests[entry.name].max_versions for entry in enforced)

    def hidden(self) -> frozenset[int]:
        """Return the APIs that ApiVersions leaves out: those of which entries that enforce offer no version."""
        enforced = (entry for entry in self.entries if entry.mode == "enforce")
        caps = (self._interests[entry.name].max_versions for entry in enforced)
        return frozenset(key for each in caps for key, newest in each.items() if newest is None)

    def active_entries(self) -> list[str]:
        """Return the names of the entries that have a hook for requests or replies."""
        hooks = ("on_request", "on_response", "on_complete")
        return [e.name for e in self.entries if any(_overrides(e.policy, hook) for hook in hooks)]

    def on_connect(self, peer: Peer, now_ms: int) -> Reject | None:
        """Call every entry; the first refusal counts, and an entry that raises refuses if its `on_error` is `close`.

        Returns the refusal or None. Entries that had accepted a client that is then refused get `on_disconnect`.
        """
        passed: list[Entry] = []
        for entry in self.entries:
            if not _overrides(entry.policy, "on_connect"):
                continue
            connect = entry.policy.on_connect
            try:
                verdict: Verdict = self.hook_runner.run(
                    entry.name, "on_connect", connect, peer, now_ms, check=check_connect
                )
            except PolicyFault:
                if entry.forwards_on_error:
                    passed.append(entry)
                    continue
                verdict = Reject(ErrorCode.UNKNOWN_SERVER_ERROR, close=True)
            if isinstance(verdict, Reject):
                decision = PolicyDecision(entry.name, verdict, peer, "", now_ms)
                if entry.mode == "enforce":
                    self._reporter.on_policy_refused(decision)
                    for earlier in passed:
                        leave = earlier.policy.on_disconnect
                        self.hook_runner.notify(earlier.name, "on_disconnect", leave, peer, now_ms)
                    return verdict
                self._reporter.on_policy_observed(decision)
            passed.append(entry)
        return None

    def on_disconnect(self, peer: Peer, now_ms: int) -> None:
        """Call every entry."""
        for entry in self.entries:
            if _overrides(entry.policy, "on_disconnect"):
                leave = entry.policy.on_disconnect
                self.hook_runner.notify(entry.name, "on_disconnect", leave, peer, now_ms)

    def reconsider(self) -> None:
        """Compile the hooks again after a policy's interests have changed.

        An entry whose interests cannot be read is reported and keeps those it had.
        """
        self._interests = self._read_interests(self._interests)
        self._hooks.clear()
        self._compiled.clear()

    def resume_position(
        self, api_key: int, position: ChainPosition, before: Hooks, replaced: Collection[str]
    ) -> tuple[Hooks, ChainPosition, bool] | None:
        """Return where a request that was held under other hooks continues in this chain.

        Returns (hooks, position, whether its holder is still there); None if these hooks need more of the request
        than was read. `replaced` are entries whose name now belongs to a different policy.
        """
        hooks = self.hooks(api_key)
        if hooks.need > before.need:
            return None
        holder = before.with_on_request[position.place]
        if holder in hooks.with_on_request and holder not in replaced:  # `on_answer` never holds
            return hooks, position._replace(place=hooks.with_on_request.index(holder)), True
        already_asked = list(before.with_on_request[: position.place + 1])
        place = 0
        for n, name in enumerate(hooks.with_on_request):
            if name in already_asked and name not in replaced:
                already_asked.remove(name)
                place = n + 1
        return hooks, position._replace(place=place), False

    def attribute_fault(self, api_key: int, hook: str, error: BaseException) -> PolicyFault:
        """Report what the hook of a lone policy raised, and return the fault that closes the connection."""
        if isinstance(error, PolicyFault):
            return error
        able = [e for e in self.entries if _overrides(e.policy, hook)]
        # It was called under its interests of that time; they may have shrunk since (`reconsider`).
        entry = next((e for e in able if self._wants(e, api_key, hook)), able[0])
        return self.hook_runner.fault(entry.name, hook, error)

    def forwards_on_error(self, api_key: int, hook: str) -> bool:
        """Return whether every entry with this hook for this API lets a request pass when the entry is at fault."""
        return all(
            entry.forwards_on_error for entry in self.entries if self._wants(entry, api_key, hook)
        )

    def effective_quota(self, user: str, client_id: str) -> EffectiveQuota | None:
        """Return the request rate of the first enforced entry that has one for them; None if there is none."""
        hook = "effective_quota"
        for entry in self.entries:
            if entry.mode != "enforce" or not _overrides(entry.policy, hook):
                continue
            ask, check = entry.policy.effective_quota, check_effective_quota
            with suppress(PolicyFault):
                found = self.hook_runner.run(entry.name, hook, ask, user, client_id, check=check)
                if found is not None:
                    return found
        return None

    def tick(self, entry: Entry, now_ms: int) -> None:
        """Call one entry's `on_tick`; its errors are reported, never raised."""
        self.hook_runner.notify(entry.name, "on_tick", entry.policy.on_tick, now_ms)

    def close(self) -> None:
        """Close every policy, last first."""
        for entry in reversed(self.entries):
            self.hook_runner.notify(entry.name, "close", entry.policy.close)
            close_tools(entry)

    # -- compiling ---------------------------------------------------------------------------

    def _compile(self, api_key: int, timed: bool, signs_on: bool) -> Hooks:  # noqa: FBT001 - a key of `_hooks`
        wanted = [
            entry
            for entry in self.entries
            if self._wants(entry, api_key, "")
            and not (signs_on and self._interests[entry.name].asked_first)
        ]
        with_on_request, steps = self._steps(wanted, api_key, timed=timed)
        with_on_response = [e for e in wanted if self._wants(e, api_key, "on_response")]
        with_on_response.sort(key=lambda entry: not self._interests[entry.name].asked_first)
        with_on_complete = [e for e in wanted if _overrides(e.policy, "on_complete")]
        hearing = tuple(
            entry
            for entry in self.entries
            if api_key in self._interests[entry.name].hears_body
            and (entry in with_on_response or entry in with_on_complete)
        )
        using = (
            e
            for e in wanted
            if e in with_on_request or e in with_on_response or e in with_on_complete
        )
        needs = {self._interests[e.name].need(api_key) for e in using}
        on_request, on_hold_over = (
            join_requests(with_on_request, steps, self.hook_runner, self._observe)
            if with_on_request
            else (None, None)
        )
        is_used = with_on_request or with_on_response or with_on_complete or hearing
        return Hooks(
            need=joined_need(needs, api_key),
            wants_head=not needs.isdisjoint({Need.HEAD, Need.BODY}),
            on_request=on_request,
            prepare=join_preparations(with_on_request, self.hook_runner),
            on_hold_over=on_hold_over,
            on_response=self._join_responses(
                with_on_response[::-1], with_on_request, hearing, timed=timed
            ),
            on_complete=self._join_completions(with_on_complete, with_on_request, timed=timed),
            with_on_request=tuple(entry.name for entry in with_on_request),
            hears_body=hearing,
            open_gate=None
            if timed or with_on_response or with_on_complete
            else maybe_open_gate(with_on_request, self.hook_runner),
            lease=self.lease if is_used else None,
        )

    def _call(self, entry: Entry, hook: str, *, timed: bool) -> Callable[..., Any]:
        call: Callable[..., Any] = getattr(entry.policy, hook)
        return self.hook_runner.timed(entry.name, hook, call) if timed else call

    def _request_call(
        self, entry: Entry, hook: str, api_key: int, *, timed: bool
    ) -> Callable[..., Any]:
        call = self._call(entry, hook, timed=timed)
        if hook == "on_answer":
            call = never_holding(call)
        reads = self._interests[entry.name].need(api_key) >= Need.BODY and entry.on_error == "close"
        return refusing_unreadable(call) if reads else call

    def _steps(
        self, wanted: Sequence[Entry], api_key: int, *, timed: bool
    ) -> tuple[list[Entry], list[Callable[..., Any]]]:
        """Return the entries that are asked about a request, in order, and what is called of each."""
        first: list[tuple[Entry, str]] = []
        others: list[tuple[Entry, str]] = []
        for entry in wanted:
            interests = self._interests[entry.name]
            if _overrides(entry.policy, "on_request"):
                (first if interests.asked_first else others).append((entry, "on_request"))
            if api_key in interests.answers and _overrides(entry.policy, "on_answer"):
                others.append((entry, "on_answer"))
        steps = first + others
        calls = [self._request_call(*each, api_key, timed=timed) for each in steps]
        return [entry for entry, _ in steps], calls

    def _join_responses(
        self,
        with_on_response: Sequence[Entry],
        with_on_request: Sequence[Entry],
        hearing: Sequence[Entry],
        *,
        timed: bool,
    ) -> OnResponse | None:
        if not with_on_response:
            return None
        from policies.reply_hooks import (  # noqa: PLC0415 - a chain without it takes no memory for it
            ResponseHook,
            join_responses,
        )

        called = [
            ResponseHook(
                entry,
                _place(entry, with_on_request),
                self._call(entry, "on_response", timed=timed),
                entry in hearing,
            )
            for entry in with_on_response
        ]
        return join_responses(called, self.hook_runner, self._observe)

    def _join_completions(
        self, with_on_complete: Sequence[Entry], with_on_request: Sequence[Entry], *, timed: bool
    ) -> OnComplete | None:
        if not with_on_complete:
            return None
        from policies.reply_hooks import (  # noqa: PLC0415 - as above
            CompletionHook,
            join_completions,
        )

        called = [
            CompletionHook(
                entry.name,
                _place(entry, with_on_request),
                self._call(entry, "on_complete", timed=timed),
            )
            for entry in with_on_complete
        ]
        return join_completions(called, self.hook_runner)

    # -- interests -------------------------------------------------------------------------------

    def _read_interests(self, before: Mapping[str, Interests] | None) -> dict[str, Interests]:
        found: dict[str, Interests] = {}
        for entry in self.entries:
            try:
                found[entry.name] = interests_of(entry.policy)
            except BaseException as error:  # an attribute may be a property: a policy's code
                fault = self.hook_runner.fault(entry.name, "interests", error)
                if before is None:
                    raise fault from error
                found[entry.name] = before[entry.name]
        return found

    def _wants(self, entry: Entry, api_key: int, hook: str) -> bool:
        """Return whether the entry is interested in this API, and (if one is named) has this hook for it."""
        interests = self._interests[entry.name]
        wanted = [interests.apis, interests.response_apis if hook == "on_response" else None]
        if any(keys is not None and api_key not in keys for keys in wanted):
            return False
        return not hook or _overrides(entry.policy, hook)


def _observe(
    reporter: Reporter, name: str, verdict: Verdict, api: str, peer: Peer, now_ms: int
) -> None:
    if not is_no_op(verdict):
        reporter.on_policy_observed(PolicyDecision(name, verdict, peer, api, now_ms))


def _overrides(policy: Policy, hook: str) -> bool:
    return getattr(type(policy), hook) is not getattr(Policy, hook)


def _place(entry: Entry, with_on_request: Sequence[Entry]) -> int:
    """Return the entry's place among those with `on_request`; -1 if it has none, so it gets every request's other
    hooks.
    """
    return with_on_request.index(entry) if entry in with_on_request else -1
