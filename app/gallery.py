"""A page of figures: one HTML file with relative paths to the pictures, no script, nothing from elsewhere."""

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STYLE = """
body { font: 16px/1.5 Georgia, 'Times New Roman', serif; max-width: 76rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }
h1, h2 { font-weight: normal } h2 { border-bottom: 1px solid #ccc; margin-top: 3rem }
.figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(34rem, 100%), 1fr)); gap: 2rem }
figure { margin: 0 } img { width: 100%; height: auto } figcaption { font-size: 0.85rem; color: #444 } figcaption b { color: #111 }
nav a, figcaption a { color: #0072B2 } table { border-collapse: collapse; font-size: 0.9rem } td, th { padding: 0.2rem 0.8rem; text-align: left }
thead, tbody { border-bottom: 1px solid #222 } thead { border-top: 1px solid #222 }
"""  # noqa: E501


def page(title: str, tables: Sequence[Any], sections: Sequence[str]) -> str:
    """The page: a title, tables, then sections as `section` makes them."""
    body = "\n".join([f"<h1>{html.escape(title)}</h1>", *map(table_html, tables), *sections])
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    return f'<!doctype html>\n<html lang="en">\n<head>{head}<style>{STYLE}</style></head>\n<body>\n{body}\n</body>\n</html>\n'


def section(name: str, drawn: Sequence[Any], out: Path) -> str:
    """The figures of one model: title, caption, links to the files beside the picture.

    Args:
        name: heading.   drawn: as `analysis.figures.draw` returns them; those without files are left out.
        out: folder of the page, to which paths are relative.
    """
    cells = [_cell(figure, out) for figure in drawn if any(path.suffix in (".png", ".gif") for path in figure.paths)]
    return f'<h2>{html.escape(name)}</h2>\n<div class="figures">\n' + "\n".join(cells) + "\n</div>"


def _cell(figure: Any, out: Path) -> str:
    files = {path.suffix: path.relative_to(out).as_posix() for path in figure.paths}
    picture = files.get(".png") or files[".gif"]
    rest = figure.caption.removeprefix(figure.title).strip()
    links = " ".join(f'<a href="{html.escape(file)}">{ending[1:]}</a>' for ending, file in files.items())
    return (
        f'<figure id="{html.escape(figure.name)}"><img src="{html.escape(picture)}" alt="{html.escape(figure.title)}" '
        f'loading="lazy"><figcaption><b>{html.escape(figure.title)}</b> {html.escape(rest)} {links}</figcaption></figure>'
    )


def table_html(table: Any) -> str:
    """A table of `analysis.figures.booktabs` under its caption."""

    def row(cells: Sequence[str], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

    head, *rows = table.cells()
    body = "\n".join(row(cells, "td") for cells in rows)
    return f"<p>{html.escape(table.caption)}</p>\n<table><thead>{row(head, 'th')}</thead>\n<tbody>{body}</tbody></table>"
