"""Writes the golden files of the tokenizers with independent implementations.

    pip install gguf tokenizers sentencepiece protobuf
    python3 make_tokenizer.py stories260K.gguf > tokenizer_stories260k.txt
    python3 make_tokenizer.py SmolLM2-135M-Instruct.Q4_1.gguf > tokenizer_smollm2.txt

The vocabulary is read from the GGUF file with the gguf package, and the encoder is built from it:
the sentencepiece package for stories260K, the tokenizers package for SmolLM2.
"""

import sys
from importlib.metadata import version

from gguf import GGUFReader

TEXTS = [
    "", " ", "  ", "a", " a", "a ", "Hello world", "Hello, world! How are you?",
    "Once upon a time, there was a little girl named Lily.", "The quick brown fox\njumps over\n\n"
    "the lazy dog.", "tabs\tand\t\ttabs", "line\r\nends\r\n\r\n", "   leading", "trailing   ",
    "a  b   c    d", "\n", "\n\n\n", " \n \n ", "x\n  y\n    z", "I'll, you've, he's, don't, WE'RE",
    "'s 't 'll '", "it\u2019s", "0", "42", "1234567", " 1 22 333", "3.14159e-10", "v1.2.3",
    "2\u00b2 \u00bd \u2167 \u0665\u0666", "for (int i = 0; i < n; ++i) sum += x[i];",
    "<html>&nbsp;</html>", "https://example.org/a?b=c&d=%20", "!!!???...", "--- *** ===", "$5.00 #1 @x",
    "ALL CAPS", "camelCaseWord snake_case_word", "antidisestablishmentarianism", "AAAAAAAAAAAAAAAA",
    "caf\u00e9 na\u00efve \u00fcber", "cafe\u0301", "\u0416\u0438\u0437\u043d\u044c",
    "\u03b1\u03b2\u03b3 \u03b4", "\u4f60\u597d\uff0c\u4e16\u754c\u3002",
    "\u3053\u3093\u306b\u3061\u306f", "\ud55c\uad6d\uc5b4", "\u0627\u0644\u0639\u0631\u0628\u064a\u0629",
    "\u0928\u092e\u0938\u094d\u0924\u0947", "Vi\u1ec7t Nam", "\U0001f600 \U0001f44d\U0001f3fd",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "This is \U0001f999.cpp", "nbsp\u00a0x", "\u3000wide",
    "zero\u200bwidth", "\u180ex\u180e\u180ey", "\ufeffbom", "end\u2028of\u2029line", "\x7f\x00\x01", "\x04", "\x85x",
    "<|im_start|>user\nhi<|im_end|>", "</s><s><unk>", "<0x41>", "[INST] a [/INST]",
]


def fields(path):
    reader = GGUFReader(path)
    return lambda key: reader.fields["tokenizer.ggml." + key].contents()


def sentencepiece_encoder(field):
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2

    model = sentencepiece_model_pb2.ModelProto()
    for token, score, kind in zip(field("tokens"), field("scores"), field("token_type")):
        model.pieces.add(piece=token, score=score, type=kind)
    trainer, normalizer = model.trainer_spec, model.normalizer_spec
    trainer.model_type, trainer.byte_fallback = 2, True
    trainer.unk_id, trainer.bos_id, trainer.eos_id, trainer.pad_id = 0, 1, 2, -1
    normalizer.name, normalizer.add_dummy_prefix = "identity", True
    normalizer.remove_extra_whitespaces = False
    processor = sentencepiece.SentencePieceProcessor(model_proto=model.SerializeToString())
    return lambda text: [1] + processor.encode(text)


def bpe_encoder(field):
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {token: i for i, token in enumerate(field("tokens"))}
    merges = [tuple(merge.split(" ")) for merge in field("merges")]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([  # the rule "smollm"
        pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)])
    alphabet = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)

    def encode(text):
        # The package drops characters that the vocabulary lacks; this project refuses them.
        spelled = "".join(word for word, _ in alphabet.pre_tokenize_str(text))
        if any(character not in vocabulary for character in spelled):
            return None
        return tokenizer.encode(text, add_special_tokens=False).ids

    return encode


def escape(text):
    out = ""
    for c in text:
        plain = c.isprintable() and c not in "\\" or c == " "
        out += c if plain else "".join(f"\\x{byte:02x}" for byte in c.encode())
    return out


def main():
    path = sys.argv[1]
    field = fields(path)
    is_bpe = field("model") == "gpt2"
    package = "tokenizers" if is_bpe else "sentencepiece"
    encode = (bpe_encoder if is_bpe else sentencepiece_encoder)(field)
    print(f"# {path.split('/')[-1]}: text, tab, ids. Bytes as \\xNN where not printable.")
    print(f"# Written by make_tokenizer.py with {package} {version(package)}; special parsing off.")
    for text in TEXTS:
        ids = encode(text)
        print(escape(text) + "\t" + ("refused" if ids is None else " ".join(map(str, ids))))


main()
