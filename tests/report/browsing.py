"""Opening a page in a real browser."""

from __future__ import annotations

from pathlib import Path

PHONE, DESK = (390, 844), (1280, 900)


def look(browser, path: Path, size: tuple[int, int] = DESK, scheme: str = "light"):
    """Open a file offline; returns the page with the list that its complaints go to.

    Complaints are what the console says (policies that were broken, errors), dialogs, and
    requests for anything but the file (offline, they fail).
    """
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, offline=True
    )
    page, complaints, own = context.new_page(), [], path.as_uri()

    def dismiss(dialog) -> None:
        complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def loads(request) -> None:
        if request.url != own:
            complaints.append(f"loads {request.url}")

    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", dismiss)
    page.on("requestfinished", loads)
    # What a policy does not let through is told by the console.
    page.on("requestfailed", lambda request: None if request.failure == "csp" else loads(request))
    page.goto(own)
    return page, complaints
