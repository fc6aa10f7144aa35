"""Recognise by content what a file is that was given as an ONNX model, so that the error can name it."""

from __future__ import annotations

import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

HEAD_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Foreign:
    """A file that is not ONNX: what it is and what to do about it."""

    what: str
    fix: str


_EXPORT_TORCH = "export it in Python: torch.onnx.export(model.eval(), example_inputs, 'model.onnx')"
_SCRIPT = " or asc_devkit.convert_module(torch.jit.load(file), example_inputs, output)"
_EXPORT_TF = "convert it first: python -m tf2onnx.convert --graphdef m.pb --inputs x:0 --outputs y:0 --output m.onnx"
_EXPORT_TFLITE = "convert it first: python -m tf2onnx.convert --tflite m.tflite --output m.onnx"
_EXPORT_SAVED = "convert it first: python -m tf2onnx.convert --saved-model FOLDER --output m.onnx"
_EXPORT_KERAS = "convert it first with tf2onnx or keras2onnx"
_DOWNLOAD = "download the file again (for Git LFS repositories: git lfs pull) and check its size and checksum"

# (offset, magic, what, fix)
_MAGIC: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"version https://git-lfs.github.com/", "a Git LFS pointer file, not the model itself", "run: git lfs pull"),
    (0, b"IMOD", "an offline model (.om), already converted", "use it directly: asc om show FILE, asc run FILE"),
    (0, b"PICO", "an offline model for PICO/SVP chips", "give the ONNX model it was made from"),
    (4, b"ORTM", "an ONNX Runtime format model (.ort)", "give the .onnx file it was made from"),
    (4, b"TFL3", "a TensorFlow Lite model", _EXPORT_TFLITE),
    (0, b"\x89HDF\r\n\x1a\n", "an HDF5 file (Keras .h5 weights or model)", _EXPORT_KERAS),
    (0, b"GGUF", "a GGUF language model", "export the original model to ONNX (optimum-cli export onnx)"),
    (0, b"\x1f\x8b", "a gzip archive", "unpack it first"),
    (0, b"BZh", "a bzip2 archive", "unpack it first"),
    (0, b"\xfd7zXZ", "an xz archive", "unpack it first"),
    (0, b"7z\xbc\xaf", "a 7z archive", "unpack it first"),
    (0, b"Rar!", "a RAR archive", "unpack it first"),
    (0, b"\x28\xb5\x2f\xfd", "a zstd archive", "unpack it first"),
    (257, b"ustar", "a tar archive", "unpack it first"),
    (0, b"\x93NUMPY", "a NumPy array", "give the .onnx model"),
    (0, b"\x7fELF", "an executable or shared library", "give the .onnx model"),
    (0, b"MZ", "a Windows executable", "give the .onnx model"),
    (0, b"\x89PNG", "a PNG picture", "give the .onnx model"),
    (0, b"\xff\xd8\xff", "a JPEG picture", "give the .onnx model"),
    (0, b"%PDF", "a PDF document", "give the .onnx model"),
    (0, b"ptrt", "a TensorRT engine", "give the .onnx model it was built from"),
    (0, b"7767517\n", "an ncnn parameter file", "give the .onnx model it was converted from"),
)
_TEXT: tuple[tuple[str, str, str], ...] = (
    (r"<!doctype html|<html|<head", "an HTML page (a login or error page instead of the file)", _DOWNLOAD),
    (r"<\?xml[\s\S]*<net\b|<net\b", "an OpenVINO .xml model", "give the .onnx model it was converted from"),
    (r"<\?xml|<error", "an XML document (often a download error)", _DOWNLOAD),
    (r"\{\s*\"", "a JSON document", "give the binary .onnx model"),
    (
        r"(name|layers?|input)\s*[:{][\s\S]*(layer|bottom|top)\s*[:{]",
        "a Caffe .prototxt",
        "convert it with --framework=0 and give the weights with --weight=FILE.caffemodel",
    ),
    (r"node\s*\{", "a TensorFlow GraphDef in text form", _EXPORT_TF),
    (r"(import|from|def|class)\s+\w+", "Python source code", _EXPORT_TORCH),
    (r"\[net\]|\[network\]", "a Darknet .cfg", "convert the network to ONNX"),
)


def foreign(head: bytes, size: int, path: Path) -> Foreign | None:
    """What the file is if its first bytes (up to ``HEAD_BYTES``) show that it is not an ONNX model; None if unclear."""
    if size == 0:
        return Foreign("an empty file", _DOWNLOAD)
    if not head.strip(b"\0"):
        return Foreign("a file of zero bytes (an interrupted download or a full disk)", _DOWNLOAD)
    for offset, magic, what, fix in _MAGIC:
        if head.startswith(magic, offset):
            return Foreign(what, fix)
    if head[:2] == b"PK":
        return _zip(path)
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        return Foreign("a Python pickle (an old PyTorch .pt/.pth, or scikit-learn)", _EXPORT_TORCH)
    if len(head) > 9 and head[8:9] == b"{" and int.from_bytes(head[:8], "little") < size:
        return Foreign("a safetensors weight file", "export the whole model to ONNX; this file holds weights only")
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return Foreign("a UTF-16 text file", "give the binary .onnx model")
    text = _as_text(head)
    if text is not None:
        for pattern, what, fix in _TEXT:
            if re.match(rf"\s*(?:{pattern})", text, re.IGNORECASE):
                return Foreign(what, fix)
        if not looks_like_onnx_text(head):
            return Foreign("a text file", "give the binary .onnx model")
    return _protobuf_of_others(head)


def looks_like_onnx_text(head: bytes) -> bool:
    """Whether the file is a model in ONNX's own text syntax or in protobuf text format."""
    text = _as_text(head)
    if text is None:
        return False
    text = re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE)
    start = r"\s*(<\s*(\w+\s*:|>)|ir_version\s*:|producer_name\s*:|(graph|opset_import)\s*\{)"
    return re.match(start, text) is not None


def is_onnx_text_syntax(head: bytes) -> bool:
    """Whether textual ONNX is in ONNX's own syntax (``<ir_version: 8, ...>``) rather than protobuf text format."""
    return head.lstrip().startswith(b"<")


def _as_text(head: bytes) -> str | None:
    cut = head[:2048]
    if any(byte < 9 or 13 < byte < 32 for byte in cut):
        return None
    text = cut.decode("utf-8", "ignore")
    return text if len(text.encode()) >= len(cut) - 3 else None


def _zip(path: Path) -> Foreign:
    try:
        with zipfile.ZipFile(path) as archive:
            names = [Path(name).name for name in archive.namelist()[:200]]
    except (OSError, zipfile.BadZipFile, NotImplementedError, ValueError, RuntimeError):
        return Foreign("a damaged zip archive", _DOWNLOAD)
    if "constants.pkl" in names:
        return Foreign("a TorchScript archive (.pt), which runs code when it is loaded", _EXPORT_TORCH + _SCRIPT)
    if "data.pkl" in names:
        return Foreign("a PyTorch checkpoint (.pt/.pth: weights without the network, as a pickle)", _EXPORT_TORCH)
    if "config.json" in names and "metadata.json" in names:
        return Foreign("a Keras .keras archive", _EXPORT_KERAS)
    if "manifest.json" in names:
        return Foreign("a zip container such as .om2 or a Core ML package", "give the ONNX model it was made from")
    if any(name.endswith(".onnx") for name in names):
        return Foreign("a zip archive with an .onnx inside", "unpack it first")
    return Foreign("a zip archive", "unpack it first")


def _protobuf_of_others(data: bytes) -> Foreign | None:
    """TensorFlow, Caffe, Paddle and MindSpore models are protobuf messages too; their first fields differ from ONNX's.

    ONNX: field 1 = integer. GraphDef: field 1 = NodeDef{1: name, 2: op}. SavedModel: 1 = integer, 2 = MetaGraphDef.
    Paddle ProgramDesc: field 1 = BlockDesc{1: integer}. Caffe NetParameter: field 1 = name. MindIR: field 1 = string.
    """
    if data[:1] != b"\x0a":
        if re.match(rb"\x08\x01\x12[\x80-\xff]{1,4}.{0,3}\x0a", data, re.DOTALL) and b"serve" in data:
            return Foreign("a TensorFlow SavedModel (saved_model.pb)", _EXPORT_SAVED)
        return None
    length, position = 0, 1
    while position < min(len(data), 10):
        byte = data[position]
        length |= (byte & 127) << (7 * (position - 1))
        position += 1
        if byte < 128:
            break
    inner = data[position : position + min(length, 400)]
    if inner[:1] == b"\x0a" and re.search(rb"\x12.[A-Z_][A-Za-z0-9_]{2,40}", inner, re.DOTALL):
        return Foreign("a TensorFlow GraphDef (.pb)", _EXPORT_TF)
    if inner[:1] == b"\x08":
        return Foreign("a Paddle program (.pdmodel)", "convert it first: paddle2onnx --model_dir DIR ...")
    if inner and all(32 <= byte < 127 for byte in inner):
        return Foreign("a protobuf model of another framework (Caffe .caffemodel or MindSpore .mindir)", "export ONNX")
    return None
