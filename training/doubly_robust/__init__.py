"""Doubly robust policy gradient: climb the estimate itself."""
