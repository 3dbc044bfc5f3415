#include "dsl/ConfigJson.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <optional>

namespace mbc::dsl {

const ConfigNode *ConfigNode::find(std::string_view key) const {
  for (const auto &[name, value] : members)
    if (name == key)
      return &value;
  return nullptr;
}

namespace {

class Reader {
public:
  Reader(std::string_view text, std::string_view origin)
      : text(text), origin(origin) {}

  Result<ConfigNode> document() {
    if (text.starts_with("\xEF\xBB\xBF"))
      at = 3;
    ConfigNode root;
    if (!value(root, 0))
      return std::unexpected(error);
    blank();
    if (at != text.size() &&
        !fails("the document has ended, but more text follows"))
      return std::unexpected(error);
    return root;
  }

private:
  static constexpr int maxDepth = 200;

  bool fails(std::string what) {
    size_t line = 1, start = 0;
    for (size_t i = 0; i != std::min(at, text.size()); ++i)
      if (text[i] == '\n') {
        ++line;
        start = i + 1;
      }
    error.message = fmt::format("{}, line {}, column {}: {}", origin, line,
                                at - start + 1, what);
    return false;
  }

  void blank() {
    while (at != text.size() && std::string_view(" \t\r\n").contains(text[at]))
      ++at;
  }
  bool skip(std::string_view word) {
    if (!text.substr(at).starts_with(word))
      return false;
    at += word.size();
    return true;
  }

  bool value(ConfigNode &node, int depth) {
    blank();
    node.begin = at;
    bool good = anyValue(node, depth);
    node.end = at;
    return good;
  }

  bool anyValue(ConfigNode &node, int depth) {
    if (depth > maxDepth)
      return fails("more than 200 values are nested");
    if (skip("{"))
      return object(node, depth);
    if (skip("["))
      return list(node, depth);
    if (text.substr(at).starts_with('"')) {
      node.kind = ConfigNode::Kind::String;
      return string(node.text);
    }
    return word(node) || number(node);
  }

  bool word(ConfigNode &node) {
    using Kind = ConfigNode::Kind;
    constexpr double infinity = std::numeric_limits<double>::infinity();
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    struct Word {
      std::string_view spelling;
      Kind kind;
      int64_t integer;
      double number;
    };
    static constexpr std::array<Word, 6> words{
        {{"true", Kind::Bool, 1, 0},
         {"false", Kind::Bool, 0, 0},
         {"null", Kind::Null, 0, 0},
         {"NaN", Kind::Double, 0, nan},
         {"Infinity", Kind::Double, 0, infinity},
         {"-Infinity", Kind::Double, 0, -infinity}}};
    for (const Word &entry : words)
      if (skip(entry.spelling)) {
        node.kind = entry.kind;
        node.integer = entry.integer;
        node.number = entry.number;
        return true;
      }
    return false;
  }

  bool number(ConfigNode &node) {
    size_t end =
        std::min(text.find_first_not_of("+-.0123456789eE", at), text.size());
    const char *first = text.data() + at, *last = text.data() + end;
    if (auto [stop, code] = std::from_chars(first, last, node.integer);
        first != last && stop == last && code == std::errc()) {
      node.kind = ConfigNode::Kind::Int;
      at = end;
      return true;
    }
    auto [stop, code] = std::from_chars(first, last, node.number);
    if (first == last || stop != last || code != std::errc())
      return fails("a value was expected");
    node.kind = ConfigNode::Kind::Double;
    at = end;
    return true;
  }

  std::optional<uint32_t> hex() {
    uint32_t code = 0;
    if (text.size() - at < 4)
      return std::nullopt;
    auto [stop, error] =
        std::from_chars(text.data() + at, text.data() + at + 4, code, 16);
    if (error != std::errc() || stop != text.data() + at + 4)
      return std::nullopt;
    at += 4;
    return code;
  }

  static void appendUtf8(std::string &out, uint32_t code) {
    auto put = [&](uint32_t byte) { out += static_cast<char>(byte); };
    if (code < 0x80)
      return put(code);
    if (code < 0x800) {
      put(0xC0 | code >> 6);
    } else {
      if (code < 0x10000) {
        put(0xE0 | code >> 12);
      } else {
        put(0xF0 | code >> 18);
        put(0x80 | (code >> 12 & 0x3F));
      }
      put(0x80 | (code >> 6 & 0x3F));
    }
    put(0x80 | (code & 0x3F));
  }

  bool escape(std::string &out) {
    static constexpr std::string_view letters = "\"\\/bfnrt",
                                      meanings = "\"\\/\b\f\n\r\t";
    if (at == text.size())
      return fails("the string does not end");
    char letter = text[at++];
    if (size_t index = letters.find(letter); index != std::string_view::npos) {
      out += meanings[index];
      return true;
    }
    std::optional<uint32_t> code = letter == 'u' ? hex() : std::nullopt;
    if (!code)
      return fails("unknown escape in a string");
    // A pair of surrogates stands for one character.
    if (*code >= 0xD800 && *code < 0xDC00 && skip("\\u")) {
      std::optional<uint32_t> low = hex();
      if (!low || *low < 0xDC00 || *low > 0xDFFF)
        return fails("half a surrogate pair in a string");
      code = 0x10000 + ((*code - 0xD800) << 10) + (*low - 0xDC00);
    }
    appendUtf8(out, *code);
    return true;
  }

  bool string(std::string &out) {
    for (++at; at != text.size();) {
      char c = text[at++];
      if (c == '"')
        return true;
      if (static_cast<unsigned char>(c) < 0x20) {
        --at;
        return fails("a control character stands in a string");
      }
      if (c != '\\')
        out += c;
      else if (!escape(out))
        return false;
    }
    return fails("the string does not end");
  }

  bool list(ConfigNode &node, int depth) {
    node.kind = ConfigNode::Kind::List;
    blank();
    if (skip("]"))
      return true;
    do {
      ConfigNode &item = node.items.emplace_back();
      item.path = fmt::format("{}[{}]", node.path, node.items.size() - 1);
      if (!value(item, depth + 1))
        return false;
      blank();
    } while (skip(","));
    return skip("]") || fails("',' or ']' was expected");
  }

  bool object(ConfigNode &node, int depth) {
    node.kind = ConfigNode::Kind::Object;
    blank();
    if (skip("}"))
      return true;
    do {
      blank();
      if (!text.substr(at).starts_with('"'))
        return fails("a field name in quotes was expected");
      std::string key;
      if (!string(key))
        return false;
      if (node.find(key))
        return fails(fmt::format("field \"{}\" is there twice", key));
      blank();
      if (!skip(":"))
        return fails("':' was expected");
      ConfigNode member;
      member.path = node.path.empty() ? key : node.path + "." + key;
      if (!value(member, depth + 1))
        return false;
      node.members.push_back({std::move(key), std::move(member)});
      blank();
    } while (skip(","));
    return skip("}") || fails("',' or '}' was expected");
  }

  std::string_view text, origin;
  size_t at = 0;
  Error error;
};

bool anyRead(const ConfigNode &node) {
  auto member = [](const auto &entry) { return anyRead(entry.value); };
  return node.read || node.ignored ||
         std::any_of(node.members.begin(), node.members.end(), member);
}

bool isBookkeeping(std::string_view key) {
  static constexpr std::array<std::string_view, 8> keys{
      "architectures", "model_type",   "transformers_version",
      "dtype",         "torch_dtype",  "quantization_config",
      "auto_map",      "_name_or_path"};
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

void collectUnread(const ConfigNode &node, std::vector<std::string> &out) {
  for (const auto &[key, member] : node.members) {
    if (member.read || member.ignored || isBookkeeping(key))
      continue;
    if (anyRead(member))
      collectUnread(member, out);
    else
      out.push_back(member.path);
  }
}

} // namespace

Result<ConfigNode> parseConfig(std::string_view text, std::string_view origin) {
  Result<ConfigNode> result = Reader(text, origin).document();
  if (result && result->kind != ConfigNode::Kind::Object)
    return fail("{} does not hold an object", origin);
  return result;
}

std::vector<std::string> unreadFields(const ConfigNode &document) {
  std::vector<std::string> result;
  collectUnread(document, result);
  return result;
}

void markIgnored(const ConfigNode &node,
                 const std::vector<std::string> &segments, size_t at) {
  if (at == segments.size()) {
    node.ignored = true;
    return;
  }
  const std::string &segment = segments[at];
  bool any = segment == "**";
  if (any)
    markIgnored(node, segments, at + 1);
  for (const auto &[key, member] : node.members) {
    if (any && member.kind == ConfigNode::Kind::Object)
      markIgnored(member, segments, at);
    if (!any && (segment == "*" || segment == key))
      markIgnored(member, segments, at + 1);
  }
}

std::vector<std::string> contradictions(const ConfigNode &document,
                                        std::string_view text) {
  auto spelling = [&](const ConfigNode &node) {
    return text.substr(node.begin, node.end - node.begin);
  };
  auto scalar = [](const ConfigNode &node) {
    return node.members.empty() && node.items.empty();
  };
  std::vector<std::string> found;
  for (const char *name : {"text_config", "llm_config", "language_config"}) {
    const ConfigNode *inner = document.find(name);
    if (!inner)
      continue;
    for (const auto &[key, member] : inner->members) {
      const ConfigNode *outer = document.find(key);
      if (!outer || outer->read == member.read || isBookkeeping(key) ||
          !scalar(*outer) || !scalar(member) ||
          spelling(*outer) == spelling(member))
        continue;
      found.push_back(fmt::format(
          "{} is {}, {} is {}; the {} is used", outer->path, spelling(*outer),
          member.path, spelling(member), outer->read ? "first" : "second"));
    }
  }
  return found;
}

} // namespace mbc::dsl
