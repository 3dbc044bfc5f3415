"""A rank's tensors in the memory of a PyTorch process, by lib/libmbc.so and DLPack."""
import ctypes
import os
import tempfile

import product
import reference
import torch


class LoadOptions(ctypes.Structure):
    """mbc_load_options of runtime/mbc.h."""

    _fields_ = [
        ("size", ctypes.c_size_t),
        *((name, ctypes.c_int32) for name in ("tp", "pp", "ep", "device")),
        ("threads", ctypes.c_uint32),
        ("memory", ctypes.c_uint64),
        ("device_memory", ctypes.c_uint64),
    ]


library = ctypes.CDLL(os.path.join(os.environ["MBC_BUILD"], "lib", "libmbc.so"))
for function, result, *arguments in (
    ("mbc_load", ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(LoadOptions), ctypes.c_char_p, ctypes.c_size_t),
    ("mbc_tensor_count", ctypes.c_size_t, ctypes.c_void_p),
    ("mbc_tensor_name", ctypes.c_char_p, ctypes.c_void_p, ctypes.c_size_t),
    ("mbc_tensor_dlpack", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t),
    ("mbc_tensors_free", None, ctypes.c_void_p),
):
    getattr(library, function).restype = result
    getattr(library, function).argtypes = arguments
capsule = ctypes.pythonapi.PyCapsule_New
capsule.restype = ctypes.py_object
capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def load(plan, source, rank):
    """The tensors by their names; they outlive what the library holds."""
    options = LoadOptions(size=ctypes.sizeof(LoadOptions), tp=rank, device=-1)
    error = ctypes.create_string_buffer(1024)
    tensors = library.mbc_load(plan.encode(), source.encode(), ctypes.byref(options), error, len(error))
    if not tensors:
        raise SystemExit(error.value.decode())
    found = {}
    for i in range(library.mbc_tensor_count(tensors)):
        exported = capsule(library.mbc_tensor_dlpack(tensors, i), b"dltensor", None)
        found[library.mbc_tensor_name(tensors, i).decode()] = torch.utils.dlpack.from_dlpack(exported)
    library.mbc_tensors_free(tensors)
    return found


def check(fixture, tp):
    config, hf = reference.load(fixture)
    expected = reference.megatron(config, hf)
    with tempfile.TemporaryDirectory() as scratch:
        source = product.make(fixture, os.path.join(scratch, "hf"))
        plan = os.path.join(scratch, "plan.mbc")
        product.mbc("compile", source, "-o", plan, "--format", "torch", "--tp", tp,
                    "--make-vocab-size-divisible-by", 128, *product.import_options(fixture))
        for rank in range(tp):
            found = load(plan, source, rank)
            if set(found) != set(expected):
                raise SystemExit(f"{fixture}: names differ: {sorted(set(found) ^ set(expected))[:8]}")
            for name, parameter in expected.items():
                product.require_equal(f"{fixture} {name}", found[name], parameter.local(rank, tp, 128))
    print(f"{fixture} TP {tp}: {len(expected)} tensors in memory of each rank")


if __name__ == "__main__":
    for fixture in ("llama", "qwen3_moe", "deepseek_v3"):
        for tp in (1, 2):
            check(fixture, tp)
