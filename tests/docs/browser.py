"""Chromium, as the tests of the site drive it.

Needs chromium-driver and python3-selenium. Without them a test says so and ends with status 4, which
ctest shows as skipped; KV_REQUIRE_BROWSER=1 makes that a failure.
"""

import json
import os
import shutil
import sys

SKIPPED = 4


def skip(why):
    if os.environ.get("KV_REQUIRE_BROWSER"):
        sys.exit(f"KV_REQUIRE_BROWSER is set, but {why}")
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


try:
    from selenium import webdriver
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.chrome.service import Service
except ImportError:
    skip("python3-selenium is not here")

ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--disable-dev-shm-usage", "--allow-file-access-from-files")


def open_browser(runs_scripts=True):
    """A browser without a window; where pages' scripts do not run, those of a test still do."""
    # Named, or newer versions of selenium would look for one to download.
    driver = shutil.which("chromedriver") or skip("there is no chromedriver")
    options = webdriver.ChromeOptions()
    for argument in ARGUMENTS:
        options.add_argument(argument)
    if not runs_scripts:
        options.add_experimental_option(
            "prefs", {"profile.managed_default_content_settings.javascript": 2})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    try:
        return webdriver.Chrome(service=Service(driver), options=options)
    except WebDriverException as error:
        skip(f"there is no Chromium to drive: {error.msg}")


def set_view(browser, width, scheme):
    """The window of a computer or of a telephone, in light or in dark; an open page follows."""
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 768})
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
        "features": [{"name": "prefers-color-scheme", "value": scheme},
                     {"name": "prefers-reduced-motion", "value": "reduce"}]})
    # The page hears of it with the next frame.
    browser.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")


def messages(browser):
    """What the console has said, from warnings up, since the last call."""
    return [entry["message"] for entry in browser.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING")]


def outside_requests(browser):
    """Addresses beyond the disk that pages have asked for since the last call."""
    found = []
    for entry in browser.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = message["params"]["request"]["url"]
            if not url.startswith(("file:", "data:", "blob:", "about:")):
                found.append(url)
    return found
