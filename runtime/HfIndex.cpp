#include "runtime/HfIndex.h"

#include "runtime/File.h"

#include <map>

#include <simdjson.h>

namespace mbc {
namespace {

constexpr uint64_t maxIndexBytes = uint64_t{1} << 30;

/// Why a file name of an index is refused, or "".
std::string refusal(std::string_view name, std::string_view suffix) {
  if (name.empty())
    return "is empty";
  if (name.front() == '/')
    return "is an absolute path; it must be a file name beside the index";
  if (!name.ends_with(suffix))
    return fmt::format("does not end in {}", suffix);
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('/', begin), name.size());
    std::string_view segment = name.substr(begin, end - begin);
    if (segment == ".." || segment == "." || segment.empty())
      return "leaves its directory; it must be a file name beside the index";
    begin = end + 1;
  }
  return {};
}

} // namespace

Result<HfIndex> readHfIndex(const std::string &path, std::string_view suffix) {
  Result<std::string> text =
      readWholeFile(path, maxIndexBytes, simdjson::SIMDJSON_PADDING);
  if (!text)
    return std::unexpected(text.error());
  auto parser = std::make_shared<simdjson::ondemand::parser>();
  simdjson::padded_string_view view(text->data(), text->size(),
                                    text->capacity());
  auto broken = [&](simdjson::error_code code) {
    return fail("{}: is not a valid index: {}", path,
                simdjson::error_message(code));
  };
  simdjson::ondemand::document document;
  if (auto code = parser->iterate(view).get(document))
    return broken(code);
  simdjson::ondemand::object map;
  if (document["weight_map"].get_object().get(map))
    return fail("{}: has no object weight_map", path);

  HfIndex index;
  index.names = parser;
  std::map<std::string_view, uint32_t> numbers;
  std::string_view lastToken; // most entries name the same file as the last
  HfIndex::Entry entry;
  for (auto field : map) {
    simdjson::ondemand::value value;
    if (auto code = field.unescaped_key().get(entry.tensor))
      return broken(code);
    if (auto code = field.value().get(value))
      return broken(code);
    if (std::string_view token = value.raw_json_token(); token != lastToken) {
      std::string_view name;
      if (value.get_string().get(name))
        return fail("{}: tensor {}: the entry is not a string", path,
                    entry.tensor);
      lastToken = token;
      auto [known, isNew] =
          numbers.try_emplace(name, static_cast<uint32_t>(index.files.size()));
      entry.file = known->second;
      if (std::string why = refusal(name, suffix); !why.empty())
        return fail("{}: tensor {}: the file name \"{}\" {}", path,
                    entry.tensor, name, why);
      if (isNew)
        index.files.emplace_back(name);
    }
    index.entries.push_back(entry);
  }
  return index;
}

} // namespace mbc
