"""Python code that cuts items out of a reply, made from the layout of its API and version.

- `pieces` are slices of the body, and a count for each array that may lose items. `since` is where the bytes begin that
  are not in a piece yet. An item that goes takes its pieces with it.
- The code never goes back, so one check after the last field finds all sizes that lead beyond the end, as in
  `wire.names_code`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from wire.apis import Api
    from wire.request_layouts import Part

_INDENT: Final = "    "
_NAMING: Final = "tigrRA"
_RESOURCES: Final = {"r": 32, "R": 32, "A": 3}
"""The number of a group among config resources, and among the resources of ACLs."""


def source(api: Api, layout: tuple[Part, ...]) -> str:
    """Return the code of a function `cut(buf, end, keeps)`. It uses `listing_cuts.TOOLS`."""
    return "\n".join(_Source(api).body(layout))


class _Source:
    """Writes the code of one cutter."""

    def __init__(self, api: Api) -> None:
        self._flexible = api.flexible
        self._lines: list[str] = []
        self._depth = 1
        self._loops = 0

    def body(self, layout: tuple[Part, ...]) -> list[str]:
        """Return the lines of the function, a `_Cutter`."""
        self._lines = ["def cut(buf, end, keeps):"]
        self._add("pos = since = 0", "pieces, is_cut = [], False")
        self._add("keeps_topic, keeps_group = keeps.topic, keeps.group")
        self._struct(layout)
        self._add("if pos != end: raise _bad_end(pos, end)")
        self._add("pieces.append(buf[since:end])", "return pieces, is_cut")
        return self._lines

    def _add(self, *lines: str) -> None:
        self._lines += [_INDENT * self._depth + line for line in lines]

    def _struct(self, parts: tuple[Part, ...], keep: str = "") -> None:
        """Step over the fields of a struct, and its tags. `keep`: the variable that says whether it stays."""
        kinds = [part.kind for part in parts]
        for part in parts:
            if part.kind.isdigit():
                self._add(f"pos += {part.kind}")
            else:
                self._part(part, kinds, keep)
        if self._flexible:
            self._add("if buf[pos]: pos = skip_tags(buf, pos, end)", "else: pos += 1")

    def _part(self, part: Part, kinds: list[str], keep: str) -> None:
        kind = part.kind
        if kind in "{[":
            self._array(part)
        elif kind == "(":
            self._add("if buf[pos] < 128:")
            self._depth += 1
            self._add("pos += 1")
            self._struct(part.parts)
            self._depth -= 1
            self._add("else: pos += 1")
        elif kind == "s":
            self._skip_text()
        elif kind == "m":
            self._add("pos = _after_partitions(buf, pos, end)")
        elif kind == "c":
            self._add("code = int16_at(buf, pos)[0]", "pos += 2")
        elif kind in "tg":
            self._text()
            self._add(f"{keep} = name is None or keeps_{'topic' if kind == 't' else 'group'}(name)")
            if kind == "t" and "i" not in kinds:
                self._keep_refusals(kinds, keep)
        elif kind == "i":
            self._id(kinds, keep)
        else:
            self._resource(kind, kinds, keep)

    def _id(self, kinds: list[str], keep: str) -> None:
        if "t" in kinds:
            self._add(
                f"if name is None: {keep} = keeps.nameless(bytes(buf[pos : pos + 16]))", "pos += 16"
            )
        else:
            self._add(f"{keep} = keeps.topic_id(bytes(buf[pos : pos + 16]))", "pos += 16")
        self._keep_refusals(kinds, keep)

    def _resource(self, kind: str, kinds: list[str], keep: str) -> None:
        if kind == "R":
            self._text()
        self._add("type_ = buf[pos]", "pos += 1")
        if kind != "R":
            self._text()
        group = _RESOURCES[kind]
        self._add(f"if type_ == 2: {keep} = name is None or keeps_topic(name)")
        self._add(f"elif type_ == {group}: {keep} = name is None or keeps_group(name)")
        self._keep_refusals(kinds, keep)

    def _keep_refusals(self, kinds: list[str], keep: str) -> None:
        if "c" in kinds:
            self._add(f"if code in REFUSALS: {keep} = True")

    def _text(self) -> None:
        """Read a string into `name`; None if it is null."""
        if self._flexible:
            self._add("size = buf[pos]", "pos += 1")
            self._add("if size > 127: size, pos = uvarint(buf, pos - 1, end)")
            self._add("size -= 1")
        else:
            self._add("size = int16_at(buf, pos)[0]", "pos += 2")
            self._add("if size < -1: raise _bad_size(size)")
        self._add("if size >= 0:")
        self._add("    name = buf[pos : pos + size].decode()", "    pos += size")
        self._add("else: name = None")

    def _skip_text(self) -> None:
        if self._flexible:
            self._add("size = buf[pos]")
            self._add("if size < 128: pos += size or 1")
            self._add("else: pos = skip_compact(buf, pos, end)")
        else:
            self._add("pos = skip_string(buf, pos, end)")

    def _array(self, part: Part) -> None:
        self._loops += 1
        n = self._loops
        self._add(f"count_at{n} = pos")
        if self._flexible:
            self._add(f"count{n} = buf[pos] - 1", "pos += 1")
            self._add(f"if count{n} > 126: count{n}, pos = compact_count(buf, pos - 1, end)")
        else:
            self._add(f"count{n} = int32_at(buf, pos)[0]", "pos += 4")
            self._add(f"if count{n} < -1: raise _bad_size(count{n})")
        width = _fixed_width(part.parts)
        if width and (
            part.kind == "[" or not self._flexible
        ):  # a loop would read nothing, and so never end early
            self._add(f"if count{n} > 0: pos += {width} * count{n}")
        elif any(each.kind in _NAMING for each in part.parts):
            self._cut_array(part, n)
        else:
            self._add(f"for _ in range(count{n}):")
            self._depth += 1
            self._struct(part.parts)
            self._depth -= 1

    def _cut_array(self, part: Part, n: int) -> None:
        encode = "encode_compact_count" if self._flexible else "encode_count"
        self._add(f"pieces += buf[since:count_at{n}], buf[count_at{n}:pos]", "since = pos")
        self._add(f"place{n}, left{n} = len(pieces) - 1, count{n}")
        self._add(f"for _ in range(count{n}):")
        self._depth += 1
        self._add(f"start{n}, since{n}, pieces{n} = pos, since, len(pieces)", f"keep{n} = True")
        self._struct(part.parts, f"keep{n}")
        self._add(f"if not keep{n}:")
        self._add(f"    left{n} -= 1", f"    del pieces[pieces{n}:]")
        self._add(f"    if start{n} > since{n}: pieces.append(buf[since{n}:start{n}])")
        self._add("    since = pos")
        self._depth -= 1
        self._add(f"if left{n} != count{n}:")
        self._add(f"    pieces[place{n}] = {encode}(left{n})", "    is_cut = True")


def _fixed_width(parts: tuple[Part, ...]) -> int:
    """Return the bytes of these fields together; 0 if the size of one varies."""
    return sum(int(each.kind) for each in parts) if all(p.kind.isdigit() for p in parts) else 0
