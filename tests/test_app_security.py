"""What a hostile visitor, link or file may try: it is refused in one line, others go on, nothing outside is read or written."""

import ast
import http.client
import io
import json
import os
import shutil
import struct
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import app_pages
import pytest
from PIL import Image
from test_serve import free_port

from app import loading, uploads
from app.shell import CHAPTERS
from odevit.errors import UserError

ROOT = Path(__file__).resolve().parent.parent
NESTED = b"[" * 100_000 + b"]" * 100_000  # deeper than a parser can go


def config(**changes):
    """Spoils config.json: keys with their sections, as solver__steps."""

    def spoil(folder: Path) -> None:
        content = json.loads((folder / "config.json").read_text())
        for name, value in changes.items():
            *sections, key = name.split("__")
            place = content
            for section in sections:
                place = place[section]
            place[key] = value
        (folder / "config.json").write_text(json.dumps(content))

    return spoil


def header(content: bytes):
    """Spoils model.safetensors: this header, and nothing behind it."""
    return lambda folder: (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(content)) + content)


SPOILT = {  # what a config or a file claims -> what is said of it
    "steps": (config(solver__steps=10**9), "1,000,000,000 steps; at most 2,000"),
    "blocks": (config(solver__steps=10**6, model__blocks=10**6), "1,000,000 steps; at most 2,000"),
    "tokens": (config(model__img_size=10**6), "tokens; at most 5,000"),
    "registers": (config(model__registers=10**9), "tokens; at most 5,000"),
    "classes": (config(model__num_classes=10**9), "classes; at most 25,000"),
    "horizon": (config(solver__horizon=float("nan")), "horizon: nan must be positive and finite"),
    "kind": (config(kind=[]), "TypeError"),
    "section": (config(model=5), "model"),
    "training": (config(training=[1]), "training, and run in it, must be JSON objects"),
    "run": (config(training={"run": "x"}), "training, and run in it, must be JSON objects"),
    "nested": (lambda folder: (folder / "config.json").write_bytes(NESTED), "RecursionError"),
    "nested header": (header(b'{"a":' + NESTED + b"}"), "RecursionError"),
    "negative header": (header(b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,-4]}}'), None),
    "folder": (lambda folder: ((folder / "model.safetensors").unlink(), (folder / "model.safetensors").mkdir()), "is a folder"),
}


@pytest.fixture
def folder(models, tmp_path, monkeypatch):
    shutil.copytree(models, tmp_path / "models")
    monkeypatch.setenv(loading.FOLDERS, str(tmp_path / "models"))
    return tmp_path / "models"


@pytest.mark.parametrize("name", SPOILT)
def test_a_model_that_claims_too_much_is_broken_and_hides_no_other(folder, name):
    spoil, said = SPOILT[name]
    shutil.copytree(folder / "ode", folder / "spoilt")
    spoil(folder / "spoilt")
    found = {entry.name: entry for entry in loading.models()}
    assert found["ode"].kind == "odevit" and not found["ode"].reason
    if said is not None:
        assert found["spoilt"].kind == "broken" and said in found["spoilt"].reason and "\n" not in found["spoilt"].reason
    with pytest.raises(UserError, match="spoilt"):
        loading.open_model(found["spoilt"])


def test_a_page_says_what_is_broken_and_lists_the_others(folder, monkeypatch):
    shutil.copytree(folder / "ode", folder / "spoilt")
    config(solver__steps=10**9)(folder / "spoilt")
    at = app_pages.open_page("overview_page", folder, monkeypatch, model="spoilt")
    assert not at.exception and "at most 2,000 are opened here" in at.error[0].value
    at.selectbox(key="model").set_value("net").run()
    assert not app_pages.problems(at)
    (table,) = [frame.value for frame in at.dataframe]
    assert set(table["model"]) == {"bare", "net", "ode", "spoilt"} and "2,000" in str(table["why not"].tolist())


def picture(kind: str, size: tuple[int, int]) -> bytes:
    file = io.BytesIO()
    Image.new("1", size).save(file, format=kind)
    return file.getvalue()


def test_names_of_classes_are_text(folder, monkeypatch):
    nasty = ["<img src=x onerror=alert(1)>", "$x$", "](http://127.0.0.1:9)", "**b**", "\n# h", *"56789"]
    config(data__classes=nasty)(folder / "ode")
    for page in ("predict_page", "interventions_page"):
        at = app_pages.open_page(page, folder, monkeypatch, cache=folder.parent / "cache", model="ode", data="upload")
        at.file_uploader(key="picture").set_value(("good.png", picture("PNG", (30, 20)), "image/png")).run()
        assert not app_pages.problems(at)
        assert not any(block.allow_html for block in at.markdown)


def test_no_name_and_no_card_makes_a_browser_fetch_anything(folder, monkeypatch):
    for name in ("ode", "bare"):
        config(data__classes=[f"![{i}](http://127.0.0.1:9/x.png)" for i in range(10)])(folder / name)
    card = "# Card\n![a](http://127.0.0.1:9/a.png) \\![b](x) !![c](http://127.0.0.1:9/c.png)"
    (folder / "ode" / "README.md").write_text(card)
    for page in ("overview_page", "predict_page", "interventions_page"):
        at = app_pages.open_page(page, folder, monkeypatch, model="ode", data="upload", other="bare")
        at.file_uploader(key="picture").set_value(("good.png", picture("PNG", (30, 20)), "image/png")).run()
        shown = [str(part.value) for part in (*at.markdown, *at.caption, *at.error, *at.info, *at.metric)]
        assert not app_pages.problems(at) and len(shown) > 3, page
        assert not [text for text in (*shown, *(m.label for m in at.metric)) if "![" in text], page


PICTURES = {
    "notes.png": (b"just text", "not an image"),
    "code.png": (b"cos\nsystem\n(S'true'\ntR.", "not an image"),
    "page.png": (b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>", "not an image"),
    "script.png": (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n(/etc/passwd) run\n", "not an image"),
    "half.png": (picture("PNG", (3_000, 3_000))[:200], "half.png: "),
    "bomb.png": (picture("PNG", (20_000, 20_000)), "64,000,000 pixels"),
    "bomb.tiff": (picture("TIFF", (9_000, 9_000)), "64,000,000 pixels"),
    "../../../etc/passwd": (b"root:x:0:0", "not an image"),
}


def test_what_is_no_picture_gets_one_line_and_a_picture_after_it_is_shown(models, monkeypatch):
    at = app_pages.open_page("export_page", models, monkeypatch, model="ode", data="upload")
    for name, (content, said) in PICTURES.items():
        at.file_uploader(key="picture").set_value((name, content, "image/png")).run()
        assert not at.exception and len(at.error) == 1, name
        assert at.error[0].value.startswith(Path(name).name) or name in at.error[0].value
        assert said in at.error[0].value and "\n" not in at.error[0].value
    at.file_uploader(key="picture").set_value(("good.png", picture("PNG", (30, 20)), "image/png")).run()
    assert not app_pages.problems(at)


def zipped(*files: tuple[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in files:
            file.writestr(name, content)
    return buffer.getvalue()


def model_files(models: Path) -> list[tuple[str, bytes]]:
    return [(path.name, path.read_bytes()) for path in (models / "bare").iterdir()]


def broken_stream(content: bytes) -> bytes:
    """The zip with the compressed bytes of its first file turned into others."""
    start = 30 + int.from_bytes(content[26:28], "little") + int.from_bytes(content[28:30], "little")
    return content[:start] + bytes(255 - b for b in content[start : start + 40]) + content[start + 40 :]


def archives(models: Path) -> dict[str, tuple[bytes, str]]:
    """Name -> (zip, what is said of it)."""
    good = model_files(models)
    return {
        "text.zip": (b"just text", "not a zip that can be read"),
        "bomb.zip": (zipped(("config.json", b"{}"), ("model.safetensors", b"\0" * 30_000_000)), "times its size"),
        "log.zip": (zipped(*good, ("log.csv", b"epoch,loss\n" + os.urandom(600_000).hex().encode())), "more than 1 MB"),
        "pickle.zip": (zipped(("config.json", b"{}"), ("model.pkl", b"cos\nsystem\n(S'true'\ntR.")), "no model.safetensors"),
        "torch.zip": (zipped(*good[:1], ("archive/data.pkl", b"\x80\x02.")), "no "),
        "stream.zip": (broken_stream(zipped(*good)), "not a zip that can be read"),
        "cut.zip": (zipped(*good)[:-30], "not a zip that can be read"),
    }


def test_what_is_no_model_gets_one_line_and_a_model_after_it_is_taken(models, monkeypatch):
    at = app_pages.open_page("overview_page", models, monkeypatch, model="ode")
    for name, (content, said) in archives(models).items():
        at.file_uploader(key="zip").set_value((name, content, "application/zip")).run()
        assert not at.exception and len(at.error) == 1, name
        assert at.error[0].value.startswith(f"{name}: ") and said in at.error[0].value and "\n" not in at.error[0].value
        assert at.selectbox(key="model").value == "ode"
    content = zipped(*((f"../../../{name}", data) for name, data in model_files(models)))
    at.file_uploader(key="zip").set_value(("../evil.zip", content, "application/zip")).run()
    assert not app_pages.problems(at)
    assert at.selectbox(key="model").value == "upload-evil"


def test_an_upload_that_claims_too_much_is_listed_as_broken(models, tmp_path, monkeypatch):
    shutil.copytree(models / "bare", tmp_path / "bare")
    config(solver__steps=10**9)(tmp_path / "bare")
    at = app_pages.open_page("overview_page", models, monkeypatch, model="ode")
    at.file_uploader(key="zip").set_value(("huge.zip", zipped(*model_files(tmp_path)), "application/zip")).run()
    assert not at.exception and "at most 2,000 are opened here" in at.error[0].value
    at.selectbox(key="model").set_value("ode").run()
    assert not app_pages.problems(at)


def test_a_certificate_of_others_is_left_out(models, tmp_path):
    """It is an archive by itself, whose arrays can be as large as they like, and its verdicts would be believed."""
    files = [*model_files(models), ("certificate.npz", b"PK"), ("certificate.json", b"{}")]
    path = uploads.unpack(zipped(*files), "x.zip", tmp_path)
    assert sorted(p.name for p in path.iterdir()) == ["README.md", "config.json", "model.safetensors"]


def test_a_visitor_keeps_few_models(models, tmp_path):
    content = zipped(*model_files(models))
    for i in range(uploads.KEPT + 3):
        path = uploads.unpack(content, f"{i}.zip", tmp_path)
        os.utime(path, (i, i))
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"upload-{i}" for i in range(3, 6)]


def bound_keys() -> list[str]:
    """Names of all parameters of the URL, read off the source."""
    found = set()
    for path in (ROOT / "app").rglob("*.py"):
        for call in (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)):
            words = {word.arg: word.value for word in call.keywords}
            if "bind" in words and isinstance(words.get("key"), ast.Constant):
                found.add(words["key"].value)
    return sorted(found | {"rows", "columns", "t"})


GARBAGE = ("../../etc/passwd", "-1", "1e999", "nan", "", "\0", "9" * 400, "<script>alert(1)</script>", "0", "true", "[]")


PAGES = [pytest.param(c, marks=() if c.path == "export" else pytest.mark.slow, id=c.path) for c in CHAPTERS]


@pytest.mark.parametrize("chapter", PAGES)
@pytest.mark.parametrize("turn", [0, pytest.param(6, marks=pytest.mark.slow)])
def test_garbage_in_every_parameter_of_the_url_leads_to_a_page(chapter, turn, models, monkeypatch):
    query = {key: GARBAGE[(turn + i) % len(GARBAGE)] for i, key in enumerate(bound_keys())}
    at = app_pages.open_page(chapter.module, models, monkeypatch, **query | {"data": "/etc", "model": "../../etc/passwd"})
    assert not app_pages.problems(at)
    assert at.selectbox(key="model").value == "bare"


@pytest.fixture(scope="module")
def server(models, tmp_path_factory):
    """(port, process) of the app on the tiny models and two broken ones."""
    root = tmp_path_factory.mktemp("security")
    shutil.copytree(models, root / "models")
    shutil.copytree(models / "ode", root / "models" / "spoilt")
    config(solver__steps=10**9)(root / "models" / "spoilt")
    port = free_port()
    folders = ["app", str(root / "models"), "--port", str(port), "--cache", str(root / "cache")]
    command = [sys.executable, "-m", "app.cli", *folders]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    for _ in range(600):
        if asked(port, "/_stcore/health") == (200, b"ok"):
            break
        time.sleep(0.1)
    yield port
    os.killpg(process.pid, 2)
    process.wait(timeout=30)


def asked(port: int, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    """(status, body) of a request whose path goes out as it is written; (0, b"") where nobody answers."""
    try:
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        link.putrequest(method, path, skip_accept_encoding=True)
        for name, value in (headers | ({"Content-Length": str(len(body))} if body is not None else {})).items():
            link.putheader(name.replace("_", "-"), value)
        link.endheaders(body)
        answer = link.getresponse()
        return answer.status, answer.read() if answer.status != 101 else b""
    except (OSError, http.client.HTTPException):
        return 0, b""


KEY = "AAAAAAAAAAAAAAAAAAAAAA=="
OUTSIDE = (
    "/../../../../../../etc/passwd", "/%2e%2e/%2e%2e/%2e%2e/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2f..%2f..%2f..%2fetc%2fpasswd",
    "/media/../../../../../../etc/passwd", "/static/..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd", "//etc/passwd",
    "/app/static/../../../../etc/passwd", "/app/static/main.py", "/component/x/../../../../../etc/passwd", "/main.py",
    "/overview?model=../../etc/passwd", "/.streamlit/config.toml",
)  # fmt: skip


@pytest.mark.slow
def test_no_path_outside_is_served(server):
    for path in OUTSIDE:
        status, body = asked(server, path)
        assert status, path
        assert b"root:" not in body and b"import" not in body[:400] and b"fileWatcherType" not in body, path
    assert asked(server, "/_stcore/health") == (200, b"ok")


@pytest.mark.slow
def test_only_a_page_of_this_server_may_talk_to_it(server):
    """Another site in the same browser can open a socket to localhost, but not with the right origin."""
    shake = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Version": "13", "Sec_WebSocket_Key": KEY}
    own = asked(server, "/_stcore/stream", Origin=f"http://127.0.0.1:{server}", **shake)
    other = asked(server, "/_stcore/stream", Origin="http://evil.example", **shake)
    assert own[0] == 101 and other[0] in (400, 403)
    assert asked(server, "/_stcore/upload_file/a/../../../tmp/evil", "PUT", b"x")[0] >= 400


@pytest.mark.slow
def test_the_server_answers_while_broken_models_and_pages_are_opened(server):
    """A session's script runs in a thread of the server: whatever it meets, health is answered."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        pytest.skip("no chromium on this machine (Debian: apt install chromium)")
    waits, ended = [], threading.Event()

    def watch():
        while not ended.wait(0.2):
            start = time.monotonic()
            waits.append((asked(server, "/_stcore/health")[0], time.monotonic() - start))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with playwright.sync_playwright() as started:
            browser = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            page = browser.new_page()
            for query in ("overview?model=spoilt", "spectra?model=ode", "interventions?model=spoilt", "overview?model=net"):
                page.goto(f"http://127.0.0.1:{server}/{query}")
                page.wait_for_selector('[data-testid="stAlertContentError"], h2', timeout=60_000)
                page.wait_for_timeout(1000)
            browser.close()
    finally:
        ended.set()
        watcher.join()
    assert len(waits) > 10 and {status for status, _ in waits} == {200}
