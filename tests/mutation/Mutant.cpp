#include "tests/mutation/Mutant.h"

#include "tests/mutation/Damage.h"

#include <algorithm>
#include <unordered_set>

#include <fmt/format.h>

namespace mbc::test {
namespace {

/// The file's text with the edits of one mutant, last place first.
std::string edited(const std::vector<SpecFile> &files, size_t file,
                   std::vector<Edit> edits) {
  std::ranges::sort(edits, std::greater<>(), &Edit::begin);
  std::string text = files[file].text;
  for (const Edit &edit : edits)
    if (edit.file == file)
      text.replace(edit.begin, edit.end - edit.begin, edit.text);
  return text;
}

/// Edits that overlap are one inside the other: `concat(a, concat(b, c))`.
bool overlap(const Mutant &mutant) {
  std::vector<Edit> edits = mutant.edits;
  std::ranges::sort(edits, {}, [](const Edit &edit) {
    return std::pair(edit.file, edit.begin);
  });
  for (size_t i = 1; i < edits.size(); ++i)
    if (edits[i].file == edits[i - 1].file && edits[i].begin < edits[i - 1].end)
      return true;
  return false;
}

std::string oneLine(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  size_t most = 60;
  return text.size() > most ? text.substr(0, most) + "..." : text;
}

} // namespace

std::vector<Mutant> mutantsOf(const std::vector<SpecFile> &files) {
  std::vector<Mutant> all, distinct;
  Damage damage(files, all);
  for (size_t i = 0; i != files.size(); ++i)
    damage.file(i);
  damage.norms();
  std::unordered_set<std::string> seen{bundleOf(files)};
  for (Mutant &mutant : all)
    if (!overlap(mutant) && seen.insert(bundleOf(files, mutant)).second)
      distinct.push_back(std::move(mutant));
  return distinct;
}

std::string bundleOf(const std::vector<SpecFile> &files, const Mutant &mutant) {
  std::string text;
  for (size_t i = 0; i != files.size(); ++i)
    text += fmt::format("#file {}\n{}\n", files[i].name,
                        edited(files, i, mutant.edits));
  return text;
}

std::string bundleOf(const std::vector<SpecFile> &files) {
  return bundleOf(files, Mutant{});
}

std::string describe(const std::vector<SpecFile> &files, const Mutant &mutant) {
  std::string text;
  for (const Edit &edit : mutant.edits) {
    const std::string &source = files[edit.file].text;
    auto line = std::count(
        source.begin(), source.begin() + static_cast<long>(edit.begin), '\n');
    text += fmt::format(
        "{}{}:{} {} -> {}", text.empty() ? "" : "; ", files[edit.file].name,
        line + 1, oneLine(source.substr(edit.begin, edit.end - edit.begin)),
        edit.text.empty() ? "nothing" : oneLine(edit.text));
  }
  return text;
}

} // namespace mbc::test
