#include "runtime/PickleTensor.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace mbc {
namespace {

bool isRebuild(const PickleTree &tree, PickleValue value,
               std::string_view prefix) {
  PickleTree::Name name = tree.global(tree.callable(value));
  return value.kind == PickleKind::Call && name.module == "torch._utils" &&
         name.name.starts_with(prefix);
}

std::optional<DType> dtypeOfStorage(std::string_view name) {
  static constexpr std::pair<std::string_view, DType> classes[] = {
      {"DoubleStorage", DType::F64},      {"FloatStorage", DType::F32},
      {"HalfStorage", DType::F16},        {"BFloat16Storage", DType::BF16},
      {"LongStorage", DType::I64},        {"IntStorage", DType::I32},
      {"ShortStorage", DType::I16},       {"CharStorage", DType::I8},
      {"ByteStorage", DType::U8},         {"BoolStorage", DType::BOOL},
      {"ComplexFloatStorage", DType::C64}};
  for (auto [storage, dtype] : classes)
    if (storage == name)
      return dtype;
  return std::nullopt;
}

/// The axes from the largest stride to the smallest; nothing if elements lie
/// apart or over one another. Axes of one index may stand anywhere.
std::optional<Shape> orderOf(const Shape &shape, const Shape &strides) {
  if (shape.rank() != strides.rank())
    return std::nullopt;
  std::vector<int64_t> order(shape.rank());
  std::iota(order.begin(), order.end(), 0);
  if (shape.elements() == 0)
    return Shape(order);
  std::ranges::stable_sort(order, std::greater(), [&](int64_t axis) {
    return shape[axis] == 1 ? INT64_MAX : strides[axis];
  });
  int64_t step = 1;
  for (size_t at = order.size(); at-- != 0;) {
    int64_t axis = order[at];
    if (shape[axis] != 1 && strides[axis] != step)
      return std::nullopt;
    step *= shape[axis];
  }
  return Shape(order);
}

/// Whether only axes of one index have moved.
bool isRowMajor(const Shape &shape, const Shape &order) {
  int64_t last = -1;
  for (int64_t axis : order) {
    if (shape[axis] == 1)
      continue;
    if (axis < last)
      return false;
    last = axis;
  }
  return true;
}

} // namespace

bool isTensor(const PickleTree &tree, PickleValue value) {
  return isRebuild(tree, value, "_rebuild_tensor_v") ||
         isRebuild(tree, value, "_rebuild_parameter");
}

Result<Shape> readShape(const PickleTree &tree, PickleValue value,
                        std::string_view origin, std::string_view tensor) {
  std::span<const PickleValue> items = tree.items(value);
  if (value.kind != PickleKind::Tuple && value.kind != PickleKind::List)
    return fail("{}: tensor {}: a shape is no tuple", origin, tensor);
  if (items.size() > Shape::maxRank)
    return fail("{}: tensor {}: has {} dimensions, at most {} are read", origin,
                tensor, items.size(), Shape::maxRank);
  Shape shape;
  int64_t elements = 1;
  for (PickleValue item : items) {
    if (item.kind != PickleKind::Integer || item.integer < 0)
      return fail("{}: tensor {}: dimension {} is no extent", origin, tensor,
                  shape.rank());
    if (item.integer != 0 &&
        __builtin_mul_overflow(elements, item.integer, &elements))
      return fail("{}: tensor {}: has more than 2^63 elements", origin, tensor);
    shape.push_back(item.integer);
  }
  return shape;
}

Result<PickledTensor> readTensor(const PickleTree &tree, PickleValue value,
                                 std::string_view origin,
                                 std::string_view tensor) {
  if (isRebuild(tree, value, "_rebuild_parameter") &&
      !tree.items(value).empty())
    value = tree.items(value)[0];
  std::span<const PickleValue> arguments = tree.items(value);
  if (!isRebuild(tree, value, "_rebuild_tensor_v") || arguments.size() < 6 ||
      arguments[0].kind != PickleKind::Persistent)
    return fail("{}: tensor {}: is not stored as a plain tensor", origin,
                tensor);
  PickleValue idTuple = tree.items(arguments[0])[0];
  std::span<const PickleValue> id = tree.items(idTuple);
  // The older container adds a view of the storage, which nobody makes.
  const bool isView = id.size() == 6 && id[5].kind != PickleKind::None;
  if (id.size() < 5 || id.size() > 6 || isView ||
      tree.text(id[0]) != "storage" || id[4].kind != PickleKind::Integer ||
      id[4].integer < 0)
    return fail("{}: tensor {}: has an unknown kind of storage", origin,
                tensor);

  PickledTensor read;
  read.key = tree.text(id[2]);
  if (read.key.empty() ||
      read.key.find_first_not_of("0123456789") != read.key.npos)
    return fail("{}: tensor {}: bad storage key \"{}\", it must be a number",
                origin, tensor, read.key);
  bool newer = tree.global(tree.callable(value)).name == "_rebuild_tensor_v3";
  PickleTree::Name dtypeName =
      tree.global(newer && arguments.size() > 6 ? arguments[6] : id[1]);
  std::optional<DType> dtype =
      newer ? dtypeFromTorch(dtypeName.name) : dtypeOfStorage(dtypeName.name);
  if (!dtype)
    return fail("{}: tensor {}: unknown dtype {}.{}; known are {}", origin,
                tensor, dtypeName.module, dtypeName.name, knownDTypes());
  read.dtype = *dtype;
  Result<Shape> shape = readShape(tree, arguments[2], origin, tensor);
  Result<Shape> strides = readShape(tree, arguments[3], origin, tensor);
  if (!shape || !strides)
    return std::unexpected(shape ? strides.error() : shape.error());
  std::optional<Shape> order = orderOf(*shape, *strides);
  if (!order)
    return fail("{}: tensor {}: is a view with strides {} of shape {}; save it "
                "contiguous",
                origin, tensor, toString(*strides), toString(*shape));
  read.shape = *shape;
  if (!isRowMajor(*shape, *order))
    read.order = *order;
  read.storageElements = id[4].integer;
  if (arguments[1].kind != PickleKind::Integer || arguments[1].integer < 0)
    return fail("{}: tensor {}: has no storage offset", origin, tensor);
  read.storageOffset = arguments[1].integer;
  return read;
}

} // namespace mbc
