"""Acts as a user does them in a real browser, with the user's own token, on both API servers; and what the pages do
with words of attackers, without rights, and without a server."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import pytest_asyncio

from koord.api import kinds
from koord.api.protocol import names
from tests.browser import Page, opened
from tests.console.live.conftest import Served
from tests.console.live.serving import Cluster, console, filled, metric, now, pod
from tests.minicluster.apiserver.server_process import ServerProcess
from tests.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]
LATE_S = 40.0
"""Previews run commands of koord."""
HOSTILE = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser(served: Served, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Page]:
    """Signed in as a user with all rights."""
    async with signed_in(served, "operator", tmp_path_factory.mktemp("browser")) as page:
        yield page


@asynccontextmanager
async def signed_in(served: Served, account: str, folder: Path) -> AsyncIterator[Page]:
    async with opened(served.url, folder) as page:
        await page.until("document.querySelector('input[type=password]')")
        await page.ask("Emulation.setDeviceMetricsOverride", width=1280, height=900, deviceScaleFactor=1, mobile=False)
        await page.click("input[type=password]")
        await page.write(served.cluster.token(account))
        await page.press("Enter")
        await page.until("document.querySelector('nav.pages') && !document.querySelector('[aria-busy]')")
        yield page


async def shown(page: Page, served: Served, path: str) -> None:
    await page.go(served.url + path)
    await page.until("document.querySelector('h1') && !document.querySelector('main [aria-busy]')", LATE_S)


async def previewed(page: Page) -> str:
    await page.until("document.querySelector('dialog[open] .main')", LATE_S)
    await page.until("document.querySelector('dialog .main').textContent != 'Close'", LATE_S)
    text: str = await page.evaluate("document.querySelector('dialog').innerText")
    return text


async def ended(page: Page) -> None:
    """Waits until no step of the act is left."""
    await page.until("[...document.querySelectorAll('dialog .main')].some(one => one.textContent == 'Close')", LATE_S)
    await page.until("!/waits|…$/m.test(document.querySelector('dialog .rows').innerText)", LATE_S)


async def typed(page: Page, label: str, text: str) -> None:
    await page.click("dialog label.field", label)
    await page.write(text)


def config(served: Served) -> dict[str, str]:
    stored = served.cluster.ask(
        lambda api: api.get(kinds.CONFIG_MAPS, names.CONFIGMAP_SLO_CONTROLLER, namespace=names.NAMESPACE_KOORDINATOR)
    )
    return dict(stored.data)


async def test_a_node_is_switched_off_and_the_way_back_is_one_button(browser: Page, served: Served) -> None:
    page = browser
    await shown(page, served, "/nodes/n2")
    await page.click("button", "Turn lending off")
    text = await previewed(page)
    assert "6.0 cores, 20.0 GiB" in text
    await page.until("document.activeElement.textContent == 'Cancel'")
    await typed(page, "Why", "a disk is swapped")
    await page.click("dialog .main", "Turn lending off")
    await ended(page)
    await page.press("Escape")
    await page.until("document.body.innerText.includes('Turn lending on')")
    await shown(page, served, "/changes")
    await page.until(
        "document.querySelector('tbody').innerText && document.body.innerText.includes('a disk is swapped')"
    )
    await page.click("td button", "Undo")
    assert "would lend again" in await previewed(page)
    await page.click("dialog .main", "Turn lending on")
    await ended(page)
    await page.press("Escape")
    nodes = served.cluster.ask(lambda api: api.list(kinds.NODES))
    assert not any("colocation-strategy" in key for node in nodes for key in node.metadata.annotations)


async def test_the_pods_that_go_are_named_before_they_go(browser: Page, served: Served) -> None:
    page = browser
    served.cluster.ask(lambda api: api.create(kinds.PODS, pod("going", "n2", batch=True)))
    until(lambda: served.operator.ask("GET", "/api/v1/pods/shop/going").status == 200, what="the pod is known")
    await shown(page, served, "/nodes/n2")
    await page.click("button", "Turn lending off")
    await previewed(page)
    await page.click("dialog input[type=checkbox]")
    await page.until("document.querySelector('dialog .main').textContent == 'Evict 1 pod'", LATE_S)
    assert "shop/going" in await page.evaluate("document.querySelector('dialog').innerText")
    await page.click("dialog .main", "Evict 1 pod")
    await ended(page)
    await page.click("dialog button", "Undo")
    await previewed(page)
    await page.click("dialog .main", "Turn lending on")
    await ended(page)
    await page.press("Escape")


async def test_thresholds_of_a_pool_are_changed_in_a_form(browser: Page, served: Served) -> None:
    page = browser
    await shown(page, served, "/changes")
    await page.click("button", "Thresholds")
    await page.until("document.querySelectorAll('dialog select option').length > 2")
    await chosen(page, 0, "pool=batch")
    await page.until("document.querySelectorAll('dialog input[type=number]').length > 3")
    await typed(page, "CPU usage above which batch is held back", "60")
    await page.click("dialog .main", "Preview")
    text = await previewed(page)
    assert "not set → 60" in text
    await page.click("dialog .main", "Change 1 threshold")
    await ended(page)
    assert (
        json.loads(config(served)["resource-threshold-config"])["nodeStrategies"][0]["cpuSuppressThresholdPercent"]
        == 60
    )
    await page.click("dialog button", "Undo")
    await previewed(page)
    await page.click("dialog .main")
    await ended(page)
    await page.press("Escape")
    assert "cpuSuppressThresholdPercent" not in config(served)["resource-threshold-config"]


async def chosen(page: Page, number: int, value: str) -> None:
    """Chooses in a list of the dialog, as the keyboard does."""
    await page.evaluate(
        f"(() => {{ const list = document.querySelectorAll('dialog select')[{number}]; list.value = '{value}';"
        " list.dispatchEvent(new Event('change', {bubbles: true})) })()"
    )


async def test_a_policy_is_previewed_and_left_alone(browser: Page, served: Served) -> None:
    page = browser
    before = config(served)
    await shown(page, served, "/changes")
    await page.click("button", "Policy")
    await page.until("document.querySelectorAll('dialog select').length == 3")
    await chosen(page, 0, "pool=web")
    await page.until("document.querySelectorAll('dialog select').length == 3")
    await chosen(page, 1, "maxUsageRequest")
    await page.click("dialog .main", "Preview")
    text = await previewed(page)
    assert "maxUsageRequest" in text
    assert "Nodes would lend, by their last reports" in text
    await page.press("Escape")
    await page.until("!document.querySelector('dialog')")
    assert config(served) == before


async def test_a_roll_out_is_started_and_undone(browser: Page, served: Served) -> None:
    page = browser
    await shown(page, served, "/changes")
    await page.evaluate(
        "[...document.querySelectorAll('tr')].find(row => row.innerText.startsWith('cpu-burst'))"
        ".querySelector('button').click()"
    )
    text = await previewed(page)
    assert "would get cpu-burst at the first step" in text
    word = served.operator.preview("rollout-start", {"feature": "cpu-burst"})["typeToConfirm"]
    if word:
        await typed(page, "Type", word)
    await page.click("dialog .main", "Start the roll-out")
    await ended(page)
    await page.click("dialog button", "Undo")
    await previewed(page)
    await page.click("dialog .main")
    await ended(page)
    await page.press("Escape")


async def test_words_of_attackers_are_text(browser: Page, served: Served) -> None:
    page = browser
    served.cluster.ask(lambda api: api.create(kinds.PODS, pod("hostile", "", batch=True)))
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": HOSTILE}
    status = {"status": {"phase": "Pending", "conditions": [condition]}}
    served.cluster.ask(lambda api: api.patch(kinds.PODS, "hostile", status, namespace="shop", subresource="status"))
    event = {
        "metadata": {"name": "hostile.1", "namespace": "shop"},
        "reason": "Descheduled",
        "note": HOSTILE,
        "type": "Normal",
        "action": "Evicting",
        "eventTime": f"{now()[:-1]}.000000Z",
        "reportingController": "koord.sh/test",
        "reportingInstance": "test",
        "regarding": {"kind": "Pod", "namespace": "shop", "name": "hostile", "apiVersion": "v1"},
    }
    served.cluster.ask(lambda api: api.create(kinds.EVENTS, event))
    for path in ("/pods/shop/hostile", "/changes", "/pending", f"/nodes?filter={HOSTILE}", f"/pods/shop/{HOSTILE}"):
        await shown(page, served, path)
        assert await page.evaluate("document.querySelectorAll('img').length") == 0, path
        assert await page.evaluate("document.title") != "taken", path
    await shown(page, served, "/changes")
    assert "<img src=x" in await page.text(), "it is shown as text"
    served.cluster.ask(lambda api: api.delete(kinds.PODS, "hostile", namespace="shop", grace_s=0))


async def test_without_the_right_a_button_says_which_one_is_missing(served: Served, tmp_path: Path) -> None:
    async with signed_in(served, "viewer", tmp_path) as page:
        await shown(page, served, "/nodes/n1")
        await page.until("document.querySelector('.acts [aria-disabled=true]')")
        why = await page.evaluate("document.querySelector('.acts [aria-disabled=true]').title")
        assert "patch nodes" in why
        assert "koord colocation off" in why
        assert "pods you may not see" in await page.text()
        await page.click(".acts [aria-disabled=true]")
        await page.until("document.querySelector('.said')?.textContent.includes('You lack')")
        assert await page.evaluate("document.querySelectorAll('dialog').length") == 0
        await shown(page, served, "/pods/shop/web-1")
        assert "lacks: list pods in shop" in await page.text()


async def test_a_server_that_is_gone_leaves_figures_with_their_time(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--durability", "fast") as server:
        cluster = Cluster(tmp_path / "data" / "kubeconfig")
        with console(cluster.kubeconfig, tmp_path) as link:
            async with opened(link, tmp_path) as page:
                await page.until("document.body.innerText.includes('This cluster has no nodes yet')")
                assert "koord up --demo" in await page.text(), "an empty cluster says what to do first"
                filled(cluster.kubeconfig)
                await page.until("document.body.innerText.includes('3 nodes') && koordMap.ms > 0")
                server.kill()
                await page.until("document.body.innerText.includes('the API server does not answer')", 90)
                assert "3 nodes" in await page.text(), "figures stay"
                server.start()
                report = metric("n1")
                cluster.ask(lambda api: api.patch(kinds.NODE_METRICS, "n1", report, subresource="status"))
                await page.until("!document.querySelector('.banner')", 90)


async def test_a_console_that_is_gone_says_so_and_asks_to_sign_in_when_it_is_back(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", "--durability", "fast"):
        kubeconfig = filled(tmp_path / "data" / "kubeconfig").kubeconfig
        with console(kubeconfig, tmp_path) as link:
            address = link.partition("//")[2].partition("/")[0]
            browser = opened(link, tmp_path)
            page = await browser.__aenter__()
            try:
                await page.until("koordMap.ms > 0")
            except BaseException:
                await browser.__aexit__(None, None, None)
                raise
        try:
            await page.until("document.querySelector('.banner')?.textContent.includes('the console does not answer')")
            await page.until("document.querySelector('.dot.hollow')?.textContent.includes('no connection')")
            with console(kubeconfig, tmp_path, "--address", address):
                await page.until("document.body.innerText.includes('You are not signed in')", 60)
        finally:
            await browser.__aexit__(None, None, None)
