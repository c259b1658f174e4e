"""A producer has a consumer: every column of every table is used by code that runs."""

import re
from pathlib import Path

import pytest
from sqlalchemy import Column, MetaData, Table, Text

from canopy.storage import tables

ROOT = Path(__file__).parents[2]
PACKAGES = ("canopy", "policy", "training", "eval", "runtime")

pytestmark = pytest.mark.guard


def code():
    """Source that could read a column: everything but the schema itself."""
    return "\n".join(
        path.read_text(encoding="utf-8")
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.name != "tables.py" and "migrations" not in path.parts
    )


def unread(metadata, source):
    """Columns that stand in fewer than two places: written perhaps, but never read."""
    return sorted(
        f"{table.name}.{column.name}"
        for table in metadata.tables.values()
        for column in table.columns
        if len(re.findall(rf"\b{re.escape(column.name)}\b", source)) < 2
    )


def test_every_column_is_read_somewhere():
    assert unread(tables.metadata, code()) == []


def test_the_guard_fires_on_a_column_nobody_reads():
    metadata = MetaData()
    Table("decisions", metadata, Column("plan", Text), Column("nobody_reads_me", Text))
    assert unread(metadata, code()) == ["decisions.nobody_reads_me"]
