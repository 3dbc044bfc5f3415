#include "compiler/Target/ImportRecord.h"

#include "compiler/Binding/QuantizedTensors.h"
#include "runtime/Json.h"
#include "runtime/Sha256.h"
#include "runtime/Version.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace mbc::compiler {

static constexpr int schema = 1;

std::string specHash(const std::string &text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.hex();
}

/// The name that a file of weights has on the way back:
/// pytorch_model-00001-of-00002.bin becomes model-00001-of-00002.safetensors.
static std::string safetensorsFile(std::string path) {
  constexpr std::string_view prefix = "pytorch_", suffix = ".bin";
  if (!path.ends_with(suffix))
    return path;
  path.replace(path.size() - suffix.size(), suffix.size(), ".safetensors");
  return path.starts_with(prefix) ? path.substr(prefix.size()) : path;
}

/// ["name","dtype","file"] a line: by far the largest part of the record, so
/// it is written directly.
static void appendTensors(std::string &out, const Checkpoint &checkpoint) {
  size_t bytes = 0;
  for (const StoredTensor &tensor : checkpoint.tensors)
    bytes += tensor.name.size() +
             checkpoint.files[tensor.pieces.front().file].path.size() + 24;
  out.reserve(out.size() + bytes);
  out += "\"tensors\": [";
  bool first = true;
  for (const StoredTensor &tensor : checkpoint.tensors) {
    out += first ? "\n [" : ",\n [";
    first = false;
    appendJsonString(out, tensor.name);
    out += ',';
    appendJsonString(out, safetensorsName(tensor.dtype));
    out += ',';
    appendJsonString(
        out,
        safetensorsFile(checkpoint.files[tensor.pieces.front().file].path));
    out += ']';
  }
  out += "]\n";
}

/// The forms that were taken with tensors that were quantised, or that were
/// not: those leave in the form that the spec prefers, unless they leave
/// quantised.
static std::set<std::string> takenForms(const BindInput &input,
                                        bool quantized) {
  std::set<std::string> forms;
  for (const dsl::Choice &choice : input.model.choices) {
    uint32_t tensor = input.checkpoint.find(choice.example);
    bool hasScales =
        tensor != Checkpoint::none &&
        scalesOf(input.checkpoint, input.checkpoint.tensors[tensor]) !=
            Checkpoint::none;
    if (hasScales == quantized)
      forms.insert(choice.form);
  }
  return forms;
}

std::string writeRecord(const BindInput &input, const Binding &binding,
                        const std::string &specName,
                        const std::string &specText) {
  Json head;
  head["schema"] = schema;
  head["mbc"] = version;
  head["spec"] = {{"name", specName}, {"sha256", specHash(specText)}};
  head["layout"] = input.layout.toString();
  head["vocab_size"] = input.model.vocabSize;
  head["padded_vocab_size"] = binding.paddedVocab;
  head["forms"] = takenForms(input, false);
  head["quantized_forms"] = takenForms(input, true);
  head["copies"] = binding.copies;
  head["dropped"] = binding.dropped;
  std::string text = head.dump(1);
  text.erase(text.find_last_of('}')); // the tensors follow in the same object
  while (text.back() == '\n')
    text.pop_back();
  text += ",\n";
  appendTensors(text, input.checkpoint);
  return text += "}\n";
}

static std::vector<std::string> strings(const Json &object, const char *field) {
  std::vector<std::string> list;
  if (auto it = object.find(field); it != object.end() && it->is_array())
    for (const Json &element : *it)
      if (element.is_string())
        list.push_back(element);
  return list;
}

Result<Record> readRecord(const std::string &text) {
  Result<Json> json = parseJson(text, "mbc/record.json");
  if (!json)
    return std::unexpected(json.error());
  if (!json->is_object() || json->value("schema", 0) != schema)
    return fail("mbc/record.json has schema {}, this mbc reads {}",
                json->is_object() ? json->value("schema", 0) : 0, schema);
  Record record;
  record.copies = strings(*json, "copies");
  record.forms = strings(*json, "forms");
  record.quantizedForms = strings(*json, "quantized_forms");
  if (auto it = json->find("spec"); it != json->end() && it->is_object()) {
    record.spec = it->value("name", std::string());
    record.specSha256 = it->value("sha256", std::string());
  }
  if (auto it = json->find("tensors"); it != json->end() && it->is_array())
    for (const Json &row : *it) {
      if (!row.is_array() || row.size() != 3 || !row[0].is_string() ||
          !row[1].is_string() || !row[2].is_string())
        return fail("mbc/record.json: a tensor is [name, dtype, file], not {}",
                    row.dump());
      std::optional<DType> dtype =
          dtypeFromSafetensors(row[1].get_ref<const std::string &>());
      if (!dtype)
        return fail("mbc/record.json: {} has the unknown dtype {}",
                    row[0].dump(), row[1].dump());
      record.tensors.push_back({row[0], *dtype, row[2]});
    }
  for (uint32_t i = 0; i != record.tensors.size(); ++i)
    record.byName.emplace(record.tensors[i].name, i);
  return record;
}

} // namespace mbc::compiler
