"""`asc serve`: converted models behind HTTP in the KServe v2 protocol, to integrate before hardware arrives.

``docs/serve.md``. Everything a client sends is hostile: sizes, times and counts are bounded before work begins.
"""
