"""One module per family of operators; ``registry`` imports them all on first use."""
