"""The two kinds of failure that a person can act on: what they gave was wrong, or the numbers broke."""


class UserError(ValueError):
    """Something that the user gave is wrong; the message is one line that names the field, file or value (exit code 2)."""


class NonFiniteError(ArithmeticError):
    """A state, weight or loss is NaN or infinite; the message says which, where and when (exit code 1)."""
