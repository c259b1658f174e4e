"""The HTTP process: bytes in, bytes out; every rule lives in the modules it calls."""
