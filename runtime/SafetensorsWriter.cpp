#include "runtime/Json.h"
#include "runtime/Safetensors.h"

#include <cstring>
#include <unordered_set>

namespace mbc {

Result<SafetensorsHeader>
layoutSafetensors(std::span<const SafetensorsEntry> entries) {
  std::string text = R"({"__metadata__":{"format":"pt"})";
  SafetensorsHeader header;
  header.offsets.reserve(entries.size());
  uint64_t offset = 0;
  std::unordered_set<std::string_view> names(entries.size() * 2);
  for (const SafetensorsEntry &entry : entries) {
    if (!names.insert(entry.name).second)
      return fail("tensor {}: would be in one safetensors file twice; each "
                  "name of a target may come from one rule only",
                  entry.name);
    uint64_t bytes =
        static_cast<uint64_t>(entry.shape.elements()) * byteSize(entry.dtype);
    text += ',';
    appendJsonString(text, entry.name);
    fmt::format_to(std::back_inserter(text),
                   R"(:{{"dtype":"{}","shape":[{}],"data_offsets":[{},{}]}})",
                   safetensorsName(entry.dtype),
                   fmt::join(entry.shape.begin(), entry.shape.end(), ","),
                   offset, offset + bytes);
    header.offsets.push_back(offset);
    offset += bytes;
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  if (text.size() > maxSafetensorsHeader)
    return fail("the header of {} tensors has {} bytes, the format's limit is "
                "{}; split them over more files",
                entries.size(), text.size(), maxSafetensorsHeader);

  uint64_t length = text.size();
  header.bytes.resize(8);
  std::memcpy(header.bytes.data(), &length, 8);
  header.bytes += text;
  for (uint64_t &start : header.offsets)
    start += header.bytes.size();
  header.fileSize = header.bytes.size() + offset;
  return header;
}

} // namespace mbc
