#pragma once

#include "dsl/Model.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace mbc::dsl {

inline std::string textOf(const std::string &path) {
  std::ifstream stream(path, std::ios::binary);
  EXPECT_TRUE(stream) << path;
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// The shipped specs and what they share, sorted.
inline std::vector<std::string> specFiles() {
  std::vector<std::string> paths;
  for (const auto &entry :
       std::filesystem::recursive_directory_iterator(MBC_SPECS))
    if (entry.path().extension() == ".mbspec")
      paths.push_back(entry.path().string());
  std::sort(paths.begin(), paths.end());
  return paths;
}

/// The names in a fixture's manifest; those of values where it has codes and
/// scales.
inline std::set<std::string> namesOf(const std::string &fixture) {
  std::set<std::string> names;
  auto manifest =
      nlohmann::json::parse(textOf(MBC_DATA "/" + fixture + "/manifest.json"));
  for (const auto &[file, tensors] : manifest.at("files").items())
    for (const auto &[name, type] : tensors.items())
      names.insert(name);
  auto stem = [](const std::string &name, std::string_view ending) {
    return name.ends_with(ending) ? name.substr(0, name.size() - ending.size())
                                  : std::string();
  };
  std::set<std::string> values = names;
  for (const std::string &name : names) {
    for (const char *ending : {"_scale_inv", "_scales", "_scale", "_shape"})
      for (const char *codes : {"", "_packed", "_blocks"})
        if (std::string x = stem(name, ending);
            !x.empty() && names.contains(x + codes))
          values.erase(name);
    if (std::string x = stem(name, ".scale");
        !x.empty() && names.contains(x + ".weight"))
      values.erase(name);
    for (const char *ending : {"_packed", "_blocks"})
      if (std::string x = stem(name, ending); !x.empty()) {
        values.erase(name);
        values.insert(x);
      }
  }
  return values;
}

/// What an evaluation asks of these names, which have to outlive it.
inline NameOracle oracleOf(const std::set<std::string> &names) {
  NameOracle oracle;
  oracle.exists = [&names](std::string_view name) {
    return names.contains(std::string(name));
  };
  oracle.withPrefix = [&names](std::string_view prefix) {
    std::vector<std::string> found;
    for (auto at = names.lower_bound(std::string(prefix));
         at != names.end() && at->starts_with(prefix); ++at)
      found.push_back(*at);
    return found;
  };
  return oracle;
}

} // namespace mbc::dsl
