"""The page of settings is made of the code, and is today's."""

from __future__ import annotations

from tests.settings.page import PAGE, page


def test_the_page_is_todays():
    assert PAGE.read_text() == page(), "`.venv/bin/python -m tests.settings.page` writes it anew"
