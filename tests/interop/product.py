"""Runs the built commands; MBC_BUILD names the build folder."""
import argparse
import os
import subprocess
import sys

import numpy as np
import torch
from safetensors import safe_open

BIN = os.path.join(os.environ.get("MBC_BUILD", "build"), "bin")


def _run(arguments):
    return subprocess.run([os.path.join(BIN, "mbc"), *map(str, arguments)], capture_output=True, text=True)


def _expect(status, arguments):
    done = _run(arguments)
    if done.returncode != status:
        sys.exit(f"mbc {' '.join(map(str, arguments))}: status {done.returncode}, expected {status}\n{done.stderr}")
    return done


def mbc(*arguments, status=0):
    """Runs `mbc`, expects an exit status, returns what it said on standard error."""
    return _expect(status, arguments).stderr


def output(*arguments):
    """What `mbc` prints on standard output."""
    return _expect(0, arguments).stdout


def attempt(*arguments):
    """Runs `mbc`, returns the exit status and what it said on standard error."""
    done = _run(arguments)
    return done.returncode, done.stderr


def make(fixture, folder):
    data = os.path.join(os.path.dirname(__file__), "..", "data", fixture)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    subprocess.run([os.path.join(BIN, "mbc-fixture"), data, folder], check=True, stdout=subprocess.DEVNULL)
    return folder


def import_options(fixture):
    """The fixture's extra MTP copies differ from the main tensors on purpose."""
    return ["--copies", "drop"] if fixture in ("deepseek_v3", "glm4_moe") else []


def read_safetensors(folder):
    """Name -> (file, tensor) of a Hugging Face directory, read with the safetensors library."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".safetensors"):
            continue
        with safe_open(os.path.join(folder, name), framework="pt") as file:
            if (file.metadata() or {}).get("format") != "pt":
                sys.exit(f"{name}: transformers asks for the metadata format=pt")
            for key in file.keys():
                if key in found:
                    sys.exit(f"{key}: both in {found[key][0]} and in {name}")
                found[key] = name, file.get_tensor(key)
    return found


def read_archive(path):
    """A small file of Megatron's, as its loader reads it."""
    with torch.serialization.safe_globals([argparse.Namespace]):
        return torch.load(path, weights_only=True)


def bits(tensor):
    """A tensor's bit patterns as unsigned integers."""
    words = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.element_size()]
    unsigned = {1: np.uint8, 2: np.uint16, 4: np.uint32}[tensor.element_size()]
    return tensor.detach().contiguous().view(words).numpy().view(unsigned)


def require_equal(name, found, expected):
    found = bits(found)
    if found.shape != expected.shape or found.dtype != expected.dtype:
        sys.exit(f"{name}: {found.dtype} {found.shape}, expected {expected.dtype} {expected.shape}")
    wrong = np.argwhere(found != expected)
    if len(wrong):
        sys.exit(f"{name}: {len(wrong)} of {found.size} elements differ, the first at {wrong[0].tolist()}")
