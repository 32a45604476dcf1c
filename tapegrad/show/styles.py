"""Styles as data: what each part of a printed tape looks like on a terminal."""

# The colours are Okabe and Ito's, which the colour-blind tell apart (Wong, Nature Methods 8, 441), less the yellow and
# the dark blue that a white or a black background swallows. Nothing is said by colour alone: a mark or the note says it too.
STYLES = {
    # the roles of an operation
    "input": "bold",
    "constant": "dim",
    "primal": "",
    "guard": "#d55e00",
    "triple": "#56b4e9",
    "seed": "bold #e69f00",
    "pullback": "#cc79a7",
    "accumulation": "#e69f00",
    "gradient": "bold #009e73",
    # what became of one
    "removed": "#d55e00",
    "added": "bold #009e73",
    "changed": "#e69f00",
    "was": "dim #e69f00",
    "same": "dim",
    # the kinds of a foreign function
    "differentiable": "bold #009e73",
    "composite": "#009e73",
    "non-differentiable": "",
    "constructor": "#56b4e9",
    "plain": "dim",
    "refused": "#d55e00",
    "unknown": "bold #e69f00",
    # the other columns
    "header": "bold",
    "title": "bold",
    "function": "bold",
    "type": "",
    "value": "",
    "note": "italic",
    "line": "dim",
    "source": "dim",
    "text": "bold",
    "rule": "dim",
}

# What stands between a variable and its operation: on a terminal of Unicode, and of ASCII.
MARKS = {
    "input": ("→", ">"),
    "guard": ("?", "?"),
    "triple": ("⋮", ":"),
    "seed": ("●", "*"),
    "pullback": ("←", "<"),
    "accumulation": ("+", "+"),
    "gradient": ("∇", "="),
}
