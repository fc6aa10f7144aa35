"""Seeded damage to model files: to the bytes, to the protobuf wire form, and to the meaning of ONNX messages.

``mutant(data, kind, rng)`` returns the damaged bytes and a sentence saying what was done. Same rng state, same mutant.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence
from typing import Any

import onnx
from google.protobuf.message import DecodeError

VALUES = (0, 1, 2, 3, 7, 127, 128, 255, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1)
DIMS = (0, 1, -1, 2, 3, 5, 7, 1024, 2**31 - 1, 2**31, 2**40, 2**62, -(2**63))
TEXTS = ("", "x", "\0", "a/b", "../../etc/passwd", "ü" * 3, "\n", "%s%n", "n" * 5000)


def mutant(data: bytes, kind: str, rng: random.Random) -> tuple[bytes, str]:
    """Damage a file of ``kind`` ("onnx" or "om") in one to three ways."""
    ways = _ONNX if kind == "onnx" else _OM
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        way = rng.choices([w for w, _ in ways], [weight for _, weight in ways])[0]
        try:
            data, what = way(data, rng)
        except (ValueError, IndexError, struct.error, TypeError, DecodeError):
            data, what = flip_bits(data, rng)  # an earlier damage left nothing that this way can work on
        done.append(what)
    return data, "; ".join(done)


# --- bytes ----------------------------------------------------------------------------------------------------------


def flip_bits(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    out = bytearray(data or b"\0")
    places = [rng.randrange(len(out)) for _ in range(rng.choice((1, 2, 8, 64)))]
    for place in places:
        out[place] ^= 1 << rng.randrange(8)
    return bytes(out), f"flipped bits at {places[:4]}"


def flip_bits_early(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """The first kilobyte holds headers and the outer structure."""
    head, what = flip_bits(data[:1024], rng)
    return head + data[1024:], what


def truncate(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    size = rng.choice((rng.randrange(len(data) + 1), len(data) - rng.randrange(min(len(data), 64) + 1)))
    return data[:size], f"cut to {size} bytes"


def splice(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    start, place = rng.randrange(len(data)), rng.randrange(len(data))
    length = rng.choice((1, 4, 16, 300))
    piece = rng.choice((data[start : start + length], rng.randbytes(length), b"\0" * length, b"\xff" * length))
    cut = rng.choice((0, length))
    return data[:place] + piece + data[place + cut :], f"put {len(piece)} bytes at {place}, replacing {cut}"


def number(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Overwrite an aligned little-endian number."""
    width = rng.choice((4, 8))
    place = rng.randrange(max(1, min(len(data), 2048) - width)) // 4 * 4
    value = rng.choice(VALUES) & (2 ** (8 * width) - 1)
    return data[:place] + value.to_bytes(width, "little") + data[place + width :], f"wrote {value} at {place}"


# --- protobuf wire form ---------------------------------------------------------------------------------------------


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
        shift += 7
    raise ValueError("varint too long")


def write_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def fields(data: bytes) -> list[tuple[int, int, int, int]]:
    """(tag, start, payload start, end) of a message's fields. Raises ``ValueError``/``IndexError`` if it is none."""
    found, position = [], 0
    while position < len(data):
        start = position
        tag, position = read_varint(data, position)
        wire = tag & 7
        if wire == 0:
            body = position
            _, position = read_varint(data, position)
        elif wire == 2:
            length, position = read_varint(data, position)
            body, position = position, position + length
        elif wire in (1, 5):
            body, position = position, position + (8 if wire == 1 else 4)
        else:
            raise ValueError("not a message")
        if position > len(data) or not tag >> 3:
            raise ValueError("not a message")
        found.append((tag, start, body, position))
    return found


def wire(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Descend at random into nested messages and damage one field there."""
    parts = fields(data)
    tag, start, body, end = rng.choice(parts)
    if tag & 7 == 2 and end - body > 1 and rng.random() < 0.8:
        try:
            inner, what = wire(data[body:end], rng)
        except (ValueError, IndexError):
            pass  # a text or a packed list, not a message
        else:
            return data[:start] + write_varint(tag) + write_varint(len(inner)) + inner + data[
                end:
            ], f"{tag >> 3}.{what}"
    action = rng.choice(("drop", "double", "number", "renumber", "retype", "length", "value", "value", "move"))
    piece = data[start:end]
    if action == "drop":
        piece = b""
    elif action == "double":
        piece = piece * rng.choice((2, 3, 50))
    elif action == "renumber":
        piece = write_varint(rng.randrange(1, 40) << 3 | tag & 7) + data[start:end][len(write_varint(tag)) :]
    elif action == "retype":
        piece = write_varint(tag & ~7 | rng.randrange(8)) + data[start:end][len(write_varint(tag)) :]
    elif action == "length" and tag & 7 == 2:
        piece = write_varint(tag) + write_varint(rng.choice(VALUES)) + data[body:end]
    elif action == "move":
        other = rng.choice(parts)
        return data[:start] + data[end:] + data[other[1] : other[3]], f"{tag >> 3}: field moved"
    elif tag & 7 == 0:
        piece = write_varint(tag) + write_varint(rng.choice(VALUES))
    elif tag & 7 == 2:
        content = rng.choice((b"", rng.randbytes(end - body), data[body:end] + b"\0", data[body : (body + end) // 2]))
        piece = write_varint(tag) + write_varint(len(content)) + content
    else:
        piece = write_varint(tag) + rng.choice((b"\0", b"\xff", b"\x7f")) * (end - body)
    return data[:start] + piece + data[end:], f"{tag >> 3}: {action}"


# --- meaning of ONNX ------------------------------------------------------------------------------------------------


def onnx_meaning(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Parse, change one thing that stays well-formed protobuf, write again."""
    model = onnx.ModelProto()
    model.ParseFromString(data)
    graph = rng.choice(_graphs(model.graph))
    for _ in range(20):
        what = rng.choice(_MEANINGS)(model, graph, rng)
        if what:
            return bytes(model.SerializeToString()), what
    raise ValueError("nothing to change")


def _graphs(graph: onnx.GraphProto) -> list[onnx.GraphProto]:
    found = [graph]
    for node in graph.node:
        for item in node.attribute:
            if item.HasField("g"):
                found += _graphs(item.g)
    return found


def _pick(items: Sequence[Any], rng: random.Random) -> Any:
    return items[rng.randrange(len(items))] if len(items) else None


def _dims(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> str:
    tensor = _pick(graph.initializer, rng)
    if tensor is None or not tensor.dims:
        return ""
    index, value = rng.randrange(len(tensor.dims)), rng.choice(DIMS)
    if rng.random() < 0.3:
        tensor.dims.append(value)
    else:
        tensor.dims[index] = value
    return f"dims of {tensor.name[:40]}: {list(tensor.dims)[:6]}"


def _permute(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> str:
    tensor = _pick(graph.initializer, rng)
    if tensor is None or len(tensor.dims) < 2:
        return ""
    dims = list(tensor.dims)
    rng.shuffle(dims)
    tensor.dims[:] = dims
    return f"dims of {tensor.name[:40]} shuffled"


def _data_type(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> str:
    tensor = _pick(graph.initializer, rng)
    if tensor is None:
        return ""
    tensor.data_type = rng.choice((0, 1, 2, 6, 7, 8, 9, 10, 11, 16, 17, 22, 99, -1))
    return f"type of {tensor.name[:40]}: {tensor.data_type}"


def _small_constant(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> str:
    """Shapes, axes, pads, indices: the integers that operators compute with."""
    nodes = [a.t for n in graph.node if n.op_type == "Constant" for a in n.attribute if a.HasField("t")]
    tensors = [t for t in [*graph.initializer, *nodes] if t.data_type == 7 and 0 < len(t.raw_data) <= 256]
    tensor = _pick(tensors, rng)
    if tensor is None:
        return ""
    raw, place = bytearray(tensor.raw_data), rng.randrange(len(tensor.raw_data) // 8) * 8
    value = rng.choice(DIMS)
    raw[place : place + 8] = struct.pack("<q", value)
    tensor.raw_data = bytes(raw)
    return f"element {place // 8} of {tensor.name[:40]}: {value}"


def _external(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> str:
    tensor = _pick(graph.initializer, rng)
    if tensor is None:
        return ""
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key in ("location", "offset", "length"):
        tensor.external_data.add(key=key, value=rng.choice((*TEXTS, "m.onnx", "0", "-1", str(2**63))))
    return f"{tensor.name[:40]} made external"


def _attribute(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> str:
    node = _pick([n for n in graph.node if n.attribute], rng)
    if node is None:
        return ""
    item = _pick(node.attribute, rng)
    action = rng.choice(("type", "name", "drop", "number", "ints", "length", "text", "float"))
    if action == "type":
        item.type = rng.randrange(16)
    elif action == "name":
        item.name = rng.choice((*TEXTS, "axis", "axes", "pads"))
    elif action == "drop":
        node.attribute.remove(item)
    elif action == "number":
        item.i = rng.choice((*DIMS, item.i + 1, -item.i))
    elif action == "ints" and item.ints:
        item.ints[rng.randrange(len(item.ints))] = rng.choice(DIMS)
    elif action == "length" and item.ints:
        item.ints.append(rng.choice(DIMS)) if rng.random() < 0.5 else item.ints.pop()
    elif action == "text":
        item.s = rng.choice(TEXTS).encode()
    else:
        item.f = rng.choice((0.0, -1.0, 1e38, float("inf"), float("nan")))
    return f"{node.op_type} {node.name[:40]}: attribute {item.name[:20]!r} {action}"


def _operator(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> str:
    node, other = _pick(graph.node, rng), _pick(graph.node, rng)
    if node is None:
        return ""
    node.op_type = rng.choice((other.op_type, other.op_type, "Loop", "If", "Reshape", "Gelu", "Nothing", ""))
    return f"{node.name[:40]} is now {node.op_type}"


def _domain(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> str:
    node = _pick(graph.node, rng)
    if node is None:
        return ""
    node.domain = rng.choice(("com.microsoft", "ai.onnx", "ai.onnx.ml", "ge", *TEXTS))
    return f"{node.name[:40]} in domain {node.domain[:20]!r}"


def _wiring(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> str:
    node, other = _pick(graph.node, rng), _pick(graph.node, rng)
    if node is None or not node.input:
        return ""
    index = rng.randrange(len(node.input))
    source = rng.choice((*other.input, *other.output, *[i.name for i in graph.input], *TEXTS))
    node.input[index] = source
    return f"input {index} of {node.name[:40]} is {source[:40]!r}"


def _arity(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> str:
    node = _pick(graph.node, rng)
    if node is None:
        return ""
    names = rng.choice((node.input, node.output))
    if names and rng.random() < 0.5:
        names.pop()
    else:
        names.append(rng.choice(("extra", *node.input, *node.output, "")))
    return f"{node.name[:40]} has {len(node.input)} inputs and {len(node.output)} outputs"


def _nodes(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> str:
    if not graph.node:
        return ""
    index = rng.randrange(len(graph.node))
    if rng.random() < 0.4:
        del graph.node[index]
        return f"node {index} removed"
    if rng.random() < 0.5:
        graph.node.append(graph.node[index])
        return f"node {index} doubled"
    order = list(graph.node)
    rng.shuffle(order)
    del graph.node[:]
    graph.node.extend(order)
    return "nodes shuffled"


def _interface(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> str:
    infos = rng.choice((graph.input, graph.output))
    info = _pick(infos, rng)
    if info is None:
        return ""
    action = rng.choice(("drop", "double", "name", "type", "dim", "rank", "sequence"))
    if action == "drop":
        infos.remove(info)
    elif action == "double":
        infos.append(info)
    elif action == "name":
        info.name = rng.choice(TEXTS)
    elif action == "type":
        info.type.tensor_type.elem_type = rng.randrange(28)
    elif action == "dim" and info.type.tensor_type.shape.dim:
        _pick(info.type.tensor_type.shape.dim, rng).dim_value = rng.choice(DIMS)
    elif action == "rank":
        info.type.tensor_type.shape.dim.add(dim_value=rng.choice(DIMS))
    else:
        info.type.sequence_type.elem_type.tensor_type.elem_type = 1
    return f"interface {info.name[:40]!r}: {action}"


def _versions(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> str:
    action = rng.choice(("ir", "opset", "none", "twice"))
    if action == "ir":
        model.ir_version = rng.choice((*range(-1, 20), 2**62))
    elif action == "none":
        del model.opset_import[:]
    elif action == "twice":
        model.opset_import.add(domain=rng.choice(("", "ai.onnx", "x")), version=rng.randrange(30))
    elif model.opset_import:
        model.opset_import[0].version = rng.choice((*range(-1, 31), 2**62))
    return f"versions: {action}"


def _names(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> str:
    a, b = _pick([*graph.initializer, *graph.node, *graph.input], rng), _pick([*graph.initializer, *graph.node], rng)
    if a is None or b is None:
        return ""
    a.name, b.name = rng.choice(((b.name, a.name), (b.name, b.name), (rng.choice(TEXTS), b.name)))
    return f"names {a.name[:40]!r} and {b.name[:40]!r} exchanged"


_MEANINGS: tuple[Callable[[onnx.ModelProto, onnx.GraphProto, random.Random], str], ...] = (
    _dims, _permute, _data_type, _small_constant, _small_constant, _external, _attribute, _attribute, _attribute,
    _operator, _domain, _wiring, _wiring, _arity, _nodes, _interface, _interface, _versions, _names,
)  # fmt: skip


# --- OM files -------------------------------------------------------------------------------------------------------


def om_message(data: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Damage one partition's protobuf and keep header and table consistent (layout: header 256 bytes, then table)."""
    count = struct.unpack_from("<I", data, 256)[0]
    if not 0 < count < 20:
        raise ValueError("no partition table")
    entries = [struct.unpack_from("<IIQQ", data, 264 + 24 * i) for i in range(count)]
    base = 264 + 24 * count
    index = rng.choice([i for i, e in enumerate(entries) if e[0] in (0, 2)])
    kind, _, offset, size = entries[index]
    inner, what = wire(data[base + offset : base + offset + size], rng)
    grown = len(inner) - size
    table = b""
    for i, (k, p, o, s) in enumerate(entries):
        moved = o + grown if o > offset else o
        table += struct.pack("<IIQQ", k, p, moved, len(inner) if i == index else s)
    body = data[base : base + offset] + inner + data[base + offset + size :]
    header = bytearray(data[:256])
    struct.pack_into("<Q", header, 184, len(data) - 256 + grown)
    return bytes(header) + data[256:264] + table + body, f"partition {kind}: {what}"


_ONNX = (
    (onnx_meaning, 20),
    (wire, 6),
    (flip_bits, 2),
    (flip_bits_early, 2),
    (truncate, 1),
    (splice, 2),
)
_OM = (
    (om_message, 10),
    (number, 4),
    (flip_bits, 2),
    (flip_bits_early, 4),
    (truncate, 2),
    (splice, 2),
)
