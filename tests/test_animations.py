"""Animations: a frame for each moment, the same bytes twice, nothing left behind when a folder cannot be written."""

import numpy as np
import pytest
import token_figure_reports as known
from PIL import Image

from analysis.figures import attention_animation, token_animation
from odevit.errors import UserError


def frames(path):
    with Image.open(path) as gif:
        return gif.n_frames


def test_one_frame_a_saved_time_and_the_same_bytes_twice(tmp_path):
    report = known.attention(2)
    first, again = (attention_animation(report, tmp_path / name, picture=np.eye(4), fps=2) for name in ("a.gif", "b"))
    assert first.read_bytes() == again.read_bytes() and frames(first) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.gif", "b.gif"]


def test_tokens_move_between_saved_times(tmp_path):
    short = known.paths(**{name: getattr(known.paths(), name)[:2] for name in ("time", "coordinates", "norm")})
    assert frames(token_animation(short, tmp_path / "t.gif", fps=1)) == 5


def test_refusals(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="cannot be written"):
        attention_animation(known.attention(2), tmp_path / "file" / "a.gif")
    with pytest.raises(UserError, match="fps: 0 is not between"):
        attention_animation(known.attention(2), tmp_path / "a.gif", fps=0)
    with pytest.raises(UserError, match="image: 5 is outside"):
        token_animation(known.paths(), tmp_path / "a.gif", 5)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
