"""The look of figures: page widths, TrueType only, the same bytes, colours with a second cue; nothing global changes."""

import logging
import re
import shutil
import subprocess

import figure_reports as known
import matplotlib
import numpy as np
import pytest
from matplotlib.figure import Figure

from analysis.figures import exponents_by_class, jacobian_eigenvalues, style, token_growth
from odevit.errors import UserError

PAGES = [(venue, columns) for venue, widths in style.VENUES.items() for columns in range(1, len(widths) + 1)]


def settings() -> dict:
    return dict(matplotlib.rcParams)


@pytest.mark.parametrize("venue, columns", PAGES)
def test_pdf_has_the_page_width_and_no_type_3_font(venue, columns, tmp_path):
    if not shutil.which("pdffonts"):
        pytest.skip("poppler-utils is not installed")
    with style.paper(venue, columns):
        made = exponents_by_class(known.exponents())
        pdf = style.save(made, tmp_path / "figure")[0]
    fonts = subprocess.run(["pdffonts", pdf], capture_output=True, text=True, check=True).stdout
    assert "TrueType" in fonts and "Type 3" not in fonts and "Type 1" not in fonts
    info = subprocess.run(["pdfinfo", pdf], capture_output=True, text=True, check=True).stdout
    found = re.search(r"Page size:\s+([\d.]+)", info)
    assert found and abs(float(found[1]) / 72 - style.width(venue, columns)) < 0.01


def test_same_input_same_bytes(tmp_path):
    def made(folder):
        return style.save(jacobian_eigenvalues(known.certificate(), known.euler_region()), folder / "figure", caption="x")

    for first, second in zip(made(tmp_path / "a"), made(tmp_path / "b")):
        assert first.name == second.name and first.read_bytes() == second.read_bytes()


def test_settings_are_put_back_and_text_is_7_to_9_points():
    before = settings()
    made = exponents_by_class(known.exponents())
    assert settings() == before
    texts = [t for t in made.findobj(matplotlib.text.Text) if t.get_text().strip()]
    assert texts and all(7 <= t.get_fontsize() <= 9 for t in texts)


def test_a_figure_comes_back_laid_out():
    """What is measured on it is what will be on paper: no label sticks out, and its axes do not move when it is drawn again."""
    made = token_growth(known.certificate())
    ax = made.axes[0]
    place, box = ax.get_position().bounds, ax.get_tightbbox()
    assert min(box.x0, box.y0) >= 0 and box.x1 <= made.bbox.x1 and box.y1 <= made.bbox.y1
    made.draw_without_rendering()
    assert ax.get_position().bounds == pytest.approx(place, abs=0.01)


def test_text_keeps_its_look_when_drawn_outside_of_the_paper(tmp_path):
    """Matplotlib makes most ticks at the first drawing."""
    made = token_growth(known.certificate())
    with matplotlib.rc_context({"xtick.labelsize": 30, "ytick.labelsize": 30, "mathtext.fontset": "dejavuserif"}):
        made.savefig(tmp_path / "figure.png")
    labels = made.axes[0].get_yticklabels()
    assert {(t.get_fontsize(), t.get_math_fontfamily()) for t in labels} == {(7, "stix")} and len(labels) > 2


def test_axes_of_the_caller_keep_the_style_of_the_caller():
    with matplotlib.rc_context({"axes.labelsize": 20}):
        own = Figure()
        ax = own.add_subplot()
        assert exponents_by_class(known.exponents(), ax=ax) is own
    assert ax.xaxis.label.get_fontsize() == 20


def test_104_classes_have_looks_of_their_own():
    assert len({(style.class_colour(i), style.class_marker(i)) for i in range(104)}) == 104


def test_lines_differ_in_grey():
    """Dash and marker tell eight lines apart without their colours."""
    assert len({(str(style.DASHES[i % len(style.DASHES)]), style.MARKERS[i]) for i in range(8)}) == 8


def test_diverging_maps_are_white_at_zero_on_one_scale():
    norm, colours = style.diverging([-1.0, 4.0, np.nan])
    assert min(colours(norm(0.0))[:3]) > 0.95
    assert norm(1.0) - 0.5 == pytest.approx(0.5 - norm(-1.0)) and norm(4.0) == 1.0


def test_a_missing_font_is_named_and_replaced(caplog):
    with caplog.at_level(logging.WARNING), style.paper(font="Nowhere Sans"):
        assert matplotlib.rcParams["font.family"] == [style.FALLBACK]
    assert caplog.messages == ["font: 'Nowhere Sans' is not installed, DejaVu Sans is used"]


def test_legends_take_no_more_than_the_page():
    with style.paper("icml", 1):
        made, ax = style.new_axes()
        for i in range(6):
            ax.plot([0, 1], [i, i], label=f"a label of some length, number {i}")
        style.outside_legend(ax, columns=6)
        made.draw_without_rendering()
    box = ax.get_legend().get_window_extent()
    assert box.x0 >= 0 and box.x1 <= made.bbox.width * 1.001


def test_unknown_pages():
    with pytest.raises(UserError, match=re.escape("venue: unknown 'nips' (known: neurips, icml, cvpr, ieee)")):
        style.width("nips")
    with pytest.raises(UserError, match=re.escape("columns: 2; a page of neurips has 1")):
        style.width("neurips", 2)
