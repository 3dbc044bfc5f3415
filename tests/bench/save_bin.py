"""The safetensors files of a Hugging Face directory as pytorch_model*.bin. usage: save_bin.py SOURCE TARGET"""
import glob
import json
import os
import shutil
import sys

import torch
from safetensors.torch import load_file

source, target = sys.argv[1:]
os.makedirs(target)
shutil.copy(os.path.join(source, "config.json"), target)
places = {}
for path in sorted(glob.glob(os.path.join(source, "*.safetensors"))):
    name = "pytorch_" + os.path.basename(path).replace(".safetensors", ".bin")
    tensors = load_file(path)
    torch.save(tensors, os.path.join(target, name))
    places |= dict.fromkeys(tensors, name)
with open(os.path.join(target, "pytorch_model.bin.index.json"), "w") as file:
    json.dump({"metadata": {}, "weight_map": places}, file)
