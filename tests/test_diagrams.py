"""Diagrams: every number in them is the config's, control points stand at their times, text stays inside the page."""

import pytest

from analysis.figures import architecture, teacher_student
from analysis.figures.style import paper
from analysis.reports import ConfigReport
from odevit.config import ODEViTConfig, SolverConfig, ViTConfig, to_dict
from odevit.errors import UserError

STUDENT = {"kind": "odevit", "model": to_dict(ODEViTConfig()), "solver": to_dict(SolverConfig(steps=12))}
TEACHER = {"kind": "vit", "model": to_dict(ViTConfig(depth=3)), "solver": to_dict(ViTConfig(depth=3).solver)}


def texts(figure):
    return [" ".join(text.get_text().split()) for text in figure.axes[0].texts]


def test_an_ode_vit_is_drawn_with_its_numbers():
    said = texts(architecture(STUDENT))
    assert "image 3 × 32 × 32" in said and "$x(0)$: 69 × 128 CLS, 64 patches, 4 registers" in said
    assert "attention 4 heads dot product" in said and "MLP 2 × width" in said and "head of CLS 10 classes" in said
    assert "12 euler steps of $h = 0.5$ to $T = 6$" in said
    assert texts(architecture(ConfigReport(config=STUDENT))) == said


def test_a_discrete_vit_has_layers():
    said = texts(architecture(TEACHER))
    assert "3 layers, each with weights of its own" in said and "head LayerNorm, of CLS 10 classes" in said
    assert not any("dx/dt" in text for text in said)


def test_what_the_config_adds_is_said():
    model = to_dict(ODEViTConfig(blocks=3, time_frequencies=2, registers=0, img_size=(16, 32)))
    said = texts(architecture(STUDENT | {"model": model, "solver": to_dict(SolverConfig("dopri5"))}))
    assert "vector field $dx/dt = G(t, x) + F(t, x)$, 3 blocks in turn" in said and "image 3 × 16 × 32" in said
    assert "$x(0)$: 33 × 128 CLS, 32 patches" in said and "dopri5, steps of its own, to $T = 6$" in said


@pytest.mark.parametrize("venue", ["neurips", "icml"])
@pytest.mark.parametrize("configs", [(STUDENT,), (TEACHER,), (STUDENT, TEACHER)])
def test_no_text_leaves_the_page(venue, configs):
    with paper(venue):
        made = (architecture if len(configs) == 1 else teacher_student)(*configs)
    page = made.bbox
    for text in made.axes[0].texts:
        box = text.get_window_extent()
        assert box.x0 >= 0 and box.x1 <= page.x1 and box.y0 >= 0 and box.y1 <= page.y1, text.get_text()


def test_control_points_stand_at_their_times_and_below_their_layers():
    training = {"control_points": (1.0, 2.0, 6.0), "losses": "1 x trajectory", "run": {"head": "new"}}
    made = teacher_student(STUDENT | {"training": training}, TEACHER)
    drawn = {line.get_label(): line for line in made.axes[0].get_lines()}
    start, end = drawn["_layers"].get_xdata()[[0, -1]]
    assert drawn["_points"].get_xdata() == pytest.approx([start + (end - start) * t / 6 for t in (0, 1, 2, 6)])
    assert len(drawn["_layers"].get_xdata()) == 4 and len(drawn["_steps"].get_xdata()) == 13
    assert "loss: 1 x trajectory" in texts(made) and "new head" in texts(made)
    evenly = {line.get_label(): line for line in teacher_student(STUDENT, TEACHER, (2.0, 4.0, 6.0)).axes[0].get_lines()}
    assert evenly["_points"].get_xdata() == pytest.approx(evenly["_layers"].get_xdata())


def test_refusals():
    with pytest.raises(UserError, match="config: no entry 'solver'"):
        architecture({"kind": "odevit", "model": STUDENT["model"]})
    with pytest.raises(UserError, match="config: no entry 'depth'"):
        teacher_student(STUDENT, STUDENT)
    with pytest.raises(UserError, match="control_times: 2 times for the 3 layers"):
        teacher_student(STUDENT, TEACHER, (1.0, 2.0))
