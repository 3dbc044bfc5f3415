#include "runtime/Safetensors.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include <simdjson.h>

namespace mbc {
namespace {

namespace json = simdjson::ondemand;

/// One entry of the header; offsets count from the start of the data. The texts
/// are the parser's, until it reads the next header.
struct RawEntry {
  std::string_view name;
  std::string_view dtype;
  const Shape *shape = nullptr;
  uint64_t begin = 0, end = 0;
};

/// Reads the JSON of one file's header.
class HeaderParser {
public:
  HeaderParser(const std::string &path, HeaderStore &store,
               std::vector<RawEntry> &entries)
      : path_(path), store_(store), entries_(entries) {}

  Result<void> parse(json::parser &parser, simdjson::padded_string_view text);

private:
  Result<void> parseMetadata(json::value value);
  Result<void> parseTensor(std::string_view name, json::value value);
  Result<void> parseShape(RawEntry &entry, json::value value);
  Result<void> parseOffsets(RawEntry &entry, json::value value);

  std::unexpected<Error> broken(simdjson::error_code code) const {
    return fail("{}: the header is not valid JSON: {}", path_,
                simdjson::error_message(code));
  }

  const std::string &path_;
  HeaderStore &store_;
  std::vector<RawEntry> &entries_;
};

std::string trimmed(std::string_view token) {
  while (!token.empty() && std::strchr(" \t\n\r", token.back()))
    token.remove_suffix(1);
  return std::string(token);
}

Result<void> HeaderParser::parse(json::parser &parser,
                                 simdjson::padded_string_view text) {
  json::document document;
  if (auto code = parser.iterate(text).get(document))
    return broken(code);
  json::object object;
  if (auto code = document.get_object().get(object))
    return broken(code);
  bool hasMetadata = false;
  for (auto field : object) {
    std::string_view name;
    if (auto code = field.unescaped_key().get(name))
      return broken(code);
    json::value value;
    if (auto code = field.value().get(value))
      return broken(code);
    if (name == "__metadata__" && std::exchange(hasMetadata, true))
      return fail("{}: __metadata__ is in the header twice", path_);
    auto parsed = name == "__metadata__" ? parseMetadata(value)
                                         : parseTensor(name, value);
    if (!parsed)
      return parsed;
  }
  const char *rest;
  if (!document.current_location().get(rest))
    return fail("{}: the header goes on after its JSON object; only spaces may "
                "follow",
                path_);
  return {};
}

Result<void> HeaderParser::parseMetadata(json::value value) {
  json::object object;
  if (value.get_object().get(object))
    return fail("{}: __metadata__ is not an object", path_);
  for (auto field : object) {
    std::string_view key, text;
    if (auto code = field.unescaped_key().get(key))
      return broken(code);
    if (field.value().get_string().get(text))
      return fail("{}: __metadata__ entry \"{}\" is not a string", path_, key);
  }
  return {};
}

Result<void> HeaderParser::parseTensor(std::string_view name,
                                       json::value value) {
  RawEntry entry;
  entry.name = name;
  json::object object;
  if (value.get_object().get(object))
    return fail("{}: tensor {}: is not described by an object", path_,
                entry.name);
  bool hasDType = false, hasShape = false, hasOffsets = false;
  for (auto field : object) {
    std::string_view key;
    if (auto code = field.unescaped_key().get(key))
      return broken(code);
    bool *has = key == "dtype"          ? &hasDType
                : key == "shape"        ? &hasShape
                : key == "data_offsets" ? &hasOffsets
                                        : nullptr;
    if (has && std::exchange(*has, true))
      return fail("{}: tensor {}: has {} twice", path_, entry.name, key);
    json::value inner;
    if (key == "dtype") {
      if (field.value().get_string().get(entry.dtype))
        return fail("{}: tensor {}: dtype is not a string", path_, entry.name);
    } else if (key == "shape") {
      if (auto code = field.value().get(inner))
        return broken(code);
      if (auto parsed = parseShape(entry, inner); !parsed)
        return parsed;
    } else if (key == "data_offsets") {
      if (auto code = field.value().get(inner))
        return broken(code);
      if (auto parsed = parseOffsets(entry, inner); !parsed)
        return parsed;
    }
  }
  for (auto [there, what] : {std::pair(hasDType, "dtype"),
                             {hasShape, "shape"},
                             {hasOffsets, "data_offsets"}})
    if (!there)
      return fail("{}: tensor {}: has no {}", path_, entry.name, what);
  entries_.push_back(entry);
  return {};
}

Result<void> HeaderParser::parseShape(RawEntry &entry, json::value value) {
  json::array array;
  if (value.get_array().get(array))
    return fail("{}: tensor {}: shape is not a list", path_, entry.name);
  Shape shape;
  for (auto item : array) {
    json::value dim;
    if (auto code = item.get(dim))
      return broken(code);
    uint64_t extent;
    std::string_view token = dim.raw_json_token();
    if (dim.get_uint64().get(extent) ||
        extent > uint64_t{std::numeric_limits<int64_t>::max()})
      return fail("{}: tensor {}: dimension {} of the shape is {}, it must be "
                  "a whole number from 0 to {}",
                  path_, entry.name, shape.rank(), trimmed(token),
                  std::numeric_limits<int64_t>::max());
    if (shape.rank() == Shape::maxRank)
      return fail("{}: tensor {}: has more than {} dimensions", path_,
                  entry.name, Shape::maxRank);
    shape.push_back(static_cast<int64_t>(extent));
  }
  entry.shape = store_.keep(shape);
  return {};
}

Result<void> HeaderParser::parseOffsets(RawEntry &entry, json::value value) {
  json::array array;
  if (value.get_array().get(array))
    return fail("{}: tensor {}: data_offsets is not a list", path_, entry.name);
  size_t count = 0;
  for (auto item : array) {
    json::value number;
    if (auto code = item.get(number))
      return broken(code);
    std::string_view token = number.raw_json_token();
    uint64_t offset;
    if (number.get_uint64().get(offset))
      return fail("{}: tensor {}: data_offsets holds {}, which is no offset",
                  path_, entry.name, trimmed(token));
    (count == 0 ? entry.begin : entry.end) = offset;
    ++count;
  }
  if (count != 2)
    return fail("{}: tensor {}: data_offsets has {} numbers, not 2", path_,
                entry.name, count);
  return {};
}

/// Bytes of a tensor, or nothing if they do not fit into 64 bits: those of the
/// extents before a zero, too, since whoever multiplies meets them first.
std::optional<uint64_t> tensorBytes(DType dtype, const Shape &shape) {
  uint64_t bytes = byteSize(dtype);
  bool overflow = false;
  for (int64_t extent : shape) {
    overflow |=
        __builtin_mul_overflow(bytes, static_cast<uint64_t>(extent), &bytes);
  }
  if (overflow)
    return std::nullopt;
  return bytes;
}

Result<void> checkTensor(const std::string &path, const RawEntry &entry,
                         DType dtype) {
  if (entry.end < entry.begin)
    return fail(
        "{}: tensor {}: data_offsets end at {}, before they begin at {}", path,
        entry.name, entry.end, entry.begin);
  std::optional<uint64_t> bytes = tensorBytes(dtype, *entry.shape);
  if (!bytes)
    return fail("{}: tensor {}: shape {} of {} needs more than 2^64 bytes, "
                "data_offsets span {}",
                path, entry.name, toString(*entry.shape),
                safetensorsName(dtype), entry.end - entry.begin);
  if (*bytes != entry.end - entry.begin)
    return fail("{}: tensor {}: shape {} of {} needs {} bytes, data_offsets "
                "[{}, {}] span {}",
                path, entry.name, toString(*entry.shape),
                safetensorsName(dtype), *bytes, entry.begin, entry.end,
                entry.end - entry.begin);
  return {};
}

/// `entries` in the order of begin: first begin 0, each begin the previous
/// end, last end the end of the file.
Result<void> checkTiling(const InputFile &file, uint64_t dataStart,
                         const std::vector<RawEntry> &entries) {
  uint64_t dataBytes = file.size() - dataStart;
  uint64_t end = 0;
  const RawEntry *previous = nullptr;
  for (const RawEntry &entry : entries) {
    if (entry.begin != end)
      return fail(
          "{}: tensor {}: begins at byte {} of the data, but {} at byte "
          "{}: the tensors {}",
          file.path(), entry.name, entry.begin,
          previous ? fmt::format("{} ends", previous->name) : "the data begins",
          end, entry.begin < end ? "overlap" : "leave a gap");
    end = entry.end;
    previous = &entry;
  }
  if (end == dataBytes)
    return {};
  uint64_t expected;
  if (__builtin_add_overflow(dataStart, end, &expected))
    return fail("{}: tensor {}: ends at byte {} of the data, the data has {}",
                file.path(), previous->name, end, dataBytes);
  return fail("{}: the file has {} bytes, its header describes {} (the last "
              "tensor is {}): {}",
              file.path(), file.size(), expected,
              previous ? previous->name : "missing",
              expected > file.size() ? "it is truncated, fetch it again"
                                     : "there are bytes after the last tensor");
}

Result<std::vector<DType>> resolveDTypes(const std::string &path,
                                         const std::vector<RawEntry> &entries) {
  std::vector<DType> dtypes;
  dtypes.reserve(entries.size());
  std::string unknown;
  for (const RawEntry &entry : entries) {
    std::optional<DType> dtype = dtypeFromSafetensors(entry.dtype);
    if (!dtype)
      unknown += fmt::format("{}{} ({})", unknown.empty() ? "" : ", ",
                             entry.name, entry.dtype);
    dtypes.push_back(dtype.value_or(DType::U8));
  }
  if (!unknown.empty())
    return fail("{}: unknown dtype of {}; known are {}", path, unknown,
                knownDTypes());
  return dtypes;
}

/// Reads the header into `text`, followed by room for what simdjson reads past
/// it.
Result<void> readHeaderText(const InputFile &file, std::string &text) {
  if (file.size() < 8)
    return fail("{}: has {} bytes, a safetensors file has at least 8 (the "
                "header's length)",
                file.path(), file.size());
  uint64_t length = 0;
  if (auto read = file.readAt(0, std::as_writable_bytes(std::span(&length, 1)));
      !read)
    return std::unexpected(read.error());
  if (length > maxSafetensorsHeader || length > file.size() - 8 || length < 2)
    return fail("{}: the header's length is given as {}, the file has {} bytes "
                "and the limit is {}",
                file.path(), length, file.size(), maxSafetensorsHeader);
  text.reserve(length + simdjson::SIMDJSON_PADDING);
  text.resize(length);
  if (auto read = file.readAt(8, std::as_writable_bytes(std::span(text)));
      !read)
    return std::unexpected(read.error());
  if (text[0] != '{')
    return fail("{}: the header of {} bytes (the file has {}) does not begin "
                "with '{{'",
                file.path(), length, file.size());
  return {};
}

} // namespace

struct SafetensorsReader::Buffers {
  std::string text;
  json::parser parser;
  std::vector<RawEntry> entries;
};

SafetensorsReader::SafetensorsReader()
    : buffers_(std::make_unique<Buffers>()),
      store_(std::make_shared<HeaderStore>()) {}
SafetensorsReader::~SafetensorsReader() = default;

Result<std::vector<StoredTensor>> SafetensorsReader::read(const InputFile &file,
                                                          uint32_t fileIndex) {
  auto &[text, parser, entries] = *buffers_;
  if (auto read = readHeaderText(file, text); !read)
    return std::unexpected(read.error());

  entries.clear();
  simdjson::padded_string_view view(text.data(), text.size(), text.capacity());
  if (auto parsed =
          HeaderParser(file.path(), *store_, entries).parse(parser, view);
      !parsed)
    return fail("{} (the header's length is {}, the file has {} bytes, the "
                "limit is {})",
                parsed.error().message, text.size(), file.size(),
                maxSafetensorsHeader);

  std::sort(entries.begin(), entries.end(),
            [](const RawEntry &a, const RawEntry &b) {
              return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
            });
  Result<std::vector<DType>> dtypes = resolveDTypes(file.path(), entries);
  if (!dtypes)
    return std::unexpected(dtypes.error());
  for (size_t i = 0; i != entries.size(); ++i)
    if (auto good = checkTensor(file.path(), entries[i], (*dtypes)[i]); !good)
      return std::unexpected(good.error());
  uint64_t dataStart = 8 + text.size();
  if (auto good = checkTiling(file, dataStart, entries); !good)
    return std::unexpected(good.error());

  std::vector<StoredTensor> tensors(entries.size());
  for (size_t i = 0; i != entries.size(); ++i) {
    const RawEntry &entry = entries[i];
    StoredPiece piece{fileIndex, dataStart + entry.begin,
                      store_->keep(Shape::zeros(entry.shape->rank())),
                      entry.shape};
    StoredTensor &tensor = tensors[i];
    tensor.name = store_->keep(entry.name);
    tensor.shape = entry.shape;
    tensor.dtype = (*dtypes)[i];
    tensor.pieces = store_->keep(std::span(&std::as_const(piece), 1));
  }
  return tensors;
}

} // namespace mbc
