"""A model in a zip: what is refused, and that nothing is written outside its folder."""


import pytest
from app_pages import zipped

from app import uploads
from odevit import ODEViT
from odevit.errors import UserError


def test_a_model_in_a_zip_loads_as_it_was(models, tmp_path):
    files = {f"deep/er/{p.name}": p.read_bytes() for p in (models / "ode").iterdir()}
    path = uploads.unpack(zipped(**files), "my model.zip", tmp_path)
    assert path == tmp_path / "upload-my-model"
    assert ODEViT.from_pretrained(path).config == ODEViT.from_pretrained(models / "ode").config


def test_a_model_takes_nothing_from_an_earlier_one_of_its_name_and_a_broken_zip_leaves_it_alone(tmp_path):
    plain = {"config.json": b"{}", "model.safetensors": b"x"}
    path = uploads.unpack(zipped(**plain, **{"README.md": b"first"}), "x.zip", tmp_path)
    broken = zipped(**{"config.json": b"[]", "model.safetensors": bytes(range(256)) * 8})
    at = broken.index(b"model.safetensors") + 60  # in the middle of its bytes
    with pytest.raises(UserError, match="x.zip"):
        uploads.unpack(broken[:at] + b"????" + broken[at + 4 :], "x.zip", tmp_path)
    assert (path / "README.md").read_bytes() == b"first" and (path / "config.json").read_bytes() == b"{}"
    assert uploads.unpack(zipped(**plain), "x.zip", tmp_path) == path
    assert sorted(p.name for p in path.iterdir()) == ["config.json", "model.safetensors"]


def test_paths_in_a_zip_are_never_used(tmp_path):
    place = tmp_path / "place"
    files = {"../../config.json": b"{}", "/abs/model.safetensors": b"x", "../evil.py": b"boom", "model.pkl": b"boom"}
    path = uploads.unpack(zipped(**files), "../../x.zip", place)
    assert sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*") if p.is_file()) == [
        "place/upload-x/config.json", "place/upload-x/model.safetensors",
    ]  # fmt: skip
    assert path.parent == place


def test_a_bomb_is_refused_before_it_is_unpacked(tmp_path):
    bomb = zipped(**{"config.json": b"{}", "model.safetensors": b"\0" * 50_000_000})
    with pytest.raises(UserError, match=r"x.zip: model.safetensors unpacks to \d+ times its size"):
        uploads.unpack(bomb, "x.zip", tmp_path)
    assert not list(tmp_path.rglob("*.safetensors"))


def test_a_zip_that_lies_about_its_sizes_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(uploads, "MAX_BYTES", 1000)
    content = zipped(**{"config.json": b"{}", "model.safetensors": bytes(range(256)) * 8})
    with pytest.raises(UserError, match="more than the limit"):
        uploads.unpack(content, "x.zip", tmp_path)
    at = content.rindex(b"PK\x01\x02")  # the entry of model.safetensors in the directory: size 10 instead of 2048
    lie = content[: at + 24] + (10).to_bytes(4, "little") + content[at + 28 :]
    with pytest.raises(UserError, match="x.zip"):
        uploads.unpack(lie, "x.zip", tmp_path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no zip", "not a zip that can be read"),
        (zipped(**{"weights.pkl": b"cos\nsystem\n"}), r"no config.json and no model.safetensors in it; found: weights.pkl"),
        (zipped(**{"config.json": b"{}"}), "no model.safetensors in it"),
        (zipped(), "found: nothing"),
    ],
)
def test_what_is_no_model_is_refused_in_one_line(content, said, tmp_path):
    with pytest.raises(UserError, match=said) as caught:
        uploads.unpack(content, "x.zip", tmp_path)
    assert "\n" not in str(caught.value)
