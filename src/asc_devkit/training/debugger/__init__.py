"""Collecting: which calls (``apis``), of which modules (``modules``), what of their tensors (``values``), written how
(``writer``)."""
