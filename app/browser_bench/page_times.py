"""Seconds in a real browser (headless Chromium through Playwright): first screen, pages, the time slider; sizes of messages.

A page is there when its title is, its script has run, and every chart that is on the screen is drawn; a whole page when all of
its charts are. The first moment after which this holds for SETTLED is taken, by the browser's own clock.
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from app.shell import CHAPTERS, Chapter
from odevit.errors import UserError

SETTLED, LIMIT = 500, 300_000  # milliseconds: how long a page must stand still; how long it may take
STEPS, PAUSE = 6, 100  # movements of the slider, milliseconds between them, less than the app takes for rest
GLANCE = 3000  # milliseconds at the first page, in which the browser also loads what draws charts
REST = 1500  # milliseconds after which the app has told the server where the slider rests
WIDTH, HEIGHT = 1440, 900

_SETTLE = """async ([title, settled, limit, clicked, whole]) => {
  const app = () => document.querySelector('[data-testid="stApp"]');
  const titled = () => document.querySelector('h2')?.innerText === title;
  const shown = (part) => {
    const box = part.getBoundingClientRect();
    return whole || (box.top < innerHeight && box.bottom > 0);
  };
  const waiting = () => [...document.querySelectorAll('[data-testid="stSkeleton"], [data-stale="true"]')];
  const charts = () => [...document.querySelectorAll('[data-testid="stPlotlyChart"]')];
  let since = null, ran = false;
  const look = () => { ran ||= titled() && app()?.dataset.testScriptState === 'notRunning'; };
  const watch = new MutationObserver(look);  // a fragment may run before the next frame
  watch.observe(document.documentElement, { subtree: true, attributeFilter: ['data-test-script-state'] });
  while (performance.now() < limit) {
    await new Promise(requestAnimationFrame);
    look();
    const there = ran && titled() && !waiting().some(shown) && charts().every((c) => !shown(c) || c.querySelector('.main-svg'));
    if (!there) since = null;
    else if (since === null) since = performance.now();
    else if (performance.now() - since > settled) {
      watch.disconnect();
      return (since - (clicked ? window.clicked : 0)) / 1000;
    }
  }
  throw new Error(`the page ${title} is not there`);
}"""
_NOTE_CLICKS = "() => document.addEventListener('click', (e) => { window.clicked = e.timeStamp }, true)"
_WATCH_SLIDER = """() => {
  window.reactions = [];
  document.addEventListener('mousedown', (event) => {
    const start = event.timeStamp;
    event.target.closest('.js-plotly-plot')?.once('plotly_animated', () => requestAnimationFrame(() => setTimeout(
      () => window.reactions.push(performance.now() - start))));
  }, true);
}"""


@dataclass
class Traffic:
    """Between a browser and the server.   sent: addresses of requests, "message" by websocket.   largest: bytes that came."""

    sent: list[str] = field(default_factory=list)
    largest: int = 0

    def watch(self, page: Any) -> None:
        """Note what goes through the websockets and requests of a page that is not open yet."""
        page.on("request", lambda request: self.sent.append(request.url[:60]))
        page.on("websocket", self._socket)

    def _socket(self, socket: Any) -> None:
        socket.on("framesent", lambda _: self.sent.append("message"))
        socket.on("framereceived", lambda data: self._came(len(data)))

    def _came(self, count: int) -> None:
        self.largest = max(self.largest, count)


@dataclass
class Tour:
    """What one visitor met.   first: seconds to the first screen.   seconds, largest: by path of the page.   errors: boxes."""

    first: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    largest: dict[str, int] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)


@contextmanager
def chromium() -> Iterator[Any]:
    """A headless browser.

    Raises:
        UserError: Playwright or Chromium is not installed.
    """
    try:
        from playwright.sync_api import Error, sync_playwright
    except ImportError:
        raise UserError("bench app: needs Playwright; pip install playwright, or pip install -e '.[dev]'") from None
    with sync_playwright() as playwright:
        found = shutil.which("chromium") or shutil.which("chromium-browser")
        try:
            browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        except Error:
            raise UserError("bench app: needs Chromium; playwright install chromium, or apt install chromium") from None
        yield browser
        browser.close()


@contextmanager
def visitor(browser: Any) -> Iterator[tuple[Any, Traffic]]:
    """The empty page of a new visitor, and its traffic."""
    context = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT})
    page, traffic = context.new_page(), Traffic()
    traffic.watch(page)
    yield page, traffic
    context.close()


def settle(page: Any, chapter: Chapter, clicked: bool, whole: bool = False) -> float:
    """Seconds from the navigation, or from the click, until a page is there, on the screen or whole."""
    return page.evaluate(_SETTLE, [chapter.title, SETTLED, LIMIT, clicked, whole])


def tour(browser: Any, address: str, chapters: tuple[Chapter, ...], query: str, *, whole: bool = False) -> Tour:
    """A new visitor opens the first page and looks at it for a while, then clicks through the others and back.

    Args:
        query: of the URL.   whole: draw what is below the screen too, and wait for it.
    """
    found = Tour()
    with visitor(browser) as (page, traffic):
        page.goto(f"{address}/{query}{'&draw=all' if whole else ''}")
        found.first = settle(page, CHAPTERS[0], False, whole)
        page.wait_for_timeout(GLANCE)
        found.largest[CHAPTERS[0].path] = traffic.largest
        page.evaluate(_NOTE_CLICKS)
        others = [c for c in chapters if c is not CHAPTERS[0]]
        for chapter in (*others, CHAPTERS[0]):
            traffic.largest = 0
            page.get_by_role("link", name=chapter.title, exact=True).first.click()
            found.seconds[chapter.path] = settle(page, chapter, True, whole)
            found.largest.setdefault(chapter.path, traffic.largest)
            boxes = page.locator('[data-testid="stAlertContentError"], [data-testid="stException"]').all_inner_texts()
            found.errors += [f"{chapter.title}: {text}" for text in boxes]
    return found


def slider(browser: Any, address: str, chapter: Chapter, query: str) -> tuple[list[float], list[str], list[str]]:
    """Milliseconds from movements of the time slider to the next paint; what went to the server while it moved, and after."""
    with visitor(browser) as (page, traffic):
        page.goto(f"{address}/{chapter.path}{query}")
        settle(page, chapter, False)
        page.evaluate(_WATCH_SLIDER)
        for i in range(STEPS):
            _move(page, _rail(page), i)
            page.wait_for_function(f"window.reactions.length > {i}", timeout=LIMIT)
            page.wait_for_timeout(REST)
            settle(page, chapter, False)
        times, rail = page.evaluate("window.reactions"), _rail(page)
        traffic.sent.clear()
        for i in range(STEPS):
            _move(page, rail, i)
            page.wait_for_timeout(PAUSE)
        moving = list(traffic.sent)
        page.wait_for_timeout(REST)
        return times, moving, traffic.sent[len(moving) :]


def _rail(page: Any) -> dict[str, float]:
    """Where the slider's rail is on the screen."""
    rail = page.locator(".slider-container .slider-rail-touch-rect").first
    rail.scroll_into_view_if_needed()
    return rail.bounding_box()


def _move(page: Any, rail: dict[str, float], i: int) -> None:
    """Press the rail at one of STEPS + 1 places, each far from the last."""
    place = (i * (STEPS // 2) % (STEPS + 1)) / STEPS
    page.mouse.click(rail["x"] + 2 + (rail["width"] - 4) * place, rail["y"] + rail["height"] / 2)
