"""The live page in a real browser: it shows what the API tells, also of ten thousand keys."""

import json
import shutil

import pytest

from tests.brokers.servers import program
from tests.service.conftest import payloads_of, readings
from tests.service.test_process import CONFIG, serving, wait_for

BROWSERS = ("chromium-browser", "google-chrome", "chrome")  # beside Debian's
pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def browser():
    path = next(filter(None, map(shutil.which, BROWSERS)), None) or program("chromium", "chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser):
    """A page; what it writes to the console, such as violations of its policy, fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page, said = context.new_page(), []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    yield page
    context.close()
    assert not [
        text for text in said if "ERR_INCOMPLETE_CHUNKED" not in text and "ERR_CONNECTION" not in text
    ]


def opened(page, url):
    page.goto(url)
    page.locator("#connection", has_text="Live").wait_for()
    page.locator("#keys tr").first.wait_for()


def test_the_page_follows_the_stream(page, tmp_path):
    (tmp_path / "service.toml").write_text(CONFIG)
    rows = payloads_of(readings())
    with serving(tmp_path) as (_, client):
        with (tmp_path / "readings.ndjson").open("ab") as file:
            file.write(b"".join(rows[:300]))
        wait_for(client, 300)
        opened(page, str(client.base_url))
        assert page.locator("#keys tr").count() == 3
        assert page.locator("#detail-title").inner_text() == "s0"
        assert page.locator("#alarms tr").count() == 0
        page.locator("#keys button", has_text="s1").click()
        page.locator("#detail-title", has_text="s1").wait_for()
        with (tmp_path / "readings.ndjson").open("ab") as file:
            file.write(b"".join(rows[300:]))
        page.locator("#alarms tr").wait_for()  # without a reload
        page.locator("#detail-summary", has_text="200 rows").wait_for()
        found = client.get("/api/streams/s/monitors/level/result?key=s1").json()
        assert (
            f"{found['log_evidence'][0]:.7g}".replace("-", "−")
            in page.locator("#detail-summary").inner_text()
        )
        assert page.locator("#chart-evidence path.line").count() == 1
        assert page.locator("#chart-evidence line.alarm").count() == 1
        assert page.locator("#chart-residuals path.line").count() == 1
        assert page.locator("#chart-weights").count() == 0  # of one model
        assert page.url.endswith("#s/level/s1")
        page.reload()
        page.locator("#detail-title", has_text="s1").wait_for()


def test_keyboard_and_names(page, tmp_path):
    """Everything is reached with Tab and arrows, and has a name for those who hear it."""
    (tmp_path / "service.toml").write_text(CONFIG)
    (tmp_path / "readings.ndjson").write_bytes(b"".join(payloads_of(readings())))
    with serving(tmp_path) as (_, client):
        wait_for(client, 600)
        opened(page, str(client.base_url))
        page.keyboard.press("Tab")
        assert page.evaluate("() => document.activeElement.className") == "skip"
        page.get_by_role("tab", name="s: level, 1 alarms").focus()
        assert page.get_by_role("tab").get_attribute("aria-selected") == "true"
        page.get_by_role("searchbox", name="Key").fill("s2")
        page.locator("#keys-caption", has_text="1 key").wait_for()
        page.get_by_role("button", name="s2", exact=True).focus()
        page.keyboard.press("Enter")
        page.locator("#detail-title", has_text="s2").wait_for()
        chart = page.get_by_role("img", name="Log evidence per row (nats), from row 10 to 200")
        chart.focus()
        page.keyboard.press("Home")
        assert page.locator("#chart-evidence .reading").inner_text().startswith("row 10: −")
        page.keyboard.press("ArrowRight")
        assert page.locator("#chart-evidence .reading").inner_text().startswith("row 20: −")


CONTRAST = """() => {
  const light = (text) => {
    const parts = text.match(/[\\d.]+/g).slice(0, 3).map((one) => one / 255);
    const [r, g, b] = parts.map((one) => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const color = getComputedStyle(one).backgroundColor;
      if (color.startsWith("rgb(")) return color;
    }
    return "rgb(255, 255, 255)";
  };
  const texts = [...document.querySelectorAll("h1, h2, h3, h4, p, dt, dd, th, td, button, caption, label, a, li")];
  return Math.min(...texts.filter((one) => one.textContent.trim() && !one.disabled).map((one) => {
    const pair = [light(getComputedStyle(one).color), light(behind(one))].sort();
    return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
  }));
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_and_width(browser, page, tmp_path, scheme):
    """Text has the contrast that WCAG 2.2 asks for (4.5), and the page fits 320 pixels."""
    (tmp_path / "service.toml").write_text(CONFIG)
    (tmp_path / "readings.ndjson").write_bytes(b"".join(payloads_of(readings())))
    with serving(tmp_path) as (_, client):
        wait_for(client, 600)
        page.emulate_media(color_scheme=scheme)
        opened(page, str(client.base_url))
        page.locator("#chart-evidence path").wait_for()
        assert page.evaluate(CONTRAST) >= 4.5
        for width in (1280, 400, 320):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_ten_thousand_keys(page, tmp_path):
    """Only a page of them is in the document, and turning it takes well below a second."""
    num_keys = 10_000
    config = CONFIG.replace("batch_size = 10", "batch_size = 2").replace("0.05", "1e9")
    (tmp_path / "service.toml").write_text(config)
    lines = [json.dumps({"sensor": f"k{key:05d}", "pressure": key % 7 / 7}) for key in range(num_keys)]
    (tmp_path / "readings.ndjson").write_text("\n".join([*lines, *lines, ""]))
    with serving(tmp_path) as (_, client):
        wait_for(client, 2 * num_keys)
        opened(page, str(client.base_url))
        assert page.locator("#keys-caption").inner_text() == "10,000 keys"
        assert page.locator("#keys tr").count() == 25
        page.get_by_role("searchbox", name="Key").fill("k07123")
        page.locator("#keys-caption", has_text="1 key").wait_for()
        page.get_by_role("searchbox", name="Key").fill("")
        page.locator("#keys-caption", has_text="10,000 keys").wait_for()
        started = page.evaluate("() => performance.now()")
        page.get_by_role("button", name="Next").click()
        page.locator("#page", has_text="26 to 50 of 10,000").wait_for()
        assert page.evaluate("() => performance.now()") - started < 2_000
        assert page.evaluate("() => document.querySelectorAll('*').length") < 1_000
