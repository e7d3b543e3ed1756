"""Sets of words, for lists that are easier to read as a text."""


def words(text: str) -> frozenset[str]:
    """The words of a text."""
    return frozenset(text.split())
