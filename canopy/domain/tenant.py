"""Tenants: whose rows these are."""

from typing import Final

FLEET: Final = "fleet"
"""The tenant whose policies and catalogs every tenant falls back to."""
