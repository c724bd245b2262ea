"""Python code that cuts items out of a reply, made from the layout of its API and version.

- `pieces` are slices of the body, and a count for each array that may lose items. `since` is where the bytes begin that
  are not in a piece yet. An item that goes takes its pieces with it.
- An item stays if it or one of its partitions has a code of REFUSALS, whether the code comes before its name or after.
- `wire.layout_code` has the rules of such code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from wire.layout_code import LayoutCode

if TYPE_CHECKING:
    from wire.apis import Api
    from wire.request_layouts import Part

_NAMING: Final = "tigrRA"
_RESOURCES: Final = {"r": 32, "R": 32, "A": 3}
"""The number of a group among config resources, and among the resources of ACLs."""


def source(api: Api, layout: tuple[Part, ...]) -> str:
    """Return the code of a function `cut(buf, end, keeps)`. It uses `listing_cuts.TOOLS`."""
    return "\n".join(_CutsSource(api).body(layout))


class _CutsSource(LayoutCode):
    """Writes the code of one cutter, a `_Cutter`."""

    def __init__(self, api: Api) -> None:
        super().__init__("def cut(buf, end, keeps):", flexible=api.flexible)
        self._loops = 0

    def body(self, layout: tuple[Part, ...]) -> list[str]:
        """Return the lines of the function."""
        self.add("pos = since = 0", "pieces, is_cut = [], False")
        self.add("keeps_topic, keeps_group = keeps.topic, keeps.group")
        self._struct(layout)
        self.add("if pos != end: raise _bad_end(pos, end)")
        self.add("pieces.append(buf[since:end])", "return pieces, is_cut")
        return self.lines

    def _struct(self, parts: tuple[Part, ...], keep: str = "") -> None:
        """Step over the fields of a struct, and its tags. `keep`: the variable that says whether it stays."""
        kinds: list[str] = []  # of the fields so far
        for part in parts:
            if part.kind.isdigit():
                self.add(f"pos += {part.kind}")
            else:
                self._part(part, kinds, keep)
            kinds.append(part.kind)
        self.tags("pos = skip_tags(buf, pos, end)")

    def _part(self, part: Part, kinds: list[str], keep: str) -> None:
        kind = part.kind
        if kind in "{[":
            self._array(part, keep)
        elif kind == "(":
            with self.block("if buf[pos] < 128:"):
                self.add("pos += 1")
                self._struct(part.parts)
            self.add("else: pos += 1")
        elif kind == "s":
            self.skip_text()
        elif kind == "m":
            self.add("pos = _after_partitions(buf, pos, end)")
        elif kind == "c":
            self.add("code = int16_at(buf, pos)[0]", "pos += 2")
            if keep:
                self._keep_refusals([kind], keep)
        elif kind in "tg":
            self.read_text("name")
            self.add(f"{keep} = name is None or keeps_{'topic' if kind == 't' else 'group'}(name)")
            self._keep_refusals(kinds, keep)
        elif kind == "i":
            self._id(kinds, keep)
        else:
            self._resource(kind, kinds, keep)

    def _id(self, kinds: list[str], keep: str) -> None:
        if "t" in kinds:
            self.add(
                f"if name is None: {keep} = keeps.nameless(bytes(buf[pos : pos + 16]))", "pos += 16"
            )
        else:
            self.add(f"{keep} = keeps.topic_id(bytes(buf[pos : pos + 16]))", "pos += 16")
        self._keep_refusals(kinds, keep)

    def _resource(self, kind: str, kinds: list[str], keep: str) -> None:
        if kind == "R":
            self.read_text("name")
        self.add("type_ = buf[pos]", "pos += 1")
        if kind != "R":
            self.read_text("name")
        group = _RESOURCES[kind]
        self.add(f"if type_ == 2: {keep} = name is None or keeps_topic(name)")
        self.add(f"elif type_ == {group}: {keep} = name is None or keeps_group(name)")
        self._keep_refusals(kinds, keep)

    def _keep_refusals(self, kinds: list[str], keep: str) -> None:
        if "c" in kinds:
            self.add(f"if code in REFUSALS: {keep} = True")

    def _array(self, part: Part, keep: str = "") -> None:
        """Step over an array, or cut it. `keep`: the variable of the item that it is in."""
        self._loops += 1
        n = self._loops
        self.add(f"count_at{n} = pos")
        self.read_count(f"count{n}")
        width = _fixed_width(part.parts)
        if width and (
            part.kind == "[" or not self.flexible
        ):  # a loop would read nothing, and so never end early
            self.add(f"if count{n} > 0: pos += {width} * count{n}")
        elif any(each.kind in _NAMING for each in part.parts):
            self._cut_array(part, n)
        else:
            with self.block(f"for _ in range(count{n}):"):
                self._struct(part.parts, keep)

    def _cut_array(self, part: Part, n: int) -> None:
        encode = "encode_compact_count" if self.flexible else "encode_count"
        self.add(f"pieces += buf[since:count_at{n}], buf[count_at{n}:pos]", "since = pos")
        self.add(f"place{n}, left{n} = len(pieces) - 1, count{n}")
        with self.block(f"for _ in range(count{n}):"):
            self.add(f"start{n}, since{n}, pieces{n} = pos, since, len(pieces)", f"keep{n} = True")
            self._struct(part.parts, f"keep{n}")
            self.add(f"if not keep{n}:")
            self.add(f"    left{n} -= 1", f"    del pieces[pieces{n}:]")
            self.add(f"    if start{n} > since{n}: pieces.append(buf[since{n}:start{n}])")
            self.add("    since = pos")
        self.add(f"if left{n} != count{n}:")
        self.add(f"    pieces[place{n}] = {encode}(left{n})", "    is_cut = True")


def _fixed_width(parts: tuple[Part, ...]) -> int:
    """Return the bytes of these fields together; 0 if the size of one varies."""
    return sum(int(each.kind) for each in parts) if all(p.kind.isdigit() for p in parts) else 0
