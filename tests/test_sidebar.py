"""The sidebar when another model is chosen: its own images, and no word of a link that nobody followed."""

from pathlib import Path

from app_pages import open_page, problems

SHIPPED = Path(__file__).parents[1] / "checkpoints"


def test_another_model_brings_its_own_images_without_a_note(monkeypatch, tmp_path):
    at = open_page("export_page", SHIPPED, monkeypatch, tmp_path, model="odevit_digits", index=70)
    assert at.selectbox(key="data").value == "digits" and at.number_input(key="index").value == 70
    at.selectbox(key="model").set_value("vit_teacher_cifar10").run()
    assert at.selectbox(key="data").value == "samples" and at.number_input(key="index").value <= 5
    assert problems(at) == [] and not at.warning


def test_a_link_to_what_is_not_there_gets_a_note(monkeypatch, tmp_path):
    at = open_page("export_page", SHIPPED, monkeypatch, tmp_path, model="vit_teacher_cifar10", index=70)
    assert ["'70'" in note.value for note in at.warning] == [True] and problems(at) == []
