"""Takes the pictures of a report for the documents: `python -m tests.support.pages.report_pictures PAGE FOLDER`."""

import sys
from pathlib import Path

from playwright.sync_api import FloatRect, ViewportSize

from tests.support.pages.browser import NARROW, chromium

DESK: ViewportSize = {"width": 1000, "height": 1000}
PICTURES = {
    "report": ("light", DESK, None),
    "report-dark": ("dark", DESK, None),
    "report-phone": ("light", NARROW, None),
    "report-whatif": ("light", DESK, "What if"),
}
"""By file name: colour scheme, screen, and the heading of the one section that is shown; without one the beginning."""
PHONE_SCREENS = 2


def take(page_file: Path, folder: Path) -> list[Path]:
    """Save all pictures and return their files."""
    folder.mkdir(parents=True, exist_ok=True)
    saved = []
    with chromium() as browser:
        for name, (scheme, size, heading) in PICTURES.items():
            context = browser.new_context(viewport=size, color_scheme=scheme, device_scale_factor=1)
            page = context.new_page()
            page.goto(page_file.resolve().as_uri())
            path = folder / f"{name}.png"
            if heading is not None:
                page.locator("section", has=page.locator("h2", has_text=heading)).screenshot(
                    path=path
                )
            else:
                # On a desk up to the end of the second section.
                box = page.locator("section").nth(1).bounding_box()
                end = (
                    NARROW["height"] * PHONE_SCREENS
                    if size is NARROW or box is None
                    else box["y"] + box["height"]
                )
                clip = FloatRect(x=0, y=0, width=size["width"], height=end)
                page.screenshot(path=path, clip=clip, full_page=True)
            context.close()
            saved.append(path)
    return saved


if __name__ == "__main__":
    for each in take(Path(sys.argv[1]), Path(sys.argv[2])):
        print(each)  # noqa: T201 - a command
