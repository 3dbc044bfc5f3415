#include "runtime/HfIndex.h"

#include "runtime/File.h"

#include <map>

#include <simdjson.h>

namespace mbc {
namespace {

/// Why a file name of an index is refused, or null.
const char *refusal(std::string_view name) {
  if (name.empty())
    return "is empty";
  if (name.front() == '/')
    return "is an absolute path; it must be a file name beside the index";
  if (!name.ends_with(".safetensors"))
    return "does not end in .safetensors";
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('/', begin), name.size());
    std::string_view segment = name.substr(begin, end - begin);
    if (segment == ".." || segment == "." || segment.empty())
      return "leaves its directory; it must be a file name beside the index";
    begin = end + 1;
  }
  return nullptr;
}

} // namespace

Result<HfIndex> readHfIndex(const std::string &path) {
  Result<std::string> text = readWholeFile(path);
  if (!text)
    return std::unexpected(text.error());
  text->reserve(text->size() + simdjson::SIMDJSON_PADDING);
  simdjson::ondemand::parser parser;
  simdjson::padded_string_view view(text->data(), text->size(),
                                    text->capacity());
  auto broken = [&](simdjson::error_code code) {
    return fail("{}: is not a valid index: {}", path,
                simdjson::error_message(code));
  };
  simdjson::ondemand::document document;
  if (auto code = parser.iterate(view).get(document))
    return broken(code);
  simdjson::ondemand::object map;
  if (document["weight_map"].get_object().get(map))
    return fail("{}: has no object weight_map", path);

  HfIndex index;
  std::map<std::string, uint32_t, std::less<>> numbers;
  for (auto field : map) {
    std::string_view key, value;
    if (auto code = field.unescaped_key().get(key))
      return broken(code);
    HfIndex::Entry entry{index.names.size(), static_cast<uint32_t>(key.size()),
                         0};
    index.names += key;
    if (field.value().get_string().get(value))
      return fail("{}: tensor {}: the entry is not a string", path,
                  index.tensor(entry));
    auto known = numbers.find(value);
    if (known == numbers.end()) {
      std::string name(value);
      std::string_view tensor = index.tensor(entry);
      known = numbers.emplace(name, static_cast<uint32_t>(index.files.size()))
                  .first;
      if (const char *why = refusal(name))
        return fail("{}: tensor {}: the file name \"{}\" {}", path, tensor,
                    name, why);
      index.files.push_back(name);
    }
    entry.file = known->second;
    index.entries.push_back(entry);
  }
  return index;
}

} // namespace mbc
