"""Self-contained HTML pages: one shell and one look for every report."""

import html
from collections.abc import Iterable, Sequence
from typing import Any, Final

SVG_SETTINGS: Final[dict[Any, str]] = {"svg.hashsalt": "canopy", "svg.fonttype": "none"}
"""Settings of matplotlib by which the same figure gives the same bytes."""

SVG_METADATA: Final = {"Date": None, "Creator": None}
"""What a figure says of its making: nothing, for the same reason."""

_STYLE: Final = """
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 62rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #ddd;
  font-variant-numeric: tabular-nums; }
tr.refused td { color: #777; background: #faf6f4; }
figure { margin: 1rem 0; } figcaption { color: #555; font-size: .85rem; }
svg { max-width: 100%; height: auto; }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """A whole HTML document that loads nothing from elsewhere.

    Args:
        title: Its title and first heading, as plain text.
        parts: Its HTML, in order.
    """
    heading = html.escape(title)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{heading}</title><style>{_STYLE}</style></head><body><h1>{heading}</h1>"
        + "".join(parts)
        + "</body></html>\n"
    )


def captioned(svg: str, caption: str) -> str:
    """A drawing with its caption.

    Args:
        svg: The drawing as an SVG file has it.
        caption: What it shows, as plain text.
    """
    return (
        f"<figure>{svg[svg.index('<svg') :]}<figcaption>{html.escape(caption)}</figcaption>"
        "</figure>"
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of plain texts.

    Args:
        columns: Its headings.
        rows: Its cells.
    """
    head = "".join(f"<th>{html.escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def paragraph(text: str) -> str:
    """A paragraph of plain text."""
    return f"<p>{html.escape(text)}</p>"


def bullets(items: Iterable[str]) -> str:
    """A list of plain texts; nothing where it is empty."""
    rows = "".join(f"<li>{html.escape(item)}</li>" for item in items)
    return f"<ul>{rows}</ul>" if rows else ""
