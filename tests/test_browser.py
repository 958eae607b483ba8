"""The app in a real browser (Debian's chromium, headless): every page, the URL, the slider, downloads, uploads."""

import csv
import io
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import contextmanager

import pytest
from app_pages import zipped
from PIL import Image

from app.shell import CHAPTERS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine (Debian: apt install chromium)"),
]
READY = '[data-testid="stApp"][data-test-script-state="notRunning"]'


@pytest.fixture(scope="module")
def server(models, tmp_path_factory):
    """Address of the app on the tiny models."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    cache = tmp_path_factory.mktemp("browser") / "cache"
    command = [sys.executable, "-m", "app.cli", "app", str(models), "--port", str(port), "--cache", str(cache)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    for _ in range(600):
        if healthy(address):
            break
        time.sleep(0.1)
    yield address
    os.killpg(process.pid, 2)
    said, _ = process.communicate(timeout=30)
    assert "Traceback" not in said, said


def healthy(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/_stcore/health", timeout=5) as answer:
            return answer.read() == b"ok"
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@contextmanager
def visit(browser, address: str, path: str = "", **options):
    """A page of a new visitor, settled; console errors and requests that leave this machine fail the test at its end."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, accept_downloads=True, **options)
    page, wrong = context.new_page(), []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" and not probe(message) else None)
    page.on(
        "request", lambda request: None if request.url.startswith((address, "data:", "blob:")) else wrong.append(request.url)
    )
    page.goto(f"{address}/{path}")
    settle(page)
    yield page
    context.close()
    assert not wrong


def probe(message) -> bool:
    """Streamlit asks for its own addresses under the path of a page first; the browser reports that they are not there."""
    return "404" in message.text and "/_stcore/" in message.location.get("url", "")


def settle(page) -> None:
    """Wait until the script has run and the page stands still."""
    page.wait_for_selector("h2", timeout=60_000)
    for _ in range(3):  # a script that ends may be followed by the next
        page.wait_for_selector(READY, timeout=120_000)
        page.wait_for_timeout(150)


def errors(page) -> list[str]:
    return page.locator('[data-testid="stAlertContentError"], [data-testid="stException"]').all_inner_texts()


@pytest.mark.parametrize("chapter", CHAPTERS, ids=lambda c: c.path)
@pytest.mark.parametrize("model", ["ode", "net"])
def test_every_page_opens(server, browser, chapter, model):
    path = "" if chapter is CHAPTERS[0] else chapter.path  # the first page is at the root
    with visit(browser, server, f"{path}?model={model}&index=3&draw=all") as page:
        assert page.locator("h2").first.inner_text() == chapter.title
        assert not errors(page)


def plots(page) -> int:
    return page.locator('[data-testid="stPlotlyChart"] .js-plotly-plot').count()


def test_plots_are_drawn_when_they_come_near_the_screen(server, browser):
    """Also two that come near together, of which Streamlit by itself would rerun one."""
    with visit(browser, server, "trajectories?model=ode") as page:
        page.wait_for_timeout(2500)
        before = plots(page)
        page.locator('[data-testid="stMain"]').evaluate("main => main.scrollTo(0, main.scrollHeight)")
        page.wait_for_timeout(500)
        settle(page)
        page.wait_for_function("document.querySelectorAll('.js-plotly-plot').length >= 6", timeout=30_000)
        assert 2 <= before < 8 and not errors(page)
        page.locator('[data-testid="stMain"]').evaluate("main => main.scrollTo(0, main.scrollHeight / 2)")
        page.wait_for_function("document.querySelectorAll('.js-plotly-plot').length == 8", timeout=30_000)
    with visit(browser, server, "trajectories?model=ode&draw=all") as page:
        page.wait_for_function("document.querySelectorAll('.js-plotly-plot').length == 8", timeout=30_000)


def test_what_came_near_stays_when_a_control_moves(server, browser):
    with visit(browser, server, "predict?model=ode") as page:
        page.locator('[data-testid="stMain"]').evaluate("main => main.scrollTo(0, main.scrollHeight)")
        page.wait_for_function("document.querySelectorAll('.js-plotly-plot').length == 3", timeout=30_000)
        page.get_by_label("Image", exact=True).first.fill("8")
        page.keyboard.press("Enter")
        settle(page)
        assert plots(page) == 3 and "index=8" in page.url


def test_the_view_is_in_the_url_and_survives_pages_and_reload(server, browser):
    with visit(browser, server, "?model=net&index=17&split=train&seed=3") as page:
        for title in ("Predict", "Attention", "Overview"):
            page.get_by_role("link", name=title).first.click()
            page.wait_for_selector(f'h2:has-text("{title}")', timeout=60_000)
            settle(page)
            for part in ("model=net", "index=17", "split=train", "seed=3"):
                assert part in page.url
        page.reload()
        settle(page)
        assert page.get_by_label("Image", exact=True).first.input_value() == "17"
        assert page.get_by_label("Seed", exact=True).first.input_value() == "3"
        with visit(browser, server, page.url.removeprefix(server + "/")) as again:
            assert again.get_by_label("Image", exact=True).first.input_value() == "17"


def test_choosing_a_model_and_an_image_changes_the_url(server, browser):
    with visit(browser, server, "predict") as page:
        page.get_by_label("Image", exact=True).first.fill("21")
        page.keyboard.press("Enter")
        settle(page)
        assert "index=21" in page.url
        page.locator('[data-testid="stSelectbox"]').first.click()
        page.get_by_role("option", name="ode", exact=True).click()
        settle(page)
        assert "model=ode" in page.url and "index=21" in page.url


def test_the_time_slider_moves_without_the_server(server, browser):
    with visit(browser, server, "predict?model=ode&draw=all") as page:
        sent = []
        session = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.on("Network.webSocketFrameSent", lambda frame: sent.append(frame))
        slider = page.locator(".slider-container").first
        slider.wait_for(timeout=30_000)
        label = page.locator(".slider-container .slider-label").first.text_content()
        rail = page.locator(".slider-container .slider-rail-touch-rect").first.bounding_box()
        page.mouse.click(rail["x"] + 2, rail["y"] + rail["height"] / 2)
        page.wait_for_timeout(500)  # the server is told where it rests after 700
        after = page.locator(".slider-container .slider-label").first.text_content()
        assert label != after and after.startswith("t = 0"), (label, after)
        assert not sent


def test_a_csv_comes_back_as_it_was_shown(server, browser):
    with visit(browser, server, "predict?model=ode&index=5") as page:
        with page.expect_download(timeout=60_000) as waiting:
            page.get_by_role("button", name="CSV").first.click()
        assert waiting.value.suggested_filename.startswith("ode-digits-val5-")
        text = waiting.value.path().read_text()
        rows = list(csv.DictReader(io.StringIO(text)))
        assert rows and any("[t]" in name for name in rows[0])
        assert "index=5" in page.url and page.locator("h2").first.inner_text() == "Predict"


def choose_upload(page) -> None:
    page.locator('[data-testid="stSelectbox"]').nth(1).click()
    page.get_by_role("option", name="your own picture").click()
    page.wait_for_selector('input[type="file"]', state="attached", timeout=30_000)
    settle(page)


def upload(page, name: str, content: bytes, mime: str = "image/png") -> None:
    page.locator('input[type="file"]').first.set_input_files({"name": name, "mimeType": mime, "buffer": content})
    page.wait_for_selector(f'text="{name}"', timeout=30_000)
    settle(page)


def encoded(mode: str) -> bytes:
    file = io.BytesIO()
    image = Image.linear_gradient("L").resize((40, 30))
    if mode == "I;16":
        image = Image.frombytes("I;16", (40, 30), bytes(2 * 40 * 30))
    elif mode != "L":
        image = image.convert(mode)
    image.save(file, format="TIFF" if mode == "CMYK" else "PNG")
    return file.getvalue()


def test_pictures_of_every_mode_are_predicted(server, browser):
    with visit(browser, server, "predict?model=ode") as page:
        choose_upload(page)
        for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"):
            upload(page, f"mode{mode.replace(';', '')}.png", encoded(mode))
            assert not errors(page), mode
            assert page.locator(".js-plotly-plot").count() > 0


@pytest.mark.parametrize(
    ("name", "content"),
    [("notes.png", b"just text"), ("code.png", b"cos\nsystem\n(S'true'\ntR."), ("half.png", encoded("RGB")[:60])],
)
def test_what_is_no_picture_gets_one_line_and_the_app_goes_on(server, browser, name, content):
    with visit(browser, server, "predict?model=ode") as page:
        choose_upload(page)
        upload(page, name, content)
        (said,) = errors(page)
        assert f"{name}: " in said and "Traceback" not in said
        upload(page, "good.png", encoded("L"))
        assert not errors(page)


def test_bombs_and_pickles_are_refused_and_a_model_is_taken(server, browser, models):
    good = zipped(**{p.name: p.read_bytes() for p in (models / "bare").iterdir()})
    bad = {
        "bomb.zip": (zipped(**{"config.json": b"{}", "model.safetensors": b"\0" * 30_000_000}), "times its size"),
        "pickle.zip": (zipped(**{"config.json": b"{}", "weights.pkl": b"cos\nsystem\n"}), "no model.safetensors"),
    }
    with visit(browser, server, "?model=ode") as page:
        page.get_by_text("Bring a model").click()
        for name, (content, said) in bad.items():
            upload(page, name, content, "application/zip")
            assert any(said in text for text in errors(page)), name
            assert healthy(server)
        page.locator('input[type="file"]').first.set_input_files(
            {"name": "mine.zip", "mimeType": "application/zip", "buffer": good}
        )
        page.wait_for_url("**model=upload-mine**", timeout=30_000)
        settle(page)
        assert not errors(page)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_themes_have_contrast(server, browser, scheme):
    """At least 4.5 between the text of the page and what is behind it (WCAG 2.1, 1.4.3)."""
    with visit(browser, server, "?model=ode", color_scheme=scheme) as page:
        colours = page.evaluate(
            "() => { const s = getComputedStyle(document.querySelector('[data-testid=stApp]'));"
            " return [getComputedStyle(document.querySelector('h2')).color, s.backgroundColor] }"
        )
        assert contrast(*colours) >= 4.5


def contrast(front: str, back: str) -> float:
    def luminance(colour: str) -> float:
        channels = [float(c) / 255 for c in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    light, dark = sorted((luminance(front), luminance(back)), reverse=True)
    return (light + 0.05) / (dark + 0.05)
