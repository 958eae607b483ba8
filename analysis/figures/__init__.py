"""Report(s) -> matplotlib Figure, one function per figure of a paper; `FIGURES` lists them all.

Every function draws Reports only, takes `ax=` where it is one axes, and has the caption that we would print as its docstring.
"""
