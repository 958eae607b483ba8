"""The sidebar, the same on all pages: model, data and split, image, seed. It makes the Visit, or says what is missing."""

import io
import random

import numpy as np
import streamlit as st
from PIL import Image

from odevit.data import ImageSet
from odevit.errors import NonFiniteError, UserError

from . import image_sources, panels
from .link_values import drop_infinite, follow
from .loading import Entry, folders, models, open_model
from .state import Visit, unknown
from .time_link import time_asked

SHOWN = 4  # thumbnails in the strip
SIDE = 64  # pixels of a thumbnail on the screen


def choose() -> Visit | None:
    """The visit that the sidebar describes; None where it cannot be, after the main area has said why."""
    found = models()
    if not found:
        _no_models()
        return None
    drop_infinite()
    with st.sidebar:
        entry = _model(found)
    try:
        loaded = open_model(entry)
    except (UserError, NonFiniteError) as error:
        st.header(entry.name, anchor=False)
        st.error(f"{entry.name} cannot be opened. {panels.said(error)}", icon=":material/error:")
        st.caption("The other models in the list are not affected.")
        return None
    with st.sidebar:
        st.caption(_facts(entry, loaded.model))
        moved = _moved(entry)
        found_data = _data(entry, loaded.model, moved)
        if found_data is not None:
            index = _image(found_data[1], moved)
            help_text = "Of start vectors and random pictures."
            seed = st.number_input("Seed", 0, 2**31 - 1, 0, key="seed", bind="query-params", help=help_text)
    if found_data is None:
        st.header(entry.name, anchor=False)
        st.info("There is no image to look at yet: choose one in the sidebar.", icon=":material/arrow_back:")
        return None
    origin, data = found_data
    return Visit(entry, loaded.model, loaded.hash, data, origin, index, int(seed), time_asked())


def _no_models() -> None:
    places = ", ".join(str(place) for place in folders())
    st.header("No model here yet", anchor=False)
    st.info(f"No model was found in {places}. Make one in a minute, or name a folder that has some:", icon=":material/info:")
    st.code("odevit demo --app\nodevit app FOLDER", language="bash")


def _model(found: tuple[Entry, ...]) -> Entry:
    names = tuple(entry.name for entry in found)
    first = next((i for i, entry in enumerate(found) if entry.kind != "broken"), 0)
    labels = {e.name: f"{e.name} (broken)" if e.kind == "broken" else e.name for e in found}
    _note(follow("model", labels))
    name = st.selectbox("Model", names, first, key="model", bind="query-params", format_func=lambda n: labels.get(n, n))
    return next(entry for entry in found if entry.name == name)


def _facts(entry: Entry, model) -> str:
    """Accuracy and size in one line."""
    count = sum(p.numel() for p in model.parameters())
    accuracy = "" if entry.accuracy is None else f", {entry.accuracy:.1%} on validation"
    return f"{entry.title}, {count:,} parameters{accuracy}"


def _moved(entry: Entry) -> bool:
    """Whether the visitor has just chosen another model: what the URL says beside it is then no link's but the last model's."""
    before = st.session_state.get("model before", entry.name)
    st.session_state["model before"] = entry.name
    return before != entry.name


def _note(text: str, moved: bool = False) -> None:
    if text and not moved:
        st.warning(text, icon=":material/link_off:")


def _data(entry: Entry, model, moved: bool) -> tuple[str, ImageSet] | None:
    """(source, images), None where there are none yet; the main area then says what to do."""
    offered = image_sources.offered(model, entry)
    names = tuple(offered)
    _note(follow("data", offered), moved)
    if st.session_state.get("data") not in (None, *names):  # left over from a model of other images
        st.session_state["data"] = names[0]  # said, and not just forgotten: else the browser goes on showing the old one
    origin = st.selectbox("Images", names, key="data", bind="query-params", format_func=lambda name: offered.get(name, name))
    try:
        if origin == "upload":
            return _upload(model)
        if image_sources.needs_download(origin):
            st.button(f"Download {origin.upper()}", key=f"ask {origin}", on_click=_download, args=(origin,))
            with st.container():
                st.info("About 170 MB, by torchvision, into the folder data/ of this machine.")
            return None
        split = "val" if origin == "samples" else _split()
        return origin, image_sources.images(origin, split, model, entry)
    except UserError as error:
        st.error(panels.said(error), icon=":material/error:")
        return None


def _download(name: str) -> None:
    st.session_state[f"download {name}"] = True


def _split() -> str:
    names = ("val", "train", "test")
    _note(unknown("split", names))
    split = st.segmented_control("Split", names, default="val", key="split", bind="query-params", required=True)
    if split == "test":
        st.caption("Test images: look at them, do not select a model on them.")
    return split or "val"


def _upload(model) -> tuple[str, ImageSet] | None:
    file = st.file_uploader("A picture", key="picture", help="PNG, JPEG, WEBP, GIF, BMP or TIFF; at most 64 MB, 64 megapixels.")
    if file is None:
        height, width = model.config.image_shape
        st.info(f"Choose a picture; the model will see it cropped to a square and scaled to {width} x {height} pixels.")
        return None
    return "upload", image_sources.uploaded(io.BytesIO(file.getvalue()), file.name, model)


def _image(data: ImageSet, moved: bool) -> int:
    """Index of the chosen image: number, class filter, random, strip."""
    last = len(data) - 1
    if last < 1:
        _strip(data, [0], 0)
        return 0
    _note(unknown("index", tuple(map(str, range(len(data))))), moved)
    allowed = _allowed(data)
    if int(st.session_state.get("index") or 0) > last:
        st.session_state["index"] = last
    left, right = st.columns([3, 2], vertical_alignment="bottom")
    index = left.number_input("Image", 0, last, key="index", bind="query-params", help=f"0 to {last} in this split")
    right.button("Random", key="random", on_click=_jump, args=(random.choice(allowed),), width="stretch")
    _strip(data, _following(allowed, int(index)), int(index))
    return int(index)


def _allowed(data: ImageSet) -> list[int]:
    """Indices that the class filter lets through."""
    if not data.classes or int(data.labels.min()) < 0:
        return list(range(len(data)))
    options = ("all classes", *data.classes)
    if st.session_state.get("class") not in (None, *options):
        st.session_state["class"] = options[0]
    chosen = st.selectbox("Class", options, key="class", bind="query-params")
    if chosen == options[0]:
        return list(range(len(data)))
    found = np.flatnonzero(data.labels.numpy() == data.classes.index(chosen)).tolist()
    return found or list(range(len(data)))


def _following(allowed: list[int], index: int) -> list[int]:
    """The chosen image and the next ones that the filter lets through, around the end."""
    start = int(np.searchsorted(allowed, index))
    after = [allowed[(start + i) % len(allowed)] for i in range(min(SHOWN + 1, len(allowed)))]
    return list(dict.fromkeys([index, *after]))[:SHOWN]


def _strip(data: ImageSet, shown: list[int], index: int) -> None:
    """Thumbnails with their numbers, each a button; the chosen one first."""
    columns = st.columns(SHOWN)
    for column, i in zip(columns, shown):
        column.image(thumbnail(data.images[i].numpy()), width=SIDE)
        if i == index:
            column.markdown(f"**{i}**")
        else:
            column.button(str(i), key=f"thumbnail {i}", on_click=_jump, args=(i,), type="tertiary")
    label = int(data.labels[index])
    if label >= 0:
        name = data.classes[label] if label < len(data.classes) else str(label)
        st.caption(f"image {index} of {data.split}: **{panels.plain(name)}**")


def thumbnail(pixels: np.ndarray, side: int = SIDE) -> Image.Image:
    """An image of the set, uint8 (C, H, W), with its pixels visible as squares."""
    rows = np.moveaxis(pixels, 0, -1)
    picture = Image.fromarray(rows[..., 0] if rows.shape[-1] == 1 else rows).convert("RGB")
    factor = max(1, side // max(picture.size))
    return picture.resize((picture.width * factor, picture.height * factor), Image.Resampling.NEAREST)


def _jump(index: int) -> None:
    st.session_state["index"] = int(index)
