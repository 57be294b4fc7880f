"""A real headless Chromium that opens pages, and what people would notice there. It reaches no network."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL
from typing import Any

import aiohttp

from tests.crowd import crowd
from tests.waiting import eventually

WITHIN_S = 30.0
SOON_S = 15.0
"""What a user waits for."""
OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-sync",
    "--disable-extensions",
    "--disable-default-apps",
    "--disable-component-update",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-port=0",
)
LOOKS = """wide => {
  const box = each => each.getBoundingClientRect();
  const cut = [...document.querySelectorAll('h1,h2,p,svg,figcaption,td,th,dt,dd,footer')]
    .filter(each => box(each).right > wide + 1 || box(each).left < -1).map(each => each.textContent.slice(0, 60));
  const overlapping = [];
  for (const svg of document.querySelectorAll('svg')) {
    const texts = [...svg.querySelectorAll('text')];
    texts.forEach((a, i) => texts.slice(i + 1).forEach(b => {
      const [x, y] = [box(a), box(b)];
      if (x.left < y.right && y.left < x.right && x.top < y.bottom - 1 && y.top < x.bottom - 1)
        overlapping.push(a.textContent + ' / ' + b.textContent);
    }));
  }
  const heights = [...document.querySelectorAll('svg text')].map(each => box(each).height);
  const drawn = [...document.querySelectorAll('svg polyline, svg polygon')].map(each => box(each).width);
  return {wide: document.documentElement.scrollWidth, cut, overlapping,
    smallest: Math.min(...heights), drawn, title: document.title};
}"""


class Failed(AssertionError):
    """An expression that raised."""


@dataclass
class Page:
    """A page as a user sees it."""

    _socket: aiohttp.ClientWebSocketResponse
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    "What the console shows as errors or warnings."
    _number: int = 0

    async def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The answer to a command; events that come before it are kept."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        async with asyncio.timeout(WITHIN_S * crowd()):
            while True:
                said = await self._socket.receive_json()
                if said.get("id") == self._number:
                    assert "error" not in said, said
                    found: dict[str, Any] = said["result"]
                    return found
                self._hear(said)

    def _hear(self, event: dict[str, Any]) -> None:
        told = event.get("params", {})
        match event.get("method"):
            case "Network.requestWillBeSent":
                self.requests.append(told["request"]["url"])
            case "Log.entryAdded" if told["entry"]["level"] in ("error", "warning"):
                self.complaints.append(told["entry"]["text"])
            case "Runtime.exceptionThrown":
                self.complaints.append(str(told["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if told["type"] in ("error", "warning", "assert"):
                self.complaints.append(str(told["args"]))

    async def evaluate(self, expression: str) -> Any:
        found = await self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise Failed(str(found))
        return found["result"].get("value")

    # What a user does.

    async def go(self, url: str) -> None:
        """Opens an address; the page is loaded when this returns."""
        await self.ask("Page.navigate", url=url)
        await self.until("document.readyState == 'complete'")

    async def until(self, expression: str, within_s: float = SOON_S) -> None:
        """Waits until an expression is true."""
        await eventually(lambda: self.evaluate(f"Boolean({expression})"), within_s, what=expression, retry_on=Failed)

    async def click(self, selector: str, text: str = "") -> None:
        """Clicks the first visible element that matches, and has the text in it."""
        find = f"""[...document.querySelectorAll({json.dumps(selector)})].find(each =>
          each.textContent.includes({json.dumps(text)}) && each.getClientRects().length)"""
        await self.until(f"!!({find})")
        x, y = await self.evaluate(
            f"(() => {{ const found = {find}; found.scrollIntoView({{block: 'center'}});"
            " const box = found.getBoundingClientRect();"
            " return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            await self.ask("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    async def press(self, key: str) -> None:
        """A key, as `Enter` or `j`."""
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        code = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowRight": 39, "ArrowDown": 40}.get(key, 0)
        pressed = {"key": key, "windowsVirtualKeyCode": code}
        await self.ask("Input.dispatchKeyEvent", type="keyDown", text=text, **pressed)
        await self.ask("Input.dispatchKeyEvent", type="keyUp", **pressed)

    async def write(self, text: str) -> None:
        """Text into what has the focus."""
        await self.ask("Input.insertText", text=text)

    async def text(self) -> str:
        """What the page says."""
        said: str = await self.evaluate("document.body.innerText")
        return said

    async def look(self, width: int, picture: Path | None = None) -> dict[str, Any]:
        """The page in a window of this width. `picture`: where a screenshot goes."""
        await self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        # Two frames later the page has its new shape.
        await self.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        found: dict[str, Any] = await self.evaluate(f"({LOOKS})({width})")
        if picture is not None:
            shot = await self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True)
            await asyncio.to_thread(picture.write_bytes, base64.b64decode(shot["data"]))
        return found


@asynccontextmanager
async def opened(page: Path | str, folder: Path) -> AsyncIterator[Page]:
    """`folder`: where the browser keeps what it keeps."""
    where = (f"--user-data-dir={folder / 'profile'}", "about:blank")
    process = await asyncio.create_subprocess_exec("chromium", *OPTIONS, *where, stdout=DEVNULL, stderr=DEVNULL)
    try:

        def listens_at() -> int | None:
            assert process.returncode is None, "the browser has ended"
            return _port(folder / "profile" / "DevToolsActivePort")

        port = await eventually(listens_at, WITHIN_S)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                target = next(each for each in await answer.json() if each["type"] == "page")
            async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                found = Page(socket)
                for domain in ("Network", "Log", "Runtime", "Page"):
                    await found.ask(f"{domain}.enable")
                await found.ask("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
                loaded = "new Promise(done => document.readyState == 'complete' ? done() : onload = done)"
                await found.evaluate(loaded)
                yield found
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def _port(told: Path) -> int:
    """Where the browser can be spoken to; 0 as long as it does not say."""
    said = told.read_text().split() if told.exists() else []
    return int(said[0]) if said else 0
