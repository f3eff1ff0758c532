"""A widget on the page that is open: its fields, its buttons, what it shows."""

SET = """
const field = document.querySelector(arguments[0] + ' [name="' + arguments[1] + '"]');
field.value = arguments[2];
field.dispatchEvent(new Event('input', {bubbles: true}));
field.dispatchEvent(new Event('change', {bubbles: true}));
"""


class Form:
    def __init__(self, browser, name):
        self.browser = browser
        self.root = f'.widget[data-widget="{name}"]'

    def set(self, **fields):
        for name, value in fields.items():
            self.browser.execute_script(SET, self.root, name, str(value))

    def press(self, button):
        """Presses the button of that text or name, as a mouse or the Enter key does."""
        self.browser.execute_script(
            "const found = [...document.querySelectorAll(arguments[0] + ' button')].filter("
            "  b => b.textContent.trim() === arguments[1] || b.name === arguments[1]);"
            "if (found.length !== 1) throw new Error(found.length + ' buttons ' + arguments[1]);"
            "found[0].click();", self.root, button)

    def value(self, key):
        """The text of the element that shows the value `key`."""
        return self.text(f'[data-value="{key}"]')

    def message(self):
        return self.text(".widget-message")

    def view(self):
        """The view as HTML."""
        return self.browser.execute_script(
            "return document.querySelector(arguments[0]).innerHTML", f"{self.root} .widget-view")

    def field(self, name):
        """A field or a button, to be pressed by key or asked for a property."""
        return self.browser.find_element("css selector", f'{self.root} [name="{name}"]')

    def count(self, selector):
        return self.browser.execute_script(
            "return document.querySelectorAll(arguments[0]).length", f"{self.root} {selector}")

    def text(self, selector):
        return self.browser.execute_script(
            "return document.querySelector(arguments[0])?.textContent", f"{self.root} {selector}")
