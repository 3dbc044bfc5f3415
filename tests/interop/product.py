"""Runs the built commands; MBC_BUILD names the build folder."""
import os
import subprocess
import sys

import numpy as np
import torch

BIN = os.path.join(os.environ.get("MBC_BUILD", "build"), "bin")


def mbc(*arguments, status=0):
    """Runs `mbc`, expects an exit status, returns what it said on standard error."""
    done = subprocess.run([os.path.join(BIN, "mbc"), *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != status:
        sys.exit(f"mbc {' '.join(map(str, arguments))}: status {done.returncode}, expected {status}\n{done.stderr}")
    return done.stderr


def make(fixture, folder):
    data = os.path.join(os.path.dirname(__file__), "..", "data", fixture)
    subprocess.run([os.path.join(BIN, "mbc-fixture"), data, folder], check=True, stdout=subprocess.DEVNULL)
    return folder


def import_options(fixture):
    """The fixture's extra MTP copies differ from the main tensors on purpose."""
    return ["--copies", "drop"] if fixture == "deepseek_v3" else []


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
