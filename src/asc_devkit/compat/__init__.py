"""Public Python interfaces of others, implemented on the virtual NPU."""
