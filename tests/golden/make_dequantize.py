"""Writes dequantize.txt: blocks of every quantised format and what they stand for.

An independent implementation is asked: the Python package gguf of the ggml project.

    pip install gguf==0.19.0 numpy
    python tests/golden/make_dequantize.py > tests/golden/dequantize.txt

The integers of a block are random bytes; its scales are random halves, negative and subnormal ones
among them (the formats allow any). Nine digits are enough to tell any two floats apart.
"""

import struct

import numpy as np
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

# Where the halves of a block lie.
HALVES = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q4_K": [0, 2],
    "Q6_K": [208],
}
BLOCKS_EACH = 3

rng = np.random.default_rng(20260101)
print("# format, bytes of one block, the numbers it stands for; made by make_dequantize.py")
print("# with gguf 0.19.0")
for name, positions in HALVES.items():
    kind = GGMLQuantizationType[name]
    _, block_bytes = GGML_QUANT_SIZES[kind]
    for block in range(BLOCKS_EACH):
        data = bytearray(rng.integers(0, 256, block_bytes, dtype=np.uint8).tobytes())
        for i, position in enumerate(positions):
            scale = [0.0371, -0.62, 3.1e-5][block] * (1 - 2 * i) * rng.uniform(0.5, 2)
            data[position : position + 2] = struct.pack("<e", scale)
        values = dequantize(np.frombuffer(bytes(data), dtype=np.uint8), kind)
        print(name, data.hex(), *(f"{x:.9g}" for x in values))
