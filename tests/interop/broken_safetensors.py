"""Broken safetensors files: our reader and the safetensors library refuse and accept the same ones.

Where they differ, DIFFERENT says why:

    ours refuses, the library accepts
        blanks before the header's brace     the format's description wants the brace first
        a name twice, of the same bytes      the description forbids it; the library keeps one of them in silence
        __metadata__ that is null            the description has a map of strings there
        a dtype of less than eight bits      F4 has no torch tensor of its own shape; checkpoints store pairs as U8
        more than eight dimensions           no weight has them, and a shape is a value of fixed size here
    the library refuses, ours accepts
        nothing
"""
import json
import os
import sys
import tempfile

import product
from safetensors import safe_open

DIFFERENT = {"blank first", "name twice, same bytes", "metadata null", "F4", "nine dimensions"}


def file(header, data, length=None):
    header = header if isinstance(header, bytes) else header.encode()
    return (len(header) if length is None else length).to_bytes(8, "little") + header + bytes(data)


def tensor(dtype="U8", shape=(4,), offsets=(0, 4)):
    return json.dumps(dict(dtype=dtype, shape=shape, data_offsets=offsets))


def one(data=4, **entry):
    """A file of one tensor."""
    return file('{"a":%s}' % tensor(**entry), data)


def two(first, second, data, names='"a":%s,"b":%s'):
    return file("{" + names % (tensor(offsets=first), tensor(offsets=second)) + "}", data)


def text(entry, data=4):
    """A file of one tensor whose description is written out."""
    return file('{"a":%s}' % entry, data)


def with_metadata(metadata):
    return file("{%s,\"a\":%s}" % (metadata, tensor()), 4)


GOOD = '{"a":%s}' % tensor()

CORPUS = {
    # Sound, or odd and sound.
    "good": file(GOOD, 4),
    "spaces behind": file(GOOD + "   ", 4),
    "no tensors": file("{}", 0),
    "another field": text('{"dtype":"U8","shape":[4],"data_offsets":[0,4],"x":1}'),
    "scalar": one(1, shape=(), offsets=(0, 1)),
    "empty tensor": one(0, shape=(0,), offsets=(0, 0)),
    "empty name": file('{"":%s}' % tensor(), 4),
    "zero byte in a name": file('{"a\\u0000b":%s}' % tensor(), 4),
    "C64": one(8, dtype="C64", shape=(1,), offsets=(0, 8)),
    "F8_E8M0": one(dtype="F8_E8M0"),
    "boolean of 2": one(dtype="BOOL")[:-1] + b"\2",
    # The header's length.
    "empty file": b"",
    "7 bytes": b"\1" + bytes(6),
    "length 0": file("{}", 0, 0),
    "length behind the end": file("{}", 0, 1000),
    "length 2^63": file("{}", 0, 1 << 63),
    "length 100,000,001": file("{}", 0, 100_000_001),
    "length too short": file(GOOD, 4, 20),
    # JSON.
    "not UTF-8": file(b'{"a\xff":' + tensor().encode() + b"}", 4),
    "a list": file("[]", 0),
    "byte order mark": file(b"\xef\xbb\xbf" + GOOD.encode(), 4),
    "blank first": file(" " + GOOD, 4),
    "zero bytes behind": file(GOOD + "\0\0", 4),
    "text behind": file(GOOD + "x", 4),
    "comma too many": file(GOOD[:-1] + ",}", 4),
    "comment": file(GOOD[:-1] + "/**/}", 4),
    "line end in a string": file(b'{"a\n":' + tensor().encode() + b"}", 4),
    "half a surrogate pair": file('{"a\\ud800":%s}' % tensor(), 4),
    "200,000 brackets": file('{"a":' + "[" * 200_000 + "]" * 200_000 + "}", 0),
    "number with a zero first": text('{"dtype":"U8","shape":[04],"data_offsets":[0,4]}'),
    # The description of a tensor.
    "null": text("null"),
    "no dtype": text('{"shape":[4],"data_offsets":[0,4]}'),
    "no shape": text('{"dtype":"U8","data_offsets":[0,4]}'),
    "no offsets": text('{"dtype":"U8","shape":[4]}'),
    "dtype twice": text('{"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]}'),
    "name twice": two((0, 4), (4, 8), 8, '"a":%s,"a":%s'),
    "name twice, same bytes": two((0, 4), (0, 4), 4, '"a":%s,"a":%s'),
    "unknown dtype": one(dtype="XYZ"),
    "dtype in small letters": one(dtype="u8"),
    "F4": one(dtype="F4", shape=(8,)),
    "F4, odd": one(2, dtype="F4", shape=(3,), offsets=(0, 2)),
    "negative extent": one(shape=(-4,)),
    "extent with a point": text('{"dtype":"U8","shape":[4.0],"data_offsets":[0,4]}'),
    "extent above 2^63": one(0, shape=((1 << 63) + 1, 0), offsets=(0, 0)),
    "2^32 x 2^32": one(0, shape=(1 << 32, 1 << 32), offsets=(0, 0)),
    "2^32 x 2^32 x 0": one(0, shape=(1 << 32, 1 << 32, 0), offsets=(0, 0)),
    "nine dimensions": one(1, shape=(1,) * 9, offsets=(0, 1)),
    "metadata of numbers": with_metadata('"__metadata__":{"n":1}'),
    "metadata as a list": with_metadata('"__metadata__":[]'),
    "metadata null": with_metadata('"__metadata__":null'),
    "metadata twice": with_metadata('"__metadata__":{},"__metadata__":{}'),
    # Offsets.
    "truncated": file(GOOD, 3),
    "a byte too many": file(GOOD, 5),
    "data without tensors": file("{}", 4),
    "gap in front": one(6, offsets=(2, 6)),
    "gap": two((0, 4), (5, 9), 9),
    "overlap": two((0, 4), (2, 6), 6),
    "the same bytes": two((0, 4), (0, 4), 4),
    "end before begin": one(offsets=(4, 0)),
    "dtype needs more": one(dtype="BF16"),
    "offset with a point": text('{"dtype":"U8","shape":[4],"data_offsets":[0,4.0]}'),
    "offset 2^64": one(offsets=(0, 1 << 64)),
    "minus zero": text('{"dtype":"U8","shape":[4],"data_offsets":[-0,4]}'),
    "three offsets": one(offsets=(0, 4, 4)),
}


def library_accepts(path):
    try:
        with safe_open(path, framework="pt") as opened:
            for name in opened.keys():
                opened.get_tensor(name)
        return True
    except Exception:  # of several classes: what matters is that it refuses
        return False


def ours_accepts(name, folder):
    status, said = product.attempt("ls", folder)
    if status not in (0, 1) or (status == 1 and "model.safetensors" not in said):
        sys.exit(f"{name}: status {status}, and the message must name the file:\n{said}")
    return status == 0


if __name__ == "__main__":
    refused = 0
    for name, content in CORPUS.items():
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.safetensors")
            with open(path, "wb") as target:
                target.write(content)
            with open(os.path.join(folder, "config.json"), "w") as target:
                target.write("{}")
            ours, library = ours_accepts(name, folder), library_accepts(path)
        refused += not ours
        if (ours, library) != (False, True) if name in DIFFERENT else ours != library:
            sys.exit(f"{name}: ours {'accepts' if ours else 'refuses'} it, the library "
                     f"{'accepts' if library else 'refuses'} it")
    print(f"{len(CORPUS)} files, {refused} of them refused; {len(DIFFERENT)} that the library accepts")
