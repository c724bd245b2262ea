"""The lines that Sluice's tables lack for a release, each as it must stand.

- A line is made from Kafka's definitions and from what the table's present line chooses: `offered`, the concern, and
  size limits. So a table that knows the release needs no line.
- For a new API some choices are a person's. They are named with the place.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kio.index import KioIndexError, load_request_schema

from tests.support.releases import newer
from tests.support.releases.changes import differences
from tests.support.releases.definitions import KINDS, text_of
from tests.support.releases.echoes import echo_line
from tests.support.releases.facts import last_of, merged, names_of
from tests.support.releases.java_errors import read_errors
from tests.support.releases.layouts import line_of, names_item
from tests.support.releases.rights import line_lacking
from tests.support.releases.subjects import address_paths
from wire import apis, newer_messages
from wire.addresses import rewriter
from wire.api_keys import ApiKey
from wire.errors import RETRIABLE, ErrorCode
from wire.listing_cuts import LISTED, layout_of_reply
from wire.request_layouts import layout_of, names_anything

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.messages.golden import Fact
    from tests.support.releases.definitions import Message, Release
    from wire.apis import Api

ROOT = Path(__file__).parents[3]
_LINE_CHARS = 120
_WAIT_FOR_A_GROUP = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
_offered = apis.OFFERED
_API_LINE = re.compile(r"^(_api|_hidden)\((\d+), .*$", re.MULTILINE)

BY_HAND = {
    "wire/addresses.py": (
        *("DescribeClusterResponse", "DescribeQuorumResponse"),
        *("FindCoordinatorResponse", "MetadataResponse"),
    ),
    "wire/client_quotas.py": (
        *("AlterClientQuotasRequest", "AlterClientQuotasResponse"),
        *("DescribeClientQuotasRequest", "DescribeClientQuotasResponse"),
    ),
    "wire/config_resources.py": ("AlterConfigsRequest", "IncrementalAlterConfigsRequest"),
    "wire/delegation_tokens.py": (
        *("CreateDelegationTokenResponse", "DescribeDelegationTokenResponse"),
    ),
    "wire/fetch.py": ("FetchRequest", "ShareFetchRequest"),
    "wire/fetch_walk.py, wire/topic_counts.py, wire/topic_runs.py": ("FetchResponse",),
    "wire/metadata.py": ("MetadataRequest",),
    "wire/node_endpoints.py": (
        *("FetchResponse", "ProduceResponse", "ShareAcknowledgeResponse", "ShareFetchResponse"),
    ),
    "wire/produce.py, wire/produce_partitions.py, wire/produce_runs.py": ("ProduceRequest",),
    "wire/sasl.py": (
        *("SaslAuthenticateRequest", "SaslAuthenticateResponse"),
        *("SaslHandshakeRequest", "SaslHandshakeResponse"),
    ),
    "wire/topic_names.py": ("MetadataResponse",),
    "wire/untagged_reply.py": ("FetchResponse", "ProduceResponse"),
    "wire/meant_broker.py": ("ApiVersionsRequest",),
    "wire/versions.py": ("ApiVersionsRequest", "ApiVersionsResponse"),
}
"""Modules that read messages in place: a version with other fields changes them."""


class Missing(NamedTuple):
    """A line that a file lacks, or a decision that it needs."""

    file: str
    text: str
    instead_of: str = ""
    """The present line; empty if the line is new."""


def missing(release: Release, known: Sequence[Fact]) -> Iterator[Missing]:
    """Yield all that the tables lack, file by file. `known` are the facts of earlier releases."""
    new_facts = merged(known, release)
    if changed := len(set(new_facts) - set(known)):
        yield Missing("tests/golden/api_facts.csv", f"{changed} lines, by WRITE=1")
    yield from _api_keys(release)
    yield from _apis(release, new_facts)
    yield from _errors(release)
    yield from _layouts(release)
    yield from _rights(release)
    yield from _addresses(release)
    yield from _readers(release)
    yield from _messages(release)
    for request in release.requests():
        if request.key not in set(ApiKey) and "broker" in request.listeners:
            yield from _choices(release, request)


def _api_keys(release: Release) -> Iterator[Missing]:
    for request in release.requests():
        if request.key not in set(ApiKey):
            yield Missing("wire/api_keys.py", f"    {constant(request.name)} = {request.key}")
        elif ApiKey(request.key).name != constant(request.name):
            old = f"    {ApiKey(request.key).name} = {request.key}"
            new = f"    {constant(request.name)} = {request.key}"
            yield Missing("wire/api_keys.py", new, old)


def _errors(release: Release) -> Iterator[Missing]:
    known = {int(code): code.name for code in ErrorCode}
    for error in read_errors(release.files):
        if known.get(error.code) != error.name:
            text = f"    {error.name} = {error.code}"
            old = f"    {known[error.code]} = {error.code}" if error.code in known else ""
            yield Missing("wire/errors.py", text, old)
        if error.is_retriable != (error.code in RETRIABLE):
            line = f"        ErrorCode.{error.name},"
            text, old = (line, "") if error.is_retriable else ("", line)
            yield Missing("wire/errors.py", text or "not retriable", old)


def _apis(release: Release, new_facts: list[Fact]) -> Iterator[Missing]:
    source = (ROOT / "wire" / "apis.py").read_text("utf-8")
    present = {int(found[2]): found[0] for found in _API_LINE.finditer(source)}
    names = names_of(new_facts)
    if release.minor not in names:  # it has removed versions, and brought none
        names.append(release.minor)
    for request in release.requests():
        own = [fact for fact in new_facts if fact.api_key == request.key]
        old = present.get(request.key, "")
        new = api_line(release, request, own, old, names)
        if new != old:
            yield Missing("wire/apis.py", new, old)


def api_line(
    release: Release, request: Message, own: list[Fact], old: str, names: list[str]
) -> str:
    """Return the line of `wire.apis` for an API with these facts; its choices are those of the present line, if any.

    `names` are the releases of all facts, in order.
    """
    chosen = _chosen(old)
    replies = [fact for fact in own if fact.kind == "response"]
    asked = [fact for fact in own if fact.kind == "request"]
    numbers = [fact.version for fact in own]
    versions = text_of(range(min(numbers), max(numbers) + 1))
    is_for_clients = "broker" in request.listeners and not old.startswith("_hidden")
    options = {
        "offered": chosen.get("offered") or _stable(request, is_for_clients=is_for_clients),
        "removed": "",
        "flexible": next((str(fact.version) for fact in own if fact.flexible), ""),
        "throttle": _since([f for f in replies if f.throttle], _place(replies)),
        "addresses": _since([fact for fact in replies if fact.broker_addresses]),
        "waits": "",
        "max_bytes": chosen.get("max_bytes", ""),
        "records": _records(release, request),
    }
    head = f'_hidden({request.key}, "{request.name}", "{versions}"'
    if is_for_clients:
        waits = asked if request.key in _WAIT_FOR_A_GROUP else [f for f in asked if f.own_wait]
        options["waits"] = _since(waits)
        options["removed"] = _removed(asked, names)
        concern = chosen.get("concern", "DATA")
        head = f'_api({request.key}, "{request.name}", "{versions}", {concern}'
    line = ", ".join([head, *(f"{name}={text}" for name, text in options.items() if text)]) + ")"
    return line + "  # noqa: E501 - one line an API" if len(line) > _LINE_CHARS else line


def _chosen(line: str) -> dict[str, str]:
    """Return the choices of a line of the table, as source text."""
    if not line:
        return {}
    call = ast.parse(line).body[0]
    assert isinstance(call, ast.Expr)
    assert isinstance(call.value, ast.Call)
    found = {
        str(each.arg): ast.get_source_segment(line, each.value) for each in call.value.keywords
    }
    if len(call.value.args) > 3:
        found["concern"] = ast.get_source_segment(line, call.value.args[3])
    return {name: text for name, text in found.items() if text}


def _stable(request: Message, *, is_for_clients: bool) -> str:
    """Return the versions to offer if the newest one is not to be used yet."""
    if not (request.is_unstable and is_for_clients):
        return ""
    stable = request.versions[:-1]
    return f'"{text_of(stable)}"' if stable else '""'


def _since(those: list[Fact], place: str = "") -> str:
    return f'"{min(fact.version for fact in those)}+{place}"' if those else ""


def _removed(asked: list[Fact], names: list[str]) -> str:
    """Return the versions that each release removed: those whose last release is the one before."""
    found = []
    for last, after in pairwise(names):
        gone = [fact.version for fact in asked if last_of(fact) == last]
        if gone:
            found.append(f"{text_of(range(min(gone), max(gone) + 1))} in {after}")
    return f'"{", ".join(found)}"' if found else ""


def _place(replies: list[Fact]) -> str:
    places = {fact.throttle for fact in replies if fact.throttle}
    place = " or ".join(sorted(places))
    return "" if place in {"0", ""} else " last" if place == "last" else f" at {place}"


def _records(release: Release, request: Message) -> str:
    for kind, text in zip(KINDS, ('"requests"', '"replies"'), strict=True):
        if any(field.type == "records" for _, field in release.messages[request.key, kind].walk()):
            return text
    return ""


def _layouts(release: Release) -> Iterator[Missing]:
    """Yield the layouts that do not fit a version of the release, and those of messages that begin to name topics."""
    for (key, kind), message in release.messages.items():
        if key not in _offered:
            continue
        is_request = kind == "request"
        file = "wire/request_layouts.py" if is_request else "wire/listing_cuts.py"
        layout = layout_of if is_request else layout_of_reply
        is_listed = names_anything(key) if is_request else key in LISTED
        line = line_of(message, range(_offered[key][0], message.versions.stop))
        if line is None:
            continue
        text = f"{message.name} {line.text}"
        if is_listed:
            every = [api_at(message, version) for version in message.versions]
            wrong = [f"v{api.version}" for api in every if not line.fits(api, layout(api) or ())]
            if wrong:
                yield Missing(
                    file, text, f"{message.name} ..., which does not fit {', '.join(wrong)}"
                )
        elif is_request or not names_anything(key):
            yield Missing(file, text)


def _rights(release: Release) -> Iterator[Missing]:
    """Yield the lines of versions of which it is not known what a client must be allowed to do."""
    for request in release.requests():
        if (found := line_lacking(request)) is not None:
            yield Missing("wire/authorization.py", *found)


def api_at(message: Message, version: int) -> Api:
    """Return the facts of a version; for one that the table lacks, those of the version before it."""
    found = (apis.known(message.key, each) for each in range(version, -1, -1))
    return replace(next(api for api in found if api is not None), version=version)


def _addresses(release: Release) -> Iterator[Missing]:
    """Yield the replies that name brokers and have no rewriter."""
    for (key, kind), message in release.messages.items():
        for version in message.versions if kind == "response" and key in _offered else ():
            paths = " ".join(address_paths(message, version))
            api = replace(api_at(message, version), carries_addresses=True)
            if paths and rewriter(api) is None:
                text = f"ApiKey.{ApiKey(key).name} v{version}, in _REWRITERS or _LEADS: {paths}"
                yield Missing("wire/addresses.py", text)


def _readers(release: Release) -> Iterator[Missing]:
    """Yield the fields that a new version has and no other, of messages that are read by hand."""
    for file, names in BY_HAND.items():
        for (key, kind), message in release.messages.items():
            for version in message.versions:
                is_new = apis.known(key, version) is None and version - 1 in message.versions
                name = message.name + kind.capitalize()
                if is_new and name in names:
                    for change in differences(message, version - 1, message, version):
                        yield Missing(file, f"{name} v{version}: {change.strip()}")


def _messages(release: Release) -> Iterator[Missing]:
    """Yield the messages for clients that neither the codec library nor `wire.newer_messages` has as they are."""
    file = "wire/newer_messages.py"
    for request in release.requests():
        for version in request.versions if "broker" in request.listeners else ():
            is_known = _has_codec(request.key, version)
            if is_known and (request.key, version) in newer_messages.versions():
                yield Missing(file, f"no {request.key} {version}: the codec library has it")
            elif not is_known:
                for message in (request, release.reply_to(request)):
                    if not newer.fits(message, version):
                        yield Missing(file, newer.newer_lines(message, version))


def _has_codec(api_key: int, version: int) -> bool:
    try:
        load_request_schema(api_key, version)
    except KioIndexError:
        return False
    return True


def _choices(release: Release, request: Message) -> Iterator[Missing]:
    """Yield what a person decides about a new API."""
    name, reply = constant(request.name), release.reply_to(request)
    yield Missing("wire/apis.py", f"{request.name}: DATA or another Concern; ADMINISTRATIVE or not")
    concern = f'"{request.name}" in NOT, unless it is ADMINISTRATIVE'
    yield Missing("tests/wire/test_apis_concerns.py", concern)
    line = line_of(request, request.versions)
    if line is not None:
        yield Missing("wire/request_layouts.py", f"{request.name} {line.text}")
        yield Missing("docs/extend/requests.md", f"{request.name} in the table of the APIs")
    else:
        yield Missing("tests/wire/test_request_layouts.py", f"ApiKey.{name}, in NAMELESS")
        if (listing := line_of(reply, request.versions)) is not None:
            yield Missing("wire/listing_cuts.py", f"{request.name} {listing.text}")
            yield Missing("docs/extend/replies.md", f"{request.name} among LISTED")
            structs = {each.type for _, each in reply.walk() if any(map(names_item, each.fields))}
            names = ", ".join(f'"{each}"' for each in sorted(structs))
            yield Missing("tests/wire/test_listing_cuts.py", f"{names}, in NAMED")
    if any(True for version in request.versions for _ in address_paths(reply, version)):
        text = f"ApiKey.{name}, in _REWRITERS or _LEADS, and in LISTENER_APIS"
        yield Missing("wire/addresses.py", text)
    if (echo := echo_line(request, reply)) is not None:
        yield Missing("wire/replies.py", f"{request.name} {echo}")
    if "Heartbeat" in request.name:
        yield Missing("policies/admission.py", f"ApiKey.{name}, in NEVER_HELD")


def constant(name: str) -> str:
    """Return the name of an API as a constant: `DELETE_TOPICS`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()
