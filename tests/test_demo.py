"""The demo's second part: three trainings in a line each, a paired interval, figures of the pair."""

import json

import pytest

from app.demo import PAIR_FIGURES, with_teacher


@pytest.mark.slow
def test_the_part_with_a_teacher(tmp_path, capsys):
    found = with_teacher(tmp_path, epochs=1)
    said = capsys.readouterr().out
    names = ("teacher", "student alone", "student with teacher")
    lines = [line for line in said.splitlines() if line.startswith(names) and "test" in line]
    assert len(lines) == 3 and all(f"{found[name]:6.2%}" in line for name, line in zip(names, lines))
    assert found["gain"]["mean"] == pytest.approx(found["student with teacher"] - found["student alone"])
    assert found["gain"]["low"] <= found["gain"]["mean"] <= found["gain"]["high"] and "95 % interval over the same 359" in said
    assert "epoch 1/1" not in said and json.dumps(found)
    for name in PAIR_FIGURES:
        assert (tmp_path / "figures" / "with_teacher" / f"{name}.png").exists(), name
