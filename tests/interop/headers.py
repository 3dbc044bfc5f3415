"""Hugging Face directories without data: headers of full length before a hole."""
import json
import math
import os

BYTES = {"BF16": 2, "F32": 4, "I64": 8}


def write(folder, tensors):
    """One safetensors file of tensors: name -> [dtype, shape]."""
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape) in tensors.items():
        start, end = end, end + math.prod(shape) * BYTES[dtype]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + end)
