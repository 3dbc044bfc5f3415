"""Megatron checkpoints that are damaged or hostile, made with torch's own writer."""
import os
import pickle
import shutil
import sys
import tempfile
import zipfile

import product


def require_words(text, *words):
    for word in words:
        if word not in text:
            sys.exit(f"the message does not say {word!r}:\n{text}")


def hole(scratch, source):
    """A chunk of one expert is left out of both lists of .metadata."""
    target = os.path.join(scratch, "hole")
    product.mbc("convert", source, target, "--tp", 2, "--etp", 2, "--ep", 2)
    path = os.path.join(target, "release", ".metadata")
    with open(path, "rb") as file:
        metadata = pickle.load(file)
    key = "decoder.layers.mlp.experts.experts.linear_fc1.weight"
    entry = metadata.state_dict_metadata[key]
    lost = next(c for c in entry.chunks if tuple(c.offsets)[:2] == (1, 2))
    entry.chunks.remove(lost)
    for index in [i for i in metadata.storage_data if i.fqn == key and tuple(i.offset) == tuple(lost.offsets)]:
        del metadata.storage_data[index]
    with open(path, "wb") as file:
        pickle.dump(metadata, file)
    rows = list(lost.offsets)[2]
    text = product.mbc("convert", target, os.path.join(scratch, "hole-hf"), status=1)
    require_words(text, "experts", str(rows), str(rows + list(lost.sizes)[2] - 1))
    if os.path.exists(os.path.join(scratch, "hole-hf", "config.json")):
        sys.exit("a refused export left config.json")
    print("a hole in a global tensor is refused with its rows")


class Call:
    """Pickles as a call of `function` with `arguments`."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


def hostile(scratch, source):
    marker = os.path.join(scratch, "marker")
    calls = {"system": Call(os.system, f"touch {marker}"), "eval": Call(eval, "1")}
    for format, name in (("torch", "model_optim_rng.pt"), ("torch_dist", "common.pt")):
        for word, call in calls.items():
            target = os.path.join(scratch, f"{format}-{word}")
            product.mbc("convert", source, target, "--format", format)
            folder = os.path.join(target, "release")
            path = os.path.join(folder, "mp_rank_00", name) if format == "torch" else os.path.join(folder, name)
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr("archive/data.pkl", pickle.dumps(call, protocol=2))
                archive.writestr("archive/version", "3\n")
            for command in (["ls", target], ["convert", target, os.path.join(scratch, "out")]):
                require_words(product.mbc(*command, status=1), name, word)
            if os.path.exists(marker):
                sys.exit(f"{path}: the call was made")
            shutil.rmtree(target)
    print("pickles that call something are refused by name")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        source = product.make("qwen3_moe", os.path.join(scratch, "hf"))
        hole(scratch, source)
        hostile(scratch, source)
