#include "compiler/Binding/ConfigJson.h"

#include "runtime/Json.h"

#include <nlohmann/json.hpp>
#include <optional>

namespace mbc::compiler {

std::string plainJson(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF"))
    text.remove_prefix(3);
  std::string plain;
  bool inString = false;
  for (size_t at = 0; at != text.size(); ++at) {
    char c = text[at];
    if (c == '"')
      inString = !inString;
    else if (inString && c == '\\' && at + 1 != text.size()) {
      plain += c;
      c = text[++at];
    } else if (!inString) {
      std::string_view rest = text.substr(at);
      std::string_view token = rest.starts_with("NaN")         ? "NaN"
                               : rest.starts_with("-Infinity") ? "-Infinity"
                               : rest.starts_with("Infinity")  ? "Infinity"
                                                               : "";
      if (!token.empty()) {
        plain += "null";
        at += token.size() - 1;
        continue;
      }
    }
    plain += c;
  }
  return plain;
}

static std::optional<DType> dtypeOf(const Json &object) {
  for (const char *field : {"dtype", "torch_dtype"})
    if (auto it = object.find(field); it != object.end() && it->is_string()) {
      std::string_view name = it->get_ref<const std::string &>();
      if (name.starts_with("torch."))
        name.remove_prefix(6);
      if (std::optional<DType> dtype = dtypeFromTorch(name))
        return dtype;
    }
  return std::nullopt;
}

static Result<void> readQuantisation(const Json &config, ConfigFacts &facts,
                                     std::string_view origin) {
  auto it = config.find("quantization_config");
  if (it == config.end() || !it->is_object())
    return {};
  facts.quantised = true;
  facts.quantMethod = it->value("quant_method", std::string());
  auto block = it->find("weight_block_size");
  if (block == it->end() || block->is_null())
    return {};
  if (!block->is_array() || block->size() != 2 ||
      !(*block)[0].is_number_integer() || !(*block)[1].is_number_integer() ||
      (*block)[0] < 1 || (*block)[1] < 1)
    return fail("{}: quantization_config.weight_block_size is {}; two positive "
                "integers are expected",
                origin, block->dump());
  facts.blockRows = (*block)[0];
  facts.blockColumns = (*block)[1];
  return {};
}

Result<ConfigFacts> readConfigFacts(std::string_view text,
                                    std::string_view origin) {
  Result<Json> config = parseJson(plainJson(text), origin);
  if (!config)
    return std::unexpected(config.error());
  if (!config->is_object())
    return fail("{}: a JSON object is expected", origin);
  ConfigFacts facts;
  if (auto it = config->find("architectures");
      it != config->end() && it->is_array())
    for (const Json &name : *it)
      if (name.is_string())
        facts.architectures.push_back(name);
  if (auto it = config->find("model_type");
      it != config->end() && it->is_string())
    facts.modelType = *it;
  std::optional<DType> dtype = dtypeOf(*config);
  if (auto it = config->find("text_config");
      !dtype && it != config->end() && it->is_object())
    dtype = dtypeOf(*it);
  facts.dtype = dtype.value_or(DType::BF16);
  if (Result<void> read = readQuantisation(*config, facts, origin); !read)
    return std::unexpected(read.error());
  return facts;
}

// --- edits that keep every other byte ---

namespace {
/// Where a top-level field stands in the text.
struct FieldSpan {
  size_t key = 0; ///< of the opening quote
  size_t value = 0, end = 0;
  size_t before = 0; ///< end of the previous field's value, or of the `{`
  bool isFirst = true;
};
} // namespace

static size_t skipString(std::string_view text, size_t at) {
  for (++at; at < text.size() && text[at] != '"'; ++at)
    if (text[at] == '\\')
      ++at;
  return std::min(at + 1, text.size());
}

/// The end of the value that begins at `at`.
static size_t skipValue(std::string_view text, size_t at) {
  int depth = 0;
  while (at < text.size()) {
    char c = text[at];
    if (c == '"') {
      at = skipString(text, at);
      if (depth == 0)
        return at;
      continue;
    }
    if (c == '{' || c == '[')
      ++depth;
    if (c == '}' || c == ']') {
      if (depth == 0)
        return at;
      if (--depth == 0)
        return at + 1;
    }
    if (depth == 0 &&
        (c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t'))
      return at;
    ++at;
  }
  return at;
}

static size_t skipBlanks(std::string_view text, size_t at) {
  while (at < text.size() &&
         std::string_view(" \t\r\n").find(text[at]) != std::string_view::npos)
    ++at;
  return at;
}

static std::optional<FieldSpan> findField(std::string_view text,
                                          std::string_view field) {
  size_t at = text.find('{');
  if (at == std::string_view::npos)
    return std::nullopt;
  FieldSpan span;
  span.before = ++at;
  for (;; span.isFirst = false) {
    at = skipBlanks(text, at);
    if (at >= text.size() || text[at] != '"')
      return std::nullopt;
    span.key = at;
    size_t keyEnd = skipString(text, at);
    span.value = skipBlanks(text, text.find(':', keyEnd) + 1);
    span.end = skipValue(text, span.value);
    if (text.substr(span.key + 1, keyEnd - span.key - 2) == field)
      return span;
    span.before = span.end;
    at = text.find(',', span.end);
    if (at == std::string_view::npos)
      return std::nullopt;
    ++at;
  }
}

std::string withoutField(std::string_view text, std::string_view field) {
  std::optional<FieldSpan> span = findField(text, field);
  if (!span)
    return std::string(text);
  size_t end = span->end, after = skipBlanks(text, end);
  // The first field takes the comma after it along, any other the one before.
  if (span->isFirst && after < text.size() && text[after] == ',')
    end = after + 1;
  std::string kept(text.substr(0, span->before));
  kept += text.substr(end);
  return kept;
}

std::string withString(std::string_view text, std::string_view field,
                       std::string_view value) {
  std::optional<FieldSpan> span = findField(text, field);
  if (!span)
    return std::string(text);
  std::string changed(text.substr(0, span->value));
  appendJsonString(changed, value);
  changed += text.substr(span->end);
  return changed;
}

} // namespace mbc::compiler
