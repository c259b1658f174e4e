"""Calling models, and reading what they answer."""
