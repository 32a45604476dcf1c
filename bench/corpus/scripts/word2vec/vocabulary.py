"""Words to pairs."""
from collections import Counter

TEXT = "the quick fox jumps over the lazy dog the fox sleeps"


def pairs(window=2):
    words = TEXT.split()
    index = {w: i for i, (w, _) in enumerate(Counter(words).most_common())}
    out = [(index[words[i]], index[words[j]]) for i in range(len(words))
           for j in range(max(0, i - window), min(len(words), i + window + 1)) if i != j]
    return index, out
