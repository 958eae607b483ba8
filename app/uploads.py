"""A model that a visitor brings: a zip with config.json and model.safetensors, checked before a byte of it is unpacked."""

import io
import shutil
import tempfile
import weakref
import zipfile
from pathlib import Path, PurePosixPath

import streamlit as st

from odevit.errors import UserError

from . import panels

NAMES = ("config.json", "model.safetensors", "README.md", "log.csv")  # no certificate: an archive in itself, made by others
MAX_BYTES = 64_000_000  # unpacked, of all together
MAX_TEXT = 1_000_000  # of each but the weights; read as text it takes many times as much
KEPT = 3  # models of one visitor
MAX_RATIO = 100  # unpacked over packed, of one file; weights hardly shrink


def offer() -> None:
    """The place where a model can be handed over; it is then in the list, for this visitor only."""
    with st.expander("Bring a model"):
        st.caption("A zip of a model folder: config.json and model.safetensors; at most 64 MB. Nothing else in it is read.")
        st.file_uploader("A zip", key="zip", label_visibility="collapsed", on_change=_take)
        if said := st.session_state.get("zip refused"):
            st.error(said, icon=":material/error:")


def _take() -> None:
    """Unpack what was handed over and choose it; called before the page is drawn, which shows it or says what is wrong."""
    file = st.session_state.get("zip")
    st.session_state["zip refused"] = ""
    if file is None:
        return
    try:
        st.session_state["model"] = unpack(file.getvalue(), file.name, _place()).name
    except UserError as error:
        st.session_state["zip refused"] = panels.said(error)


def _place() -> Path:
    """This visitor's folder of models; it goes with the visit."""
    if "uploaded_models" not in st.session_state:
        keeper = _Place()
        st.session_state["uploaded_models"], st.session_state["keeper"] = str(keeper.path), keeper
    return Path(st.session_state["uploaded_models"])


class _Place:
    """A temporary folder that is removed when nobody holds this object."""

    def __init__(self):
        self.path = Path(tempfile.mkdtemp(prefix="odevit-upload-"))
        weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def unpack(content: bytes, name: str, place: Path) -> Path:
    """The model folder in a zip, written under `place`.

    Raises:
        UserError: no zip, no model in it, more than MAX_BYTES, or a file that unpacks to far more than it holds.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(content))
        members = _members(archive, name)
        stem = "".join(c if c.isalnum() or c in "-_" else "-" for c in Path(name).stem)[:40] or "model"
        found = {base: _content(archive, member, name, base) for base, member in members.items()}
    except UserError:
        raise
    except Exception as error:  # broken streams raise what their compression raises: zlib.error, LZMAError, RuntimeError
        raise UserError(
            f"{name}: not a zip that can be read ({' '.join(str(error).split()) or type(error).__name__})"
        ) from None
    target = place / f"upload-{stem}"
    shutil.rmtree(target, ignore_errors=True)  # an earlier one of this name, with files that this one may not have
    _make_room(place)
    target.mkdir(parents=True)
    for base, data in found.items():
        (target / base).write_bytes(data)
    return target


def _content(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str, base: str) -> bytes:
    """A file of an archive, unpacked in memory up to its limit: the sizes that a zip tells can be lies."""
    most = MAX_BYTES if base == NAMES[1] else MAX_TEXT
    with archive.open(member) as source:
        data = source.read(most + 1)
    if len(data) > most:
        raise UserError(f"{name}: {base} unpacks to more than {most // 1_000_000} MB")
    return data


def _make_room(place: Path) -> None:
    """Remove the oldest models of this visitor, so that with the next one there are KEPT."""
    held = sorted(place.glob("upload-*"), key=lambda path: path.stat().st_mtime)
    for path in held[: max(0, len(held) - KEPT + 1)]:
        shutil.rmtree(path, ignore_errors=True)


def _members(archive: zipfile.ZipFile, name: str) -> dict[str, zipfile.ZipInfo]:
    """The files of the one model in an archive by their base names; paths are never used to write."""
    found: dict[str, zipfile.ZipInfo] = {}
    for member in archive.infolist():
        base = PurePosixPath(member.filename).name
        if base in NAMES and not member.is_dir() and base not in found and "__MACOSX" not in member.filename:
            found[base] = member
    missing = [base for base in NAMES[:2] if base not in found]
    if missing:
        inside = ", ".join(member.filename for member in archive.infolist()[:5]) or "nothing"
        raise UserError(f"{name}: no {' and no '.join(missing)} in it; found: {inside}")
    total = sum(member.file_size for member in found.values())
    if total > MAX_BYTES:
        raise UserError(f"{name}: unpacks to {total / 1e6:,.0f} MB, more than the limit of {MAX_BYTES // 1_000_000} MB")
    for base, member in found.items():
        if member.file_size > MAX_RATIO * max(1, member.compress_size) and member.file_size > 1_000_000:
            raise UserError(
                f"{name}: {base} unpacks to {member.file_size // max(1, member.compress_size)} times its size; refused"
            )
    return found
