#include "runtime/Load.h"
#include "runtime/mbc.h"

#include <algorithm>
#include <cstring>
#include <dlpack/dlpack.h>

struct mbc_tensors {
  mbc::LoadedTensors loaded;
};

namespace {

using mbc::DType;

DLDataType dlpackType(DType dtype) {
  auto bits = static_cast<uint8_t>(mbc::bitSize(dtype));
  switch (dtype) {
  case DType::F64:
  case DType::F32:
  case DType::F16:
    return {kDLFloat, bits, 1};
  case DType::BF16:
    return {kDLBfloat, bits, 1};
  case DType::I64:
  case DType::I32:
  case DType::I16:
  case DType::I8:
    return {kDLInt, bits, 1};
  case DType::C64:
    return {kDLComplex, bits, 1};
  default: // FP8 and its scales, packed codes, booleans: DLPack 0.6 has none
    return {kDLUInt, bits, 1};
  }
}

/// A tensor that keeps the memory of all alive.
struct Exported {
  DLManagedTensor managed{};
  std::vector<int64_t> shape;
  std::shared_ptr<void> memory;
};

mbc_tensors *failed(std::string_view reason, char *error, size_t size) {
  if (error && size != 0) {
    size_t length = std::min(size - 1, reason.size());
    std::memcpy(error, reason.data(), length);
    error[length] = '\0';
  }
  return nullptr;
}

mbc::LoadOptions optionsOf(const mbc_load_options &given) {
  mbc::LoadOptions options;
  options.rank = {given.tp, given.pp, given.ep};
  options.device = given.device;
  options.threads = given.threads;
  options.memory = given.memory ? given.memory : uint64_t{512} << 20;
  options.deviceMemory = given.device_memory;
  return options;
}

} // namespace

mbc_tensors *mbc_load(const char *plan, const char *source,
                      const mbc_load_options *options, char *error,
                      size_t error_size) {
  if (!plan || !source || !options || options->size != sizeof(*options))
    return failed("mbc_load: plan, source and options are required, and "
                  "options.size is sizeof(mbc_load_options)",
                  error, error_size);
  try {
    mbc::Result<mbc::Plan> opened = mbc::Plan::open(plan);
    if (!opened)
      return failed(opened.error().message, error, error_size);
    mbc::Result<mbc::LoadedTensors> loaded =
        mbc::load(*opened, source, optionsOf(*options));
    if (!loaded)
      return failed(loaded.error().message, error, error_size);
    return new mbc_tensors{std::move(*loaded)};
  } catch (const std::exception &exception) {
    return failed(exception.what(), error, error_size);
  }
}

size_t mbc_tensor_count(const mbc_tensors *tensors) {
  return tensors ? tensors->loaded.tensors.size() : 0;
}

const char *mbc_tensor_name(const mbc_tensors *tensors, size_t index) {
  return index < mbc_tensor_count(tensors)
             ? tensors->loaded.tensors[index].name.c_str()
             : nullptr;
}

DLManagedTensor *mbc_tensor_dlpack(const mbc_tensors *tensors, size_t index) {
  if (index >= mbc_tensor_count(tensors))
    return nullptr;
  const mbc::LoadedTensor &tensor = tensors->loaded.tensors[index];
  auto *exported = new (std::nothrow) Exported;
  if (!exported)
    return nullptr;
  exported->shape = tensor.shape;
  exported->memory = tensors->loaded.memory;
  const int device = tensors->loaded.device;
  exported->managed.dl_tensor = {
      reinterpret_cast<void *>(tensor.address),
      {device < 0 ? kDLCPU : kDLCUDA, std::max(device, 0)},
      static_cast<int>(tensor.shape.size()),
      dlpackType(tensor.dtype),
      exported->shape.data(),
      nullptr, // row-major
      0};
  exported->managed.manager_ctx = exported;
  exported->managed.deleter = [](DLManagedTensor *self) {
    delete static_cast<Exported *>(self->manager_ctx);
  };
  return &exported->managed;
}

void mbc_tensors_free(mbc_tensors *tensors) { delete tensors; }
