#pragma once

#include "runtime/Result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mbc::dsl {

struct ConfigMember;

/// A value of config.json. As Python writes them, numbers may be NaN,
/// Infinity and -Infinity. Integers that fit 64 bits stay integers; all other
/// numbers are doubles.
struct ConfigNode {
  enum class Kind : uint8_t { Null, Bool, Int, Double, String, List, Object };

  Kind kind = Kind::Null;
  int64_t integer = 0; ///< Int, Bool
  double number = 0;
  std::string text;
  std::string path;          ///< "text_config.hidden_size"; "" for the document
  size_t begin = 0, end = 0; ///< the value's bytes in the text
  std::vector<ConfigMember> members;                       ///< Object
  std::vector<ConfigNode> items;                           ///< List
  mutable bool read = false;    ///< something used this value
  mutable bool ignored = false; ///< the spec says that nothing needs it

  /// The member of an object, or null. Linear: configs are small.
  const ConfigNode *find(std::string_view key) const;
};

struct ConfigMember {
  std::string name;
  ConfigNode value;
};

/// The one reader of config.json. It is our own since the JSON libraries refuse
/// NaN, lose the difference between 1 and 1.0 or between large integers, or
/// know no byte positions, which edits and messages need. `text` is an object;
/// a byte-order mark is skipped. Errors name `origin`, line and column.
Result<ConfigNode> parseConfig(std::string_view text,
                               std::string_view origin = "config.json");

/// R21: paths of what nothing has read: the highest container of which nothing
/// at all was read, else the leaf. Bookkeeping of `transformers` is left out.
std::vector<std::string> unreadFields(const ConfigNode &document);

/// Marks what a path such as `**.bos_token_id` or `vision_config` names. `*` is
/// one segment, `**` any number.
void markIgnored(const ConfigNode &document,
                 const std::vector<std::string> &segments, size_t at = 0);

/// Fields that a text model's own object (`text_config` ...) and the document
/// both have, with different values, of which one was read:
/// "hidden_size is 32, text_config.hidden_size is 64; the second is used".
/// `text` is what the document was read from.
std::vector<std::string> contradictions(const ConfigNode &document,
                                        std::string_view text);

} // namespace mbc::dsl
