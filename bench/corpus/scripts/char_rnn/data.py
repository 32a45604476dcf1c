"""Letters to numbers."""
data = "hello world, hello tape"
chars = sorted(set(data))
char_to_ix = {ch: i for i, ch in enumerate(chars)}
vocab_size = len(chars)


def batches(length):
    for p in range(0, len(data) - length - 1, length):
        yield [char_to_ix[ch] for ch in data[p:p + length]], [char_to_ix[ch] for ch in data[p + 1:p + length + 1]]
