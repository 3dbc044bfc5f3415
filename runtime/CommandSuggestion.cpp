#include "runtime/CommandSuggestion.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <vector>

namespace mbc {
namespace {

/// Insertions, deletions and replacements from one word to the other.
size_t distance(const std::string &from, const std::string &to) {
  std::vector<size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (size_t i = 0; i != from.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j != to.size(); ++j) {
      size_t replaced = diagonal + (from[i] != to[j]);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

std::vector<std::string> wordsOf(const CLI::App &command, bool options) {
  std::vector<std::string> words;
  if (!options) {
    for (const CLI::App *sub : command.get_subcommands({}))
      words.push_back(sub->get_name());
    return words;
  }
  for (const CLI::Option *option : command.get_options())
    for (const std::string &name : option->get_lnames())
      words.push_back("--" + name);
  return words;
}

} // namespace

std::string suggestion(const CLI::App &command, const std::string &word) {
  std::string name = word.substr(0, word.find('='));
  std::string best;
  size_t nearest = std::max<size_t>(2, name.size() / 3) + 1;
  for (const std::string &known : wordsOf(command, name.starts_with("-"))) {
    size_t far = distance(name, known);
    if (far < nearest) {
      nearest = far;
      best = known;
    }
  }
  return best.empty() ? "" : fmt::format(" (did you mean '{}'?)", best);
}

} // namespace mbc
