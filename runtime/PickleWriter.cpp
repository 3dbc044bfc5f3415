#include "runtime/PickleWriter.h"

#include <bit>
#include <limits>

#include <nlohmann/json.hpp>

namespace mbc {
namespace {

void putLittle(std::string &out, uint64_t value, size_t width) {
  out.append(reinterpret_cast<const char *>(&value), width);
}

/// The legacy storage class of a dtype; null if it has none and is stored as
/// bytes (UntypedStorage).
const char *storageClass(DType dtype) {
  switch (dtype) {
  case DType::F64:
    return "torch\nDoubleStorage";
  case DType::F32:
    return "torch\nFloatStorage";
  case DType::F16:
    return "torch\nHalfStorage";
  case DType::BF16:
    return "torch\nBFloat16Storage";
  case DType::I64:
    return "torch\nLongStorage";
  case DType::I32:
    return "torch\nIntStorage";
  case DType::I16:
    return "torch\nShortStorage";
  case DType::I8:
    return "torch\nCharStorage";
  case DType::U8:
    return "torch\nByteStorage";
  case DType::BOOL:
    return "torch\nBoolStorage";
  case DType::C64:
    return "torch\nComplexFloatStorage";
  default:
    return nullptr;
  }
}

/// Row-major strides; an empty dimension counts as one element, as in PyTorch.
Shape contiguousStrides(std::span<const int64_t> shape) {
  Shape strides(shape);
  int64_t step = 1;
  for (size_t dim = shape.size(); dim-- != 0;) {
    strides[dim] = step;
    step *= std::max<int64_t>(shape[dim], 1);
  }
  return strides;
}

} // namespace

PickleWriter::PickleWriter() : out_("\x80\x02") {}

void PickleWriter::get(uint32_t slot) {
  bool narrow = slot < 256;
  out_ += narrow ? 'h' : 'j';
  putLittle(out_, slot, narrow ? 1 : 4);
}

bool PickleWriter::fetch(const Memo &memo, std::string_view key) {
  auto found = memo.find(key);
  if (found == memo.end())
    return false;
  get(found->second);
  return true;
}

void PickleWriter::remember(Memo &memo, std::string_view key) {
  bool narrow = memoised_ < 256;
  out_ += narrow ? 'q' : 'r';
  putLittle(out_, memoised_, narrow ? 1 : 4);
  memo.emplace(key, memoised_++);
}

void PickleWriter::global(std::string_view name) {
  if (fetch(globals_, name))
    return;
  ((out_ += 'c') += name) += '\n';
  remember(globals_, name);
}

void PickleWriter::text(std::string_view value) {
  if (fetch(texts_, value))
    return;
  out_ += 'X';
  putLittle(out_, value.size(), 4);
  out_ += value;
  remember(texts_, value);
}

void PickleWriter::global(Constant &name) {
  if (name.slot >= 0)
    return get(static_cast<uint32_t>(name.slot));
  global(name.value);
  name.slot = globals_.find(name.value)->second;
}

void PickleWriter::text(Constant &value) {
  if (value.slot >= 0)
    return get(static_cast<uint32_t>(value.slot));
  text(value.value);
  value.slot = texts_.find(value.value)->second;
}

void PickleWriter::integer(int64_t value) {
  if (value >= 0 && value < 256) {
    out_ += 'K';
    putLittle(out_, static_cast<uint64_t>(value), 1);
  } else if (value >= 0 && value < 65536) {
    out_ += 'M';
    putLittle(out_, static_cast<uint64_t>(value), 2);
  } else if (value >= std::numeric_limits<int32_t>::min() &&
             value <= std::numeric_limits<int32_t>::max()) {
    out_ += 'J';
    putLittle(out_, static_cast<uint64_t>(value), 4);
  } else {
    out_ += "\x8a\x08";
    putLittle(out_, static_cast<uint64_t>(value), 8);
  }
}

void PickleWriter::real(double value) {
  out_ += 'G';
  putLittle(out_, __builtin_bswap64(std::bit_cast<uint64_t>(value)), 8);
}

void PickleWriter::boolean(bool value) { out_ += value ? '\x88' : '\x89'; }

void PickleWriter::newObject(std::string_view className) {
  global(className);
  out_ += ")\x81";
}

void PickleWriter::newObject(Constant &className) {
  global(className);
  out_ += ")\x81";
}

void PickleWriter::tuple(std::span<const int64_t> values) {
  if (values.empty())
    return emptyTuple();
  if (values.size() > 3)
    mark();
  for (int64_t value : values)
    integer(value);
  constexpr std::string_view close = "\x85\x86\x87";
  out_ += values.size() > 3 ? 't' : close[values.size() - 1];
}

void PickleWriter::size(std::span<const int64_t> dims) {
  global(sizeClass_);
  tuple(dims);
  tuple1();
  reduce();
}

void PickleWriter::tensor(std::string_view key, DType dtype,
                          std::span<const int64_t> shape) {
  const char *storage = storageClass(dtype);
  int64_t elements = Shape(shape).elements();
  global(storage ? "torch._utils\n_rebuild_tensor_v2"
                 : "torch._utils\n_rebuild_tensor_v3");
  mark();
  mark();
  text("storage");
  global(storage ? storage : "torch.storage\nUntypedStorage");
  text(key);
  text("cpu");
  integer(storage ? elements
                  : elements * static_cast<int64_t>(byteSize(dtype)));
  tupleFromMark();
  persistentId();
  integer(0);
  tuple(shape);
  tuple(contiguousStrides(shape).dims());
  boolean(false);
  global("collections\nOrderedDict");
  emptyTuple();
  reduce();
  if (!storage)
    global(std::string("torch\n").append(torchName(dtype)));
  tupleFromMark();
  reduce();
}

void PickleWriter::json(const Json &value) {
  switch (value.type()) {
  case Json::value_t::object:
    emptyDict();
    return dictItems(value);
  case Json::value_t::array:
    emptyList();
    if (value.empty())
      return;
    mark();
    for (const Json &item : value)
      json(item);
    return appends();
  case Json::value_t::string: {
    const std::string &string = value.get_ref<const std::string &>();
    if (string.starts_with("torch.") && dtypeFromTorch(string.substr(6)))
      return global("torch\n" + string.substr(6));
    return text(string);
  }
  case Json::value_t::boolean:
    return boolean(value.get<bool>());
  case Json::value_t::number_integer:
  case Json::value_t::number_unsigned:
    return integer(value.get<int64_t>());
  case Json::value_t::number_float:
    return real(value.get<double>());
  default:
    return none();
  }
}

void PickleWriter::dictItems(const Json &members) {
  if (members.empty())
    return;
  mark();
  for (const auto &[key, member] : members.items()) {
    text(key);
    json(member);
  }
  setItems();
}

void PickleWriter::nameSpace(const Json &members) {
  newObject("argparse\nNamespace");
  emptyDict();
  dictItems(members);
  build();
}

std::string PickleWriter::finish() && {
  out_ += '.';
  return std::move(out_);
}

std::string tensorPickle(DType dtype, std::span<const int64_t> shape) {
  PickleWriter writer;
  writer.tensor("0", dtype, shape);
  return std::move(writer).finish();
}

} // namespace mbc
