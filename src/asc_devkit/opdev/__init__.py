"""Projects for people who write operators: ``plugin`` starts one that declares a custom operator in Python."""
