#include "compiler/Binding/ConfigEdit.h"

#include "dsl/ConfigJson.h"
#include "runtime/Json.h"

#include <algorithm>
#include <functional>

namespace mbc::compiler {

using dsl::ConfigNode;

/// Calls `edit` with the object that holds the field and the field's number
/// in it; without the field, gives the text back.
static std::string
atField(std::string_view text, std::string_view path,
        const std::function<std::string(const ConfigNode &, size_t)> &edit) {
  Result<ConfigNode> document = dsl::parseConfig(text);
  const ConfigNode *object = document ? &*document : nullptr;
  while (object) {
    size_t dot = std::min(path.find('.'), path.size());
    auto member = std::find_if(
        object->members.begin(), object->members.end(),
        [&](const auto &entry) { return entry.name == path.substr(0, dot); });
    if (member == object->members.end())
      break;
    if (dot == path.size())
      return edit(*object,
                  static_cast<size_t>(member - object->members.begin()));
    object = &member->value;
    path.remove_prefix(dot + 1);
  }
  return std::string(text);
}

std::string withoutField(std::string_view text, std::string_view path) {
  return atField(text, path, [&](const ConfigNode &object, size_t field) {
    const auto &members = object.members;
    bool isFirst = field == 0;
    size_t begin = isFirst ? object.begin + 1 : members[field - 1].value.end;
    size_t end = members[field].value.end;
    // The first field takes the comma after it along, any other the one
    // before. Between a value and its comma stand only blanks.
    if (isFirst && members.size() > 1)
      end = text.find(',', end) + 1;
    return std::string(text.substr(0, begin)).append(text.substr(end));
  });
}

std::string withString(std::string_view text, std::string_view path,
                       std::string_view value) {
  return atField(text, path, [&](const ConfigNode &object, size_t field) {
    const ConfigNode &old = object.members[field].value;
    std::string changed(text.substr(0, old.begin));
    appendJsonString(changed, value);
    return changed.append(text.substr(old.end));
  });
}

std::string withField(std::string_view text, std::string_view name,
                      std::string_view value) {
  Result<ConfigNode> document = dsl::parseConfig(text);
  if (!document || document->kind != ConfigNode::Kind::Object)
    return std::string(text);
  bool isFirst = document->members.empty();
  size_t end =
      isFirst ? document->begin + 1 : document->members.back().value.end;
  std::string changed(text.substr(0, end));
  changed += isFirst ? "\n  " : ",\n  ";
  appendJsonString(changed, name);
  changed.append(": ").append(value);
  return changed.append(isFirst ? "\n" : "").append(text.substr(end));
}

} // namespace mbc::compiler
