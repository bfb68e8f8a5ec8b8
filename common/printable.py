"""Make foreign text safe for one line of a log or a screen."""


def printable(text: str) -> str:
    """The text with escapes for all characters that are not printable, line feeds included: `\\x1b` for ESC."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
