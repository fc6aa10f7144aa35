"""Graph Engine vocabulary: dtypes, formats, protobuf messages, IR keys."""
