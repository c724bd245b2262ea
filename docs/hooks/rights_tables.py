"""Tables of the rights that requests need, from `wire/authorization.py`."""

from __future__ import annotations

from wire.apis import OFFERED, find, name_of
from wire.authorization import ACTS, AUTHORIZED, RESOURCE_APIS, ResourceType, Scope, checks_of

WORDS = {
    ResourceType.TOPIC: "topic",
    ResourceType.GROUP: "group",
    ResourceType.TRANSACTIONAL_ID: "transaction",
}
SCOPES = {Scope.ITEM: "", Scope.REQUEST: " all", Scope.ALL_OR_NOTHING: ", the rest 55"}


def acts_table() -> str:
    """Return the acts on the cluster, each with the APIs that need it."""
    needed: dict[str, list[str]] = {act: [] for act in ACTS}
    for key in sorted(AUTHORIZED & OFFERED.keys(), key=name_of):
        for act in {act for _, acts in rights_of(key) for act in acts if act in needed}:
            needed[act].append(name_of(key))
    rows = [f"| `{act}` | {', '.join(needed[act])} |" for act in ACTS]
    return "\n".join(["| act | requests |", "|---|---|", *rows])


def rights_table() -> str:
    """Return the rights that the requests of each API need, in the order in which they are judged."""
    rows = []
    for key in sorted(RESOURCE_APIS & OFFERED.keys(), key=name_of):
        words = dict.fromkeys(text for text, _ in rights_of(key))
        rows.append(f"| {name_of(key)} | {'<br>'.join(words)} |")
    return "\n".join(["| request | rights, and the code of their refusal |", "|---|---|", *rows])


def rights_of(api_key: int) -> list[tuple[str, tuple[str, ...]]]:
    """Return the rights of all versions in words, each with the act that it is about."""
    found: dict[tuple[str, tuple[str, ...]], list[int]] = {}
    lowest, highest = OFFERED[api_key]
    known = []
    for version in range(lowest, highest + 1):
        api = find(api_key, version)
        try:
            checks = checks_of(api) if api is not None else ()
        except LookupError:
            continue
        known.append(version)
        for check in checks:
            if check.act == "replicate":
                what = "as a broker, which no client may"
            elif check.act:
                what = f"`{check.act}`"
            else:
                what = f"{WORDS[check.kind]} `{check.operation.name.lower().replace('_', '-')}`"
            text = f"{what}: {int(check.code)}{SCOPES[check.scope]}"
            found.setdefault((text, (check.act,) if check.act else ()), []).append(version)
    return [
        (text if versions == known else f"v{versions[0]}-{versions[-1]}: {text}", acts)
        for (text, acts), versions in found.items()
    ]
