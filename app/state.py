"""What a visitor looks at: a model, images, one of them, a seed, a time; URL <-> widgets is Streamlit's `bind="query-params"`.

The sidebar makes a Visit on every run of the script, pages only read it.
"""

from dataclasses import dataclass, replace
from urllib.parse import urlencode

import numpy as np
import streamlit as st
import torch

from odevit.backbone import Backbone
from odevit.data import ImageSet
from odevit.errors import UserError

from .loading import Entry, open_model

PARAMETERS = ("model", "data", "split", "index", "seed", "t")


@dataclass(frozen=True)
class Visit:
    """What the sidebar chose.

    Attributes:
        entry: the model in the list.   model: it, float32, in eval(), shared by all visitors: never to be changed.
        hash: of the model.
        data: images of the split, or one upload; label -1 = not known.   origin: name of the source in the URL.
        index: of the chosen image.   seed: of start vectors.   t: where time sliders start, None = at the end.
    """

    entry: Entry
    model: Backbone
    hash: str
    data: ImageSet
    origin: str
    index: int
    seed: int
    t: float | None

    @property
    def image(self) -> np.ndarray:
        """The chosen image as the model sees it before normalisation, uint8 (C, H, W); a copy, which keeps no other alive."""
        return self.data.images[self.index].numpy().copy()

    @property
    def label(self) -> int | None:
        """Its class, None where it is not known."""
        label = int(self.data.labels[self.index])
        return label if label >= 0 else None

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes in the order of the logits."""
        count = self.model.config.num_classes
        known = self.model.inputs.classes or self.data.classes
        return known if len(known) == count else tuple(map(str, range(count)))

    def indices(self, count: int) -> list[int]:
        """Of the chosen image, then of others evenly spaced over the split; fewer where there are fewer."""
        others = np.linspace(0, len(self.data) - 1, min(count, len(self.data))).round().astype(int).tolist()
        return list(dict.fromkeys([self.index, *others]))[: max(1, count)]

    def some(self, count: int) -> ImageSet:
        """`count` images: the chosen one first."""
        return self.data.subset(self.indices(count))

    @property
    def link(self) -> str:
        """What to add to the app's address to open this view: the page, what is looked at, and the page's controls."""
        query = {"model": self.entry.name, "data": self.origin, "split": self.data.split, "index": self.index}
        query |= {"seed": self.seed} | ({} if self.t is None else {"t": f"{self.t:g}"})
        controls = {key: st.query_params.get_all(key) for key in st.query_params if key not in (*PARAMETERS, "draw")}
        page = st.session_state.get("page", "")
        return f"/{page}?" + urlencode(query | controls, doseq=True)

    @property
    def name(self) -> str:
        """For file names: model and image."""
        origin = self.data.source if self.origin == "upload" else self.origin  # uploads are told apart by their names
        origin = "".join(c if c.isalnum() or c in "-_" else "-" for c in origin)
        return f"{self.entry.name}-{origin}-{self.data.split}{self.index}"


def other(visit: Visit, entry: Entry) -> Visit:
    """The same images seen by another model of the list; UserError or NonFiniteError where it cannot be read.

    Raises UserError where its images have another shape.
    """
    loaded = open_model(entry)
    shapes = [(m.config.in_chans, *m.config.image_shape) for m in (visit.model, loaded.model)]
    if shapes[0] != shapes[1]:
        raise UserError(f"{entry.name} sees images of {shapes[1]}, {visit.entry.name} of {shapes[0]} (channels, height, width)")
    return replace(visit, entry=entry, model=loaded.model, hash=loaded.hash)


def unknown(name: str, allowed: tuple[str, ...]) -> str:
    """A note where the URL names something that is not there; it is then ignored. Asked before the widget is drawn."""
    asked = st.query_params.get(name)
    if asked is None or asked in allowed:
        return ""
    shown = asked if len(asked) <= 40 else asked[:40] + " .."
    return f"{name}: there is no {shown!r} here; the link was followed without it"


def unlabelled(pixels: torch.Tensor, classes: tuple[str, ...], name: str) -> ImageSet:
    """One image without a label as an ImageSet; pixels uint8 (C, H, W)."""
    return ImageSet(pixels[None], torch.tensor([-1]), classes, "upload", name)
