#pragma once

#include "dsl/Ast.h"
#include "runtime/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mbc::dsl {

/// A value of config.json. As Python writes them, numbers may be NaN,
/// Infinity and -Infinity. Integers that fit 64 bits stay integers; all other
/// numbers are doubles.
struct ConfigNode {
  enum class Kind : uint8_t { Null, Bool, Int, Double, String, List, Object };

  Kind kind = Kind::Null;
  int64_t integer = 0; ///< Int, Bool
  double number = 0;
  std::string text;
  std::string path; ///< "text_config.hidden_size"; "" for the document
  std::vector<std::pair<std::string, ConfigNode>> members; ///< Object
  std::vector<ConfigNode> items;                           ///< List
  mutable bool read = false; ///< something used this value, or ignores it

  const ConfigNode *find(std::string_view key) const;
};

/// Parses a config.json; a byte-order mark is skipped. Errors name line and
/// column.
Result<ConfigNode> parseConfig(std::string_view text);

/// Paths of what nothing has read: the highest container of which nothing at
/// all was read, else the leaf. Bookkeeping of `transformers` is left out.
std::vector<std::string> unreadFields(const ConfigNode &document);

/// Marks what a path such as `**.bos_token_id` or `vision_config` names;
/// returns the number of fields found. `*` is one segment, `**` any number.
size_t markIgnored(const ConfigNode &document,
                   const std::vector<std::string> &segments, size_t at = 0);

} // namespace mbc::dsl
