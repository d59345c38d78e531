"""A page with the step view, and a reader's actions."""

from __future__ import annotations

from contextlib import contextmanager


class Stepper:
    """A page with the step view, and a reader's actions."""

    def __init__(self, page):
        self.page = page
        self.errors = []
        self.requests = []
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on(
            "console",
            lambda m: self.errors.append(m.text) if m.type in {"error", "warning"} else None,
        )
        page.on(
            "request",
            lambda r: self.requests.append(r.url) if not r.url.startswith("file:") else None,
        )

    def open(self, path):
        self.page.goto(path.as_uri())
        self.page.locator(".root").wait_for()
        self.page.locator(".root").focus()

    def press(self, *keys):
        for key in keys:
            self.page.keyboard.press(key)

    @property
    def step(self):
        return int(self.page.locator(".root").get_attribute("data-step"))

    @property
    def status(self):
        return self.page.get_by_role("status").inner_text()

    @property
    def tab(self):
        return self.page.locator(".pane").get_attribute("data-tab")

    def button(self, name):
        return self.page.get_by_role("button", name=name, exact=True)

    def choose(self, name):
        """Go to the first stage of a name, by a click on it."""
        self.page.locator(".pass .name").get_by_text(name, exact=True).first.click()


@contextmanager
def opened(context, path):
    """The page of this file in a new tab; it must leave no error on the console."""
    stepper = Stepper(context.new_page())
    stepper.page.set_default_timeout(30_000)
    stepper.open(path)
    yield stepper
    assert stepper.errors == []
