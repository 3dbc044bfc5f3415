"""Weights as torch.save writes them (pytorch_model*.bin) are those of safetensors."""
import json
import os
import sys
import tempfile

import product
import torch
from safetensors.torch import load_file


def save(source, target, is_archive=True):
    """Two files with an index; two tensors share a storage, one is a part of a larger one, two lie transposed."""
    tensors = load_file(os.path.join(source, "model.safetensors"))
    names = sorted(tensors)
    down, up = (f"model.layers.1.mlp.{part}_proj.weight" for part in ("gate", "up"))
    both = torch.cat([tensors[down], tensors[up]])
    tensors[down], tensors[up] = both[:len(tensors[down])], both[len(tensors[down]):]
    for name in ("model.layers.0.mlp.down_proj.weight", "model.layers.0.self_attn.q_proj.weight"):
        tensors[name] = tensors[name].t().contiguous().t()
    os.mkdir(target)
    placed = {}
    for number, part in enumerate((names[::2], names[1::2]), 1):
        file = f"pytorch_model-{number:05}-of-00002.bin"
        torch.save({name: tensors[name] for name in part}, os.path.join(target, file),
                   _use_new_zipfile_serialization=is_archive)
        placed.update(dict.fromkeys(part, file))
    with open(os.path.join(target, "pytorch_model.bin.index.json"), "w") as index:
        json.dump({"metadata": {}, "weight_map": placed}, index)
    with open(os.path.join(source, "config.json")) as read, open(os.path.join(target, "config.json"), "w") as write:
        write.write(read.read())
    return tensors


def hashes(folder):
    return {row["name"]: (row["dtype"], row["shape"], row["sha256"])
            for row in json.loads(product.output("ls", folder, "--sha256", "--json"))}


def same_bytes(scratch, is_archive):
    source = product.make("llama", os.path.join(scratch, "hf"))
    tensors = save(source, os.path.join(scratch, "bin"), is_archive)
    if hashes(os.path.join(scratch, "bin")) != hashes(source):
        sys.exit("ls shows other tensors in a .bin source")
    for name, folder in (("hf", "from-safetensors"), ("bin", "from-bin")):
        product.mbc("convert", os.path.join(scratch, name), os.path.join(scratch, folder), "--tp", 2)
    if hashes(os.path.join(scratch, "from-bin")) != hashes(os.path.join(scratch, "from-safetensors")):
        sys.exit("a .bin source gives other Megatron bytes")
    back = os.path.join(scratch, "back")
    product.mbc("convert", os.path.join(scratch, "from-bin"), back)
    files = sorted(name for name in os.listdir(back) if name.endswith(".safetensors"))
    if files != ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]:
        sys.exit(f"the way back has the files {files}")
    found = {name: tensor for file in files for name, tensor in load_file(os.path.join(back, file)).items()}
    if found.keys() != tensors.keys() or not all(torch.equal(found[name], tensors[name]) for name in found):
        sys.exit("the way back of a .bin source differs")
    kind = "archives" if is_archive else "the container before PyTorch 1.6"
    print(f".bin files as {kind} give the Megatron bytes of safetensors, and come back")


def gaps(scratch):
    folder = os.path.join(scratch, "view")
    tensors = save(os.path.join(scratch, "hf"), folder)
    name = "model.layers.0.mlp.down_proj.weight"
    os.remove(os.path.join(folder, "pytorch_model.bin.index.json"))
    for file in ("pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"):
        os.remove(os.path.join(folder, file))
    tensors[name] = torch.cat([tensors[name], tensors[name]], dim=1)[:, :tensors[name].shape[1]]
    torch.save(tensors, os.path.join(folder, "pytorch_model.bin"))
    text = product.mbc("check", folder, status=1)
    for word in ("pytorch_model.bin", name, "is a view with strides", "save it contiguous"):
        if word not in text:
            sys.exit(f"the message does not say {word!r}:\n{text}")
    print("a view with gaps is refused by name")


if __name__ == "__main__":
    for is_archive in (True, False):
        with tempfile.TemporaryDirectory() as scratch:
            same_bytes(scratch, is_archive)
            gaps(scratch)
