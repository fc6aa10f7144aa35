"""Protobuf messages of Ascend model files: own .proto text, compiled by scripts/compile_protos.py."""
