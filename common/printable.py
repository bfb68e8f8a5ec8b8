"""Text from elsewhere made safe for one line of a log or a screen."""


def printable(text: str) -> str:
    """The text with everything that is not printable, line feeds included, as escapes: `\\x1b` for ESC."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
