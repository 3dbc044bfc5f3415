#include "compiler/Binding/NameGroups.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <map>
#include <set>
#include <unordered_map>

namespace mbc::compiler {

namespace {
/// "a.7.weight12" as "a.\0.weight\0" and {7, 12}.
struct Template {
  std::string text;
  std::vector<long long> numbers;
};

struct Members {
  std::string text;
  size_t first = 0, count = 0;
  std::vector<std::set<long long>> numbers; ///< values seen at each place
};
} // namespace

/// A number is a whole segment or the end of one; "q4_k.weight" has none.
static bool endsSegment(std::string_view name, size_t end) {
  return end == name.size() || name[end] == '.';
}

static Template split(std::string_view name) {
  Template result;
  if (name.contains('\0')) { // the mark of a number cannot be a letter
    result.text = name;
    std::replace(result.text.begin(), result.text.end(), '\0', '?');
    return result;
  }
  for (size_t at = 0; at != name.size();) {
    size_t end = at;
    while (end != name.size() &&
           std::isdigit(static_cast<unsigned char>(name[end])))
      ++end;
    if (end == at || !endsSegment(name, end) || end - at > 9) {
      end = std::max(end, at + 1);
      result.text.append(name.substr(at, end - at));
    } else {
      result.text.push_back('\0');
      result.numbers.push_back(
          std::stoll(std::string(name.substr(at, end - at))));
    }
    at = end;
  }
  return result;
}

static std::string numbersText(const std::set<long long> &numbers) {
  if (numbers.size() == 1)
    return std::to_string(*numbers.begin());
  std::string text = "{";
  for (auto it = numbers.begin(); it != numbers.end();) {
    long long begin = *it, end = begin;
    for (++it; it != numbers.end() && *it == end + 1; ++it)
      ++end;
    if (text.size() > 1)
      text += ',';
    if (text.size() > 40) {
      text += "...";
      break;
    }
    text += begin == end ? std::to_string(begin)
                         : fmt::format("{}..{}", begin, end);
  }
  return text + "}";
}

static std::string render(const Members &members) {
  std::string text;
  size_t place = 0;
  for (char c : members.text)
    if (c == '\0')
      text += numbersText(members.numbers[place++]);
    else
      text += c;
  return text;
}

std::vector<NameGroup> groupNames(std::span<const std::string> names) {
  std::vector<Members> groups;
  std::unordered_map<std::string, size_t> byTemplate;
  for (size_t i = 0; i != names.size(); ++i) {
    Template form = split(names[i]);
    auto [it, isNew] = byTemplate.try_emplace(form.text, groups.size());
    if (isNew)
      groups.push_back({form.text, i, 0,
                        std::vector<std::set<long long>>(form.numbers.size())});
    Members &members = groups[it->second];
    ++members.count;
    for (size_t place = 0; place != form.numbers.size(); ++place)
      members.numbers[place].insert(form.numbers[place]);
  }
  std::vector<NameGroup> result;
  for (const Members &members : groups) {
    std::string names = render(members);
    std::string text = members.count == 1 ? names
                                          : fmt::format("{} ({} tensors)",
                                                        names, members.count);
    result.push_back(
        {std::move(names), std::move(text), members.first, members.count});
  }
  return result;
}

} // namespace mbc::compiler
