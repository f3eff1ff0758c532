"""GGUF version 3: writes and reads the small part of the format that the course's model needs.

Layout: magic, version, counts | metadata | tensor table | padding | tensor data.
Numbers are little-endian. Nothing in the file depends on the time or the machine, so equal weights
give equal bytes.

Source: the GGUF specification, docs/gguf.md of github.com/ggml-org/ggml.
"""

import os
import struct

import numpy as np

MAGIC, VERSION, ALIGNMENT = b"GGUF", 3, 32

# Metadata value types.
UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
FORMATS = {UINT32: "<I", INT32: "<i", FLOAT32: "<f", BOOL: "<?"}

# Tensor types.
DTYPES = {0: np.dtype("<f4"), 1: np.dtype("<f2")}


def padded(num_bytes):
    return -(-num_bytes // ALIGNMENT) * ALIGNMENT


def pack_string(text):
    data = text.encode("utf-8")
    return struct.pack("<Q", len(data)) + data


def pack_value(value):
    """Type and value. The Python type decides: bool, int (unsigned), float, str, list."""
    if isinstance(value, bool):  # before int: a Python bool is one
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", UINT32, value)
    if isinstance(value, float):
        return struct.pack("<If", FLOAT32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + pack_string(value)
    if isinstance(value[0], str):
        return struct.pack("<IIQ", ARRAY, STRING, len(value)) + b"".join(map(pack_string, value))
    return struct.pack(f"<IIQ{len(value)}i", ARRAY, INT32, len(value), *value)


def write(path, metadata, tensors):
    """tensors: name -> array, float16 or float32, row-major [out, in]."""
    types = {dtype: code for code, dtype in DTYPES.items()}
    head = [MAGIC, struct.pack("<IQQ", VERSION, len(tensors), len(metadata))]
    for key, value in metadata.items():
        head += [pack_string(key), pack_value(value)]
    offset = 0
    for name, array in tensors.items():
        dims = array.shape[::-1]  # ne[0] is the dimension that is contiguous: the input
        head.append(pack_string(name))
        head.append(struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, types[array.dtype], offset))
        offset += padded(array.nbytes)
    head = b"".join(head)

    # Written beside and renamed, so that a reader never meets half a file.
    with open(f"{path}.part", "wb") as file:
        file.write(head.ljust(padded(len(head)), b"\0"))
        for array in tensors.values():
            file.write(array.tobytes().ljust(padded(array.nbytes), b"\0"))
    os.replace(f"{path}.part", path)


class Reader:
    """Walks over the bytes of a file that `write` made; other value types are refused."""

    def __init__(self, data):
        self.data, self.pos = data, 0

    def numbers(self, format):
        values = struct.unpack_from(format, self.data, self.pos)
        self.pos += struct.calcsize(format)
        return values

    def string(self):
        (length,) = self.numbers("<Q")
        self.pos += length
        return self.data[self.pos - length : self.pos].decode("utf-8")

    def value(self, type):
        if type == STRING:
            return self.string()
        if type == ARRAY:
            element_type, length = self.numbers("<IQ")
            return [self.value(element_type) for _ in range(length)]
        if type not in FORMATS:
            raise ValueError(f"metadata type {type} is not supported")
        return self.numbers(FORMATS[type])[0]


def read(path):
    """The (metadata, tensors) that were written."""
    with open(path, "rb") as file:
        reader = Reader(file.read())
    if reader.data[:4] != MAGIC:
        raise ValueError(f"{path} is not a GGUF file")
    reader.pos = 4
    version, num_tensors, num_keys = reader.numbers("<IQQ")
    if version != VERSION:
        raise ValueError(f"GGUF version {version} is not supported")

    metadata = {}
    for _ in range(num_keys):
        key = reader.string()
        metadata[key] = reader.value(*reader.numbers("<I"))
    table = []
    for _ in range(num_tensors):
        name = reader.string()
        dims = reader.numbers(f"<{reader.numbers('<I')[0]}Q")
        table.append((name, dims[::-1], *reader.numbers("<IQ")))

    start, tensors = padded(reader.pos), {}
    for name, shape, type, offset in table:
        flat = np.frombuffer(reader.data, DTYPES[type], int(np.prod(shape)), start + offset)
        tensors[name] = flat.reshape(shape)
    return metadata, tensors
