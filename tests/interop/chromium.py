"""A real browser: the system's Chromium, without a window, driven by Playwright; and axe, which looks at pages."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final, Literal

from playwright.async_api import Browser, BrowserContext, Page, async_playwright

from tests.interop.npm import PLACE
from tests.system.machine import need, program

Scheme = Literal["light", "dark"]
SIZES: Final = {"desk": (1280, 900), "phone": (360, 740)}
SECONDS: Final = 10.0
"""What a page may take to show what a test waits for."""

_AXE: Final = PLACE / "node_modules" / "axe-core" / "axe.min.js"
_ARGUMENTS: Final = ["--disable-gpu", "--disable-dev-shm-usage"]


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Run the browser."""
    need("a browser", {"chromium": "chromium"}, root=False)
    arguments = [*_ARGUMENTS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]  # root has no user namespace for it
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=program("chromium"), args=arguments)
        try:
            yield browser
        finally:
            await browser.close()


class Window:
    """A window of a browser of its own. ``asked`` are the addresses that it asked for, ``complaints`` what it says."""

    def __init__(self, context: BrowserContext, page: Page) -> None:
        self.context = context
        self.page = page
        self.asked: list[str] = []
        self.complaints: list[str] = []
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("console", lambda message: self.complaints.append(message.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))


@asynccontextmanager
async def window(
    browser: Browser, *, size: str = "desk", scheme: Scheme = "light", scripts: bool = True
) -> AsyncIterator[Window]:
    """Open a window that knows nothing yet."""
    width, height = SIZES[size]
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=scheme,
        java_script_enabled=scripts,
        locale="en-GB",
        timezone_id="Europe/Berlin",
    )
    context.set_default_timeout(SECONDS * 1000)
    try:
        yield Window(context, await context.new_page())
    finally:
        await context.close()


async def faults(page: Page) -> list[dict[str, Any]]:
    """Return what axe finds wrong with a page, each with the elements that it is about."""
    await page.evaluate(_AXE.read_text(encoding="utf-8"))
    found = await page.evaluate("axe.run()")
    return [
        {
            "rule": each["id"],
            "impact": each["impact"],
            "nodes": [(node["html"], node["failureSummary"]) for node in each["nodes"]],
        }
        for each in found["violations"]
    ]
