"""How SQL writes a name and a text: in quotes, with each quotation mark inside them twice."""


def quoted_name(name: str, mark: str = '"') -> str:
    """Return the name of a column or table quoted for SQL; Spark's quotation mark is a backtick."""
    return mark + name.replace(mark, mark * 2) + mark


def quoted_text(text: str) -> str:
    return quoted_name(text, "'")
