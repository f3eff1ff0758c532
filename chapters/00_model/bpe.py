"""Byte-level BPE as in GPT-2: trained here, stored in the GGUF file, used again by sample.py.

A text is cut into words by a pattern, each word becomes its UTF-8 bytes, and the most frequent
neighbours are joined again and again. Every byte is a token, so nothing is ever unknown.

Source: Sennrich et al. 2016 (BPE), Radford et al. 2019 (bytes, the split pattern).
"""

import re
from collections import Counter, defaultdict

END_OF_TEXT = "<|endoftext|>"  # id 0; begins and ends a text

# GPT-2's pattern with two approximations, because Python's `re` has no \p{L} and \p{N}:
# [^\W\d_] stands for \p{L}, \d for \p{N}. On ASCII text both are exact.
SPLIT = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+")


def byte_to_char():
    """GPT-2's printable stand-in for each byte, so that a token can be written as text."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {byte: chr(byte) for byte in printable}
    table.update({byte: chr(256 + i) for i, byte in enumerate(others)})
    return table


BYTE_TO_CHAR = byte_to_char()
CHAR_TO_BYTE = {char: byte for byte, char in BYTE_TO_CHAR.items()}


def to_chars(text):
    return "".join(BYTE_TO_CHAR[byte] for byte in text.encode("utf-8"))


def join_pair(symbols, pair):
    """Replaces each occurrence of `pair` by one symbol, left to right."""
    joined, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == pair:
            joined.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            joined.append(symbols[i])
            i += 1
    return joined


class Bpe:
    """tokens: the vocabulary by id. merges: pairs of tokens, the most frequent first."""

    def __init__(self, tokens, merges):
        self.tokens = tokens
        self.merges = merges
        self.ids = {token: i for i, token in enumerate(tokens)}
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}
        self.word_ids = {}  # word -> ids; a text repeats its words

    @classmethod
    def train(cls, text, vocab_size):
        """Ids: 0 is END_OF_TEXT, 1 + b is byte b, then one token per merge."""
        tokens = [END_OF_TEXT] + [BYTE_TO_CHAR[byte] for byte in range(256)]
        merges = []

        word_counts = Counter(SPLIT.findall(text))
        words = [(list(to_chars(word)), count) for word, count in word_counts.items()]
        pair_counts = Counter()
        words_with = defaultdict(set)  # pair -> words it was seen in, so a merge visits only those
        for w, (symbols, count) in enumerate(words):
            for pair in zip(symbols, symbols[1:]):
                pair_counts[pair] += count
                words_with[pair].add(w)

        while len(tokens) < vocab_size:
            # Equal counts are decided by the pair itself: the result may not depend on dict order.
            best = max(pair_counts, key=lambda pair: (pair_counts[pair], pair))
            if pair_counts[best] < 2:
                raise ValueError(f"the text is too short for a vocabulary of {vocab_size}")
            for w in words_with.pop(best):
                symbols, count = words[w]
                joined = join_pair(symbols, best)
                for pair in zip(symbols, symbols[1:]):
                    pair_counts[pair] -= count
                for pair in zip(joined, joined[1:]):
                    pair_counts[pair] += count
                    words_with[pair].add(w)
                words[w] = (joined, count)
            del pair_counts[best]
            merges.append(best)
            tokens.append(best[0] + best[1])
        return cls(tokens, merges)

    def encode(self, text):
        """Ids of plain text; END_OF_TEXT is never produced from text."""
        ids = []
        for word in SPLIT.findall(text):
            if word not in self.word_ids:
                self.word_ids[word] = self._encode_word(word)
            ids += self.word_ids[word]
        return ids

    def _encode_word(self, word):
        symbols = list(to_chars(word))
        while len(symbols) > 1:
            # The earliest merge first: this repeats the order in which training joined the pairs.
            best = min(zip(symbols, symbols[1:]), key=lambda p: self.ranks.get(p, len(self.ranks)))
            if best not in self.ranks:
                break
            symbols = join_pair(symbols, best)
        return [self.ids[symbol] for symbol in symbols]

    def decode(self, ids):
        """Text of the ids. A cut-off UTF-8 sequence shows as the replacement character."""
        chars = "".join(self.tokens[i] for i in ids if self.tokens[i] != END_OF_TEXT)
        return bytes(CHAR_TO_BYTE[char] for char in chars).decode("utf-8", errors="replace")
