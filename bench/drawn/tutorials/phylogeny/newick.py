"""Trees in Newick's format."""
import re


class Tip:
    children = ()

    def __init__(self, name=None):
        self.name, self.length = name, 0


def parse(text, lengths):
    """Read a tree whose branch lengths are indices into `lengths`."""
    tokens = iter(re.findall(r"[(),;]|[^(),;:\s]+|:", text))
    stack, current = [], Tip()
    for token in tokens:
        if token == "(":
            current.children = [Tip()]
            stack.append(current)
            current = current.children[0]
        elif token == ",":
            stack[-1].children.append(Tip())
            current = stack[-1].children[-1]
        elif token == ")":
            current = stack.pop()
        elif token == ":":
            current.length = lengths[int(next(tokens))]
        elif token != ";":
            current.name = token
    return current
