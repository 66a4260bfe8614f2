"""The one exception that users see: a sentence that says what is wrong, where, and what to do."""


class FadiffError(Exception):
    """Bad input. The command line prints the message and exits with code 2; it never shows a traceback."""
