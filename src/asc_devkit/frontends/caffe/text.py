"""Reader of protobuf text format (prototxt) into generic messages; knows no field of Caffe. Called by ``network``.

A ``Message`` remembers which of its fields were asked for, so that a caller can tell the user of fields nobody understood.
Syntax: the Protocol Buffers text format specification (comments, nested messages in {} or <>, lists, adjacent strings).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Final, Union

MAX_BYTES: Final = 64 << 20
MAX_DEPTH: Final = 50
MAX_FIELDS: Final = 1_000_000

_TOKEN: Final = re.compile(
    r"""(?P<space>(?:\s+|\#[^\n]*)+)
      | (?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
      | (?P<number>[-+]?(?:0[xX][0-9a-fA-F]+|(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?))(?![\w.])
      | (?P<word>-?[A-Za-z_][\w./]*)
      | (?P<mark>[][{}<>:,;])""",
    re.VERBOSE,
)
_ESCAPES: Final = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "\\": "\\",
    "'": "'",
    '"': '"',
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
}
_TRUE: Final = frozenset({"true", "True", "t", "1"})
_FALSE: Final = frozenset({"false", "False", "f", "0"})


class TextError(Exception):
    """The text breaks the syntax or a field has the wrong kind of value; ``line`` counts from 1."""

    def __init__(self, what: str, line: int) -> None:
        self.what, self.line = what, line
        super().__init__(f"line {line}: {what}")


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value as written: ``kind`` is ``string``, ``number`` or ``word``."""

    kind: str
    text: str
    line: int


Value = Union[Scalar, "Message"]


@dataclass
class Message:
    """Fields by name in the order written. Getters return the default when a field is absent, the last one when repeated."""

    line: int = 1
    fields: dict[str, list[Value]] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)

    def __contains__(self, name: str) -> bool:
        self.asked.add(name)
        return name in self.fields

    def unread(self) -> list[str]:
        """Names of fields that nobody asked for."""
        return [name for name in self.fields if name not in self.asked]

    def messages(self, name: str) -> list[Message]:
        """All nested messages called ``name``."""
        self.asked.add(name)
        found = self.fields.get(name, [])
        for value in found:
            if not isinstance(value, Message):
                raise TextError(f"{name} must be a message in braces, not {value.text!r}", value.line)
        return [value for value in found if isinstance(value, Message)]

    def message(self, name: str) -> Message:
        """The nested message called ``name``, an empty one when absent; several are merged, as protobuf does."""
        found = self.messages(name)
        if len(found) == 1:
            return found[0]
        merged = Message(self.line)
        for part in found:
            for key, values in part.fields.items():
                merged.fields.setdefault(key, []).extend(values)
        if found:
            self.fields[name] = [merged]
        return merged

    def texts(self, name: str) -> list[str]:
        """All strings called ``name``."""
        return [self._scalar(name, value, ("string",)).text for value in self._values(name)]

    def text(self, name: str, default: str = "") -> str:
        """The string called ``name``."""
        found = self.texts(name)
        return found[-1] if found else default

    def integers(self, name: str) -> list[int]:
        """All integers called ``name``; each within 64 bits."""
        return [self._integer(name, value) for value in self._values(name)]

    def integer(self, name: str, default: int = 0) -> int:
        """The integer called ``name``."""
        found = self.integers(name)
        return found[-1] if found else default

    def numbers(self, name: str) -> list[float]:
        """All numbers called ``name``."""
        return [self._number(name, value) for value in self._values(name)]

    def number(self, name: str, default: float = 0.0) -> float:
        """The number called ``name``."""
        found = self.numbers(name)
        return found[-1] if found else default

    def flag(self, name: str, default: bool = False) -> bool:
        """The truth value called ``name``."""
        values = self._values(name)
        if not values:
            return default
        scalar = self._scalar(name, values[-1], ("word", "number"))
        if scalar.text not in _TRUE | _FALSE:
            raise TextError(f"{name} must be true or false, not {scalar.text!r}", scalar.line)
        return scalar.text in _TRUE

    def enum(self, name: str, known: tuple[str, ...], default: str, numbers: tuple[int, ...] = ()) -> str:
        """The enum value called ``name``: a name of ``known``, or its number (0, 1, ... unless ``numbers`` says otherwise)."""
        values = self._values(name)
        if not values:
            return default
        scalar = self._scalar(name, values[-1], ("word", "number"))
        if scalar.kind == "number":
            by_number = dict(zip(numbers or range(len(known)), known, strict=True))
            found = by_number.get(self._integer(name, scalar), "")
        else:
            found = scalar.text if scalar.text in known else ""
        if not found:
            raise TextError(f"{name} must be one of {', '.join(known)}, not {scalar.text!r}", scalar.line)
        return found

    def _values(self, name: str) -> list[Value]:
        self.asked.add(name)
        return self.fields.get(name, [])

    @staticmethod
    def _scalar(name: str, value: Value, kinds: tuple[str, ...]) -> Scalar:
        if isinstance(value, Message):
            raise TextError(f"{name} must be a value, not a message in braces", value.line)
        if value.kind not in kinds:
            raise TextError(
                f"{name} must be a {' or '.join(kinds)}, not the {value.kind} {value.text[:60]!r}", value.line
            )
        return value

    def _integer(self, name: str, value: Value) -> int:
        scalar = self._scalar(name, value, ("number",))
        try:
            number = int(scalar.text, 0) if "x" in scalar.text.lower() else int(scalar.text)
        except ValueError:
            raise TextError(f"{name} must be a whole number, not {scalar.text!r}", scalar.line) from None
        if not -(2**63) <= number < 2**63:
            raise TextError(f"{name} is out of range: {scalar.text}", scalar.line)
        return number

    def _number(self, name: str, value: Value) -> float:
        scalar = self._scalar(name, value, ("number", "word"))
        if scalar.kind == "word" and scalar.text.lower().lstrip("-") not in ("inf", "infinity", "nan"):
            raise TextError(f"{name} must be a number, not {scalar.text!r}", scalar.line)
        text = (
            scalar.text
            if "x" in scalar.text.lower()
            else scalar.text.rstrip("fF")
            if scalar.kind == "number"
            else scalar.text
        )
        number = float(int(text, 16)) if "x" in text.lower() and scalar.kind == "number" else float(text)
        if math.isnan(number):
            raise TextError(f"{name} is not a number", scalar.line)
        return number


def parse(text: str) -> Message:
    """Parse a whole file. Raises ``TextError`` for anything that is not well-formed or too large."""
    if len(text) > MAX_BYTES:
        raise TextError(f"the file is larger than {MAX_BYTES >> 20} MiB", 1)
    return _Parser(text).file()


class _Parser:
    def __init__(self, text: str) -> None:
        self.source, self.position, self.line, self.count = text, 0, 1, 0
        self.kind, self.token = "", ""
        self.advance()

    def advance(self) -> None:
        """Read the next token; ``kind`` is "end" behind the last one."""
        while True:
            if self.position >= len(self.source):
                self.kind, self.token = "end", ""
                return
            match = _TOKEN.match(self.source, self.position)
            if match is None:
                shown = self.source[self.position : self.position + 20].split("\n")[0]
                raise TextError(f"unexpected characters {shown!r}", self.line)
            self.position = match.end()
            if match.lastgroup != "space":
                self.kind, self.token = match.lastgroup or "", match.group()
                return
            self.line += match.group().count("\n")

    def file(self) -> Message:
        message = Message(1)
        self.fields(message, "", 0)
        return message

    def fields(self, message: Message, close: str, depth: int) -> None:
        """Everything up to ``close`` (the end of the file when empty)."""
        if depth > MAX_DEPTH:
            raise TextError(f"messages are nested more than {MAX_DEPTH} deep", self.line)
        while True:
            if self.kind == "end" or (self.kind == "mark" and self.token in "}>"):
                if self.token != close:
                    what = "the file ends inside a message" if self.kind == "end" else f"unexpected {self.token!r}"
                    raise TextError(what, self.line)
                if close:
                    self.advance()
                return
            if self.kind == "mark" and self.token in ",;":
                self.advance()
                continue
            if self.kind != "word" or self.token.startswith("-"):
                raise TextError(f"a field name is expected, not {self.token[:40]!r}", self.line)
            name = self.token
            self.advance()
            self.field(message, name, depth)

    def field(self, message: Message, name: str, depth: int) -> None:
        colon = self.kind == "mark" and self.token == ":"
        if colon:
            self.advance()
        values = message.fields.setdefault(name, [])
        if self.kind == "mark" and self.token == "[":
            self.advance()
            while not (self.kind == "mark" and self.token == "]"):
                values.append(self.value(name, True, depth))
                if self.kind == "mark" and self.token == ",":
                    self.advance()
                elif not (self.kind == "mark" and self.token == "]"):
                    raise TextError(f"a comma or ] is expected in the list of {name}", self.line)
            self.advance()
            return
        values.append(self.value(name, colon, depth))

    def value(self, name: str, colon: bool, depth: int) -> Value:
        self.count += 1
        if self.count > MAX_FIELDS:
            raise TextError(f"the file has more than {MAX_FIELDS} fields", self.line)
        if self.kind == "mark" and self.token in "{<":
            close = "}" if self.token == "{" else ">"
            inner = Message(self.line)
            self.advance()
            self.fields(inner, close, depth + 1)
            return inner
        if not colon:
            raise TextError(f"a colon or an opening brace is expected after {name}", self.line)
        kind, line = self.kind, self.line
        if kind == "string":
            pieces = []
            while self.kind == "string":
                pieces.append(_unescape(self.token[1:-1]))
                self.advance()
            return Scalar("string", "".join(pieces), line)
        if kind not in ("number", "word"):
            raise TextError(f"{name} has no value", line)
        scalar = Scalar(kind, self.token, line)
        self.advance()
        return scalar


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return re.sub(r"\\([0-7]{1,3}|x[0-9a-fA-F]{1,2}|.)", _escape, text, flags=re.DOTALL)


def _escape(match: re.Match[str]) -> str:
    code = match.group(1)
    if code[0] in "01234567":
        return chr(int(code, 8) & 0xFF)
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    return _ESCAPES.get(code, code)
