#include "runtime/PickleTree.h"

#include "runtime/DType.h"

#include <cmath>

#include <nlohmann/json.hpp>
#include <simdjson.h>

namespace mbc {
namespace {

constexpr int maxDepth = 64;
constexpr size_t maxJsonValues = 1'000'000;

bool isClass(std::string_view name) {
  return !name.empty() && name[0] >= 'A' && name[0] <= 'Z';
}

/// Writes one tree as JSON, within bounds on depth and size: a memo may refer
/// to a value again and again, and to itself.
class JsonWriter {
public:
  explicit JsonWriter(const PickleTree &tree) : tree_(tree) {}

  /// False if a bound was passed or a text is no UTF-8.
  bool write(PickleValue value, Json &out, int depth);

private:
  static bool writeText(std::string text, Json &out);
  bool writeList(PickleValue value, Json &out, int depth);
  bool writeDict(PickleValue value, Json &out, int depth);
  bool writeObject(PickleValue value, Json &out, int depth);

  const PickleTree &tree_;
  size_t count_ = 0;
};

bool JsonWriter::write(PickleValue value, Json &out, int depth) {
  if (depth > maxDepth || ++count_ > maxJsonValues)
    return false;
  switch (value.kind) {
  case PickleKind::None:
    out = nullptr;
    return true;
  case PickleKind::Bool:
    out = value.integer != 0;
    return true;
  case PickleKind::Integer:
    out = value.integer;
    return true;
  case PickleKind::Real:
    if (std::isfinite(value.real))
      out = value.real;
    else
      out = std::isnan(value.real) ? "NaN"
            : value.real > 0       ? "Infinity"
                                   : "-Infinity";
    return true;
  case PickleKind::Text:
    return writeText(std::string(tree_.text(value)), out);
  case PickleKind::Global: {
    PickleTree::Name name = tree_.global(value);
    return writeText(fmt::format("{}.{}", name.module, name.name), out);
  }
  case PickleKind::Tuple:
  case PickleKind::List:
  case PickleKind::Set:
    return writeList(value, out, depth);
  case PickleKind::Dict:
    return writeDict(value, out, depth);
  case PickleKind::Object:
  case PickleKind::Call:
    return writeObject(value, out, depth);
  case PickleKind::Persistent:
    out = "a storage";
    return true;
  }
  return true;
}

bool JsonWriter::writeText(std::string text, Json &out) {
  if (!simdjson::validate_utf8(text))
    return false;
  out = std::move(text);
  return true;
}

bool JsonWriter::writeList(PickleValue value, Json &out, int depth) {
  out = Json::array();
  for (PickleValue item : tree_.items(value))
    if (!write(item, out.emplace_back(), depth + 1))
      return false;
  return true;
}

bool JsonWriter::writeDict(PickleValue value, Json &out, int depth) {
  out = Json::object();
  std::span<const PickleValue> items = tree_.items(value);
  for (size_t i = 0; i + 1 < items.size(); i += 2) {
    Json key;
    if (!write(items[i], key, depth + 1))
      return false;
    std::string name = key.is_string() ? key.get<std::string>() : key.dump();
    if (!write(items[i + 1], out[name], depth + 1))
      return false;
  }
  return true;
}

bool JsonWriter::writeObject(PickleValue value, Json &out, int depth) {
  PickleValue state = tree_.state(value);
  if (state.kind != PickleKind::None)
    return write(state, out, depth + 1);
  std::span<const PickleValue> items = tree_.items(value);
  // An enum: its class and the value, or getattr of its class and a name.
  if (!items.empty())
    return write(items.back(), out, depth + 1);
  return write(tree_.callable(value), out, depth + 1);
}

} // namespace

const PickleTree::Container *PickleTree::container(PickleValue value) const {
  return value.kind >= PickleKind::Tuple ? &containers_[value.index] : nullptr;
}

std::string_view PickleTree::text(PickleValue value) const {
  if (value.kind != PickleKind::Text)
    return {};
  return std::string_view(*bytes_).substr(value.index, value.length);
}

PickleTree::Name PickleTree::global(PickleValue value) const {
  return value.kind == PickleKind::Global ? globals_[value.index] : Name{};
}

std::span<const PickleValue> PickleTree::items(PickleValue value) const {
  const Container *found = container(value);
  if (!found)
    return {};
  return std::span(pool_).subspan(found->first, found->count);
}

PickleValue PickleTree::callable(PickleValue value) const {
  const Container *found = container(value);
  return found ? found->callable : PickleValue{};
}

PickleValue PickleTree::state(PickleValue value) const {
  const Container *found = container(value);
  return found ? found->state : PickleValue{};
}

namespace {

const PickleValue *findField(const PickleTree &tree, PickleValue value,
                             std::string_view name) {
  bool instance =
      value.kind == PickleKind::Object || value.kind == PickleKind::Call;
  std::span<const PickleValue> items =
      tree.items(instance ? tree.state(value) : value);
  if (!instance && value.kind != PickleKind::Dict)
    return nullptr;
  for (size_t i = 0; i + 1 < items.size(); i += 2)
    if (items[i].kind == PickleKind::Text && tree.text(items[i]) == name)
      return &items[i + 1];
  return nullptr;
}

} // namespace

PickleValue PickleTree::field(PickleValue value, std::string_view name) const {
  const PickleValue *found = findField(*this, value, name);
  return found ? *found : PickleValue{};
}

bool PickleTree::hasField(PickleValue value, std::string_view name) const {
  return findField(*this, value, name) != nullptr;
}

Result<Json> PickleTree::json(PickleValue value) const {
  Json out;
  if (!JsonWriter(*this).write(value, out, 0))
    return fail("{}: is nested deeper than {} levels, holds more than {} "
                "values or a text that is no UTF-8",
                origin_, maxDepth, maxJsonValues);
  return out;
}

bool mayBeCalled(PickleTree::Name name) {
  struct Allowed {
    std::string_view module, names; ///< names between spaces
  };
  static constexpr Allowed list[] = {
      {"torch", " Size device "},
      {"torch.serialization", " _get_layout "},
      {"torch._utils",
       " _rebuild_tensor_v2 _rebuild_tensor_v3 _rebuild_parameter "
       "_rebuild_parameter_with_state "},
      {"torch._tensor", " _rebuild_from_type_v2 "},
      {"torch.distributed.checkpoint.metadata",
       " _MEM_FORMAT_ENCODING MEM_FORMAT_ENCODING "},
      {"torch.distributed._shard.sharded_tensor.metadata",
       " MEM_FORMAT_ENCODING "},
      {"collections", " OrderedDict defaultdict Counter deque "},
      {"builtins", " getattr set frozenset bytearray complex slice range dict "
                   "list tuple int float str bool bytes "},
      {"__builtin__", " getattr set frozenset bytearray complex "},
      {"_codecs", " encode "},
      {"uuid", " UUID "},
      {"pathlib", " PosixPath PurePosixPath Path WindowsPath PureWindowsPath "},
      {"pathlib._local", " PosixPath PurePosixPath "},
      {"datetime", " datetime timedelta date timezone "},
      {"signal", " Signals "},
      {"numpy", " dtype ndarray "},
      {"numpy.core.multiarray", " _reconstruct scalar "},
      {"numpy._core.multiarray", " _reconstruct scalar "},
  };
  for (const Allowed &allowed : list)
    if (name.module == allowed.module &&
        allowed.names.find(fmt::format(" {} ", name.name)) !=
            std::string_view::npos)
      return true;
  // Enum members of Megatron's and PyTorch's own configuration classes.
  return isClass(name.name) &&
         (name.module.starts_with("megatron.core.") ||
          name.module == "torch.distributed.checkpoint.planner");
}

} // namespace mbc
