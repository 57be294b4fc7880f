"""The console's pages in a real browser, on a small cluster at work, as a user goes through them."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from tests.browser import Page, opened
from tests.console.demo import NODES, Demo, demo
from tests.console.packages import installed

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
DESK, PHONE = 1280, 390
NODE = "hollow-0001"
PICTURES = os.environ.get("KOORD_PICTURES")
"""A folder for the pictures of the tour, as docs/pictures has them: of more nodes, which takes longer."""
PAGES = ("/", "/pending", "/nodes", f"/nodes/{NODE}", "/services", "/quotas", "/changes", "/worth", "/health")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with demo(tmp_path_factory.mktemp("console"), 50 if PICTURES else NODES) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(cluster: Demo, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Page]:
    """Signed in by the link."""
    async with opened(cluster.link, tmp_path_factory.mktemp("browser")) as page:
        await page.until("document.querySelector('h1')?.textContent.includes('.')")
        yield page


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Page, cluster: Demo) -> AsyncIterator[Page]:
    """On a desk, without complaints of earlier tests."""
    await wide(browser, DESK)
    browser.requests.clear()
    browser.complaints.clear()
    yield browser


async def wide(page: Page, width: int) -> None:
    await page.ask(
        "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
    )


async def shown(page: Page, url: str) -> None:
    """Opens a page and waits until its panels have what they show."""
    await page.go(url)
    await page.until("document.querySelector('h1') && !document.querySelector('[aria-busy]')")


async def test_the_link_signs_in_and_leaves_no_token_behind(page: Page, cluster: Demo) -> None:
    assert "token" not in await page.evaluate("location.href")
    assert "token" not in await page.evaluate("document.referrer")
    assert await page.evaluate("document.cookie") == "", "scripts can read the cookie"


async def test_every_page_opens_with_a_sentence_and_asks_nobody_else(page: Page, cluster: Demo) -> None:
    for path in PAGES:
        await shown(page, cluster.address + path)
        title = await page.evaluate("document.querySelector('h1').textContent")
        assert title.endswith("."), (path, title)
        assert await page.evaluate("document.querySelectorAll('h1').length") == 1, path
        assert await page.evaluate("document.querySelectorAll('[role=alert]').length") == 0, path
    assert [url for url in page.requests if not url.startswith(cluster.address)] == []
    assert page.complaints == []


async def test_pages_fit_a_phone_and_a_desk(page: Page, cluster: Demo) -> None:
    for path in PAGES:
        await shown(page, cluster.address + path)
        for width in (DESK, PHONE, 320):
            await wide(page, width)
            await page.until(f"document.documentElement.scrollWidth <= {width}")


@pytest.mark.npm
async def test_pages_have_no_barriers(page: Page, cluster: Demo) -> None:
    axe = (installed() / "axe-core" / "axe.min.js").read_text()
    barriers: dict[str, Any] = {}
    for path in PAGES:
        await shown(page, cluster.address + path)
        await page.evaluate(axe)
        for width, theme in ((DESK, "light"), (DESK, "dark"), (PHONE, "light")):
            await wide(page, width)
            await page.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
            violations = await page.evaluate(
                "axe.run().then(told => told.violations.map(each => [each.id, each.nodes.map(node => node.html)]))"
            )
            if violations:
                barriers[f"{path} {width} {theme}"] = violations
    assert barriers == {}, json.dumps(barriers, indent=1)


async def test_keys_lead_through_the_pages(page: Page, cluster: Demo) -> None:
    await shown(page, cluster.address + "/")
    for key, path in (("n", "/nodes"), ("q", "/quotas"), ("o", "/")):
        await page.press("g")
        await page.press(key)
        await page.until(f"location.pathname == '{path}'")
    await page.press("/")
    await page.until("document.activeElement.matches('dialog input')")
    await page.write(NODE)
    await page.until(f"document.querySelector('[role=option]')?.textContent.includes('{NODE}')")
    await page.press("Enter")
    await page.until(f"location.pathname == '/nodes/{NODE}' && !document.querySelector('dialog')")
    await page.press("?")
    await page.until("document.querySelector('dialog[open] .keys')")
    await page.press("Escape")
    await page.until("!document.querySelector('dialog')")
    before = await page.evaluate("document.documentElement.dataset.theme")
    await page.press("t")
    await page.until(f"document.documentElement.dataset.theme != '{before}'")
    await page.press("t")


async def test_the_map_names_a_node_and_opens_it(page: Page, cluster: Demo) -> None:
    await shown(page, cluster.address + "/")
    await page.until("koordMap.ms > 0")
    await page.evaluate("document.querySelector('canvas[role=application]').focus()")
    await page.press("ArrowRight")
    await page.until("document.body.innerText.includes('hollow-0001')")
    await page.press("Enter")
    await page.until(f"location.pathname == '/nodes/{NODE}'")


async def test_a_list_keeps_its_filter_and_sort_in_the_link(page: Page, cluster: Demo) -> None:
    await shown(page, cluster.address + "/nodes")
    await page.click("input[type=search]")
    await page.write("0003")
    await page.until("location.search.includes('filter=0003')")
    await page.until("document.querySelectorAll('tbody tr').length == 1")
    await page.click("th button", "Used")
    await page.until("location.search.includes('sort=-usedPermille')")
    await shown(page, await page.evaluate("location.href"))
    assert await page.evaluate("document.querySelectorAll('tbody tr').length") == 1


async def test_figures_arrive_without_a_reload(page: Page, cluster: Demo) -> None:
    await shown(page, cluster.address + "/")
    before = await page.evaluate("document.querySelector('.dot').textContent")
    await page.until(f"document.querySelector('.dot').textContent != {json.dumps(before)}")


async def test_nobody_else_may_frame_the_pages(cluster: Demo) -> None:
    async with aiohttp.ClientSession() as session, session.get(cluster.address) as answer:
        policy = answer.headers["Content-Security-Policy"]
        assert "frame-ancestors 'none'" in policy
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert answer.headers["Referrer-Policy"] == "no-referrer"


async def test_without_a_session_the_page_says_how_to_get_in(cluster: Demo, tmp_path: Path) -> None:
    async with opened(cluster.address, tmp_path) as page:
        await page.until("document.body.innerText.includes('You are not signed in')")
        await page.click("input")
        await page.write("not-a-token")
        await page.press("Enter")
        await page.until("document.body.innerText.includes('does not accept it')")


@pytest.mark.timeout(600)
async def test_a_tour_from_the_overview_to_a_pod_and_a_preview(page: Page, cluster: Demo) -> None:
    """The way of docs/console.md. With KOORD_PICTURES it takes the pictures there, once there is a course to see."""
    await shown(page, cluster.address + "/")
    await page.until("koordMap.ms > 0")
    if PICTURES:
        await page.until("document.body.innerText.includes('pending') && +koordMap.ms > 0")
        await asyncio.sleep(120)
    await page.until("document.querySelector('.chart canvas')", 60)
    await pictured(page, "overview", 1080)
    for text in ("Services ready", "Lent to batch", "Needs attention", "Why pods are pending", "Tenants"):
        assert text in await page.text()
    await wide(page, PHONE)
    await pictured(page, "phone", 1400, PHONE)
    await wide(page, DESK)
    await shown(page, f"{cluster.address}/nodes/{NODE}")
    await page.until("document.body.innerText.includes('Lent now')")
    await themed(page, "dark")
    await pictured(page, "node-dark", 900)
    await themed(page, "light")
    await page.click("button", "Turn lending off")
    await page.until("document.querySelector('dialog .main')", 60)
    assert "taken back at once" in await page.evaluate("document.querySelector('dialog').innerText")
    await pictured(page, "preview", 800)
    await page.press("Escape")
    await page.until("!document.querySelector('dialog')")
    await page.evaluate("document.querySelector('td.name a.mono').click()")
    await page.until("location.pathname.startsWith('/pods/')")
    await page.until("document.querySelector('.road') && !document.querySelector('[aria-busy]')", 60)
    await pictured(page, "pod", 1100)
    for text in ("Path to a node", "Why on this node", "Copy command"):
        assert text in await page.text()
    assert page.complaints == []


async def themed(page: Page, theme: str) -> None:
    if await page.evaluate("document.documentElement.dataset.theme") != theme:
        await page.press("t")
        await page.until(f"document.documentElement.dataset.theme == '{theme}'")


async def pictured(page: Page, name: str, high: int, width: int = DESK) -> None:
    if not PICTURES:
        return
    metrics = {"width": width, "height": high, "deviceScaleFactor": 1, "mobile": width == PHONE}
    await page.ask("Emulation.setDeviceMetricsOverride", **metrics)
    await asyncio.sleep(1)
    picture = await page.ask("Page.captureScreenshot", format="png")
    await asyncio.to_thread((Path(PICTURES) / f"{name}.png").write_bytes, base64.b64decode(picture["data"]))
    await wide(page, width)
